"""Console blocks of pages: each command with the output that it printed when a test ran it.

    ```console
    $ modelplane kubectl get md -n ml-team
    NAME    READY   AGE
    gemma   1/1     12s
    ```

A command goes on in lines that begin with `>`, and after a backslash at the end of a line. A line of `...`
stands for any number of lines, and `...` in a line for any text. Times, ports, addresses and the random ends
of names are not compared. With MODELPLANE_RECORD=1 a test writes what a command printed into the page, where
the page shows something else.
"""

import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RECORD = "MODELPLANE_RECORD"
OMITTED = "..."
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
"""A block of code of a page."""
_CONTINUED = re.compile(r">(?: |$)")
_MARK = "=== the next command of the page ==="
REPORT = f"printf '%s %s\\n' '{_MARK}' $?\n"
"""Line for a shell, after a command: it prints a mark and the status of the command."""
REPORTED = rf"{_MARK} (\d+)\n"
"""Pattern of the printed mark, with the status."""
_VARIES = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(?:Z|[+-]\d\d:?\d\d)"), "TIME"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:s|seconds?|minutes?|[kM]B)\b"), "AMOUNT"),
    (re.compile(r"\b(?:\d+(?:\.\d+)?(?:ms|[smhd]))+\b"), "AMOUNT"),
    (re.compile(r"\bsha256:[0-9a-f]{64}\b"), "sha256:DIGEST"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"(?<=[a-zA-Z]):\d{4,5}\b"), ":PORT"),
    (re.compile(r"-[0-9a-f]{8,10}-[a-z0-9]{5}\b|-[0-9a-f]{5,10}\b"), "-NAME"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-NAME"),
    (re.compile(r" {2,}"), " "),
    (re.compile(r"-{3,}"), "---"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a console block, and the output that the page shows."""

    command: str
    output: str

    def __str__(self) -> str:
        first, *rest = self.command.splitlines()
        return "\n".join(
            [f"$ {first}", *(f"> {line}".rstrip() for line in rest), *self.output.splitlines(), ""]
        )


def read_page(page: Path) -> tuple[tuple[Step, ...], ...]:
    """Return the steps of each console block of a page."""
    return tuple(read_steps(match["text"]) for match in _consoles(page.read_text()))


def lines_for_a_shell(page: Path) -> tuple[str, ...]:
    """Return each block of commands of a page, without outputs, in the order of the page."""
    return tuple(
        match["text"] if match["language"] == "bash" else join_commands(read_steps(match["text"]))
        for match in FENCE.finditer(page.read_text())
        if match["language"] in ("bash", "console")
    )


def join_commands(steps: Sequence[Step]) -> str:
    """Return the commands of steps, a line each."""
    return "".join(f"{step.command}\n" for step in steps)


def _consoles(text: str) -> Iterator["re.Match[str]"]:
    return (match for match in FENCE.finditer(text) if match["language"] == "console")


def read_steps(text: str) -> tuple[Step, ...]:
    """Return the steps of a block. Raises ValueError if an output comes before the first command."""
    steps: list[Step] = []
    for line in textwrap.dedent(text).splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], ""))
        elif not steps:
            raise ValueError(f"a console block begins with `$ `, not with {line!r}")
        elif not steps[-1].output and (more := _CONTINUED.match(line) or steps[-1].command.endswith("\\")):
            text = line if more is True else line[more.end() :]
            steps[-1] = Step(f"{steps[-1].command}\n{text}", "")
        else:
            steps[-1] = Step(steps[-1].command, f"{steps[-1].output}{line}\n")
    return tuple(steps)


def write_script(steps: Sequence[Step]) -> str:
    """Return lines for a shell that run the steps, with a mark and the status after the output of each."""
    commands = (f"{step.command}\n{REPORT}" for step in steps)
    return "exec 2>&1\nset +e\n" + "".join(commands)


def split_output(steps: Sequence[Step], printed: str) -> tuple[str, ...]:
    """Return the output of each step of a script.

    Fails where a command failed, but for those of Modelplane that report what does not fit with their status.
    """
    *outputs, rest = re.split(REPORTED, printed)
    assert (len(outputs), rest) == (2 * len(steps), ""), printed
    failed = [
        step.command
        for step, status in zip(steps, outputs[1::2], strict=True)
        if not is_answer(step, int(status))
    ]
    assert failed == [], f"{failed} failed:\n{printed}"
    return tuple(outputs[::2])


def is_answer(step: Step, status: int) -> bool:
    """Return true if a status is success, or if a command of Modelplane reports what does not fit."""
    return status == 0 or (status == 2 and step.command.startswith("modelplane "))


def is_shown(expected: str, printed: str) -> bool:
    """Return true if an output is that of a page, but for what varies and what the page omits."""
    parts = [
        "".join(
            f"{re.escape(_normalize(line)).replace(re.escape(OMITTED), '.*')}\n" for line in part.splitlines()
        )
        for part in re.split(rf"^{re.escape(OMITTED)}\n", expected, flags=re.MULTILINE)
    ]
    lines = "".join(f"{_normalize(line)}\n" for line in printed.splitlines())
    return re.fullmatch(r"(?:.*\n)*?".join(parts), lines) is not None


def _normalize(line: str) -> str:
    for pattern, shown in _VARIES:
        line = pattern.sub(shown, line)
    return line.rstrip()


def check_outputs(page: Path, steps: Sequence[Step], outputs: Sequence[str]) -> None:
    """Fail if a page shows other outputs than those; with MODELPLANE_RECORD=1, write these into the page."""
    assert len(steps) == len(outputs), outputs
    for step, printed in zip(steps, outputs, strict=True):
        if is_shown(step.output, printed):
            continue
        hint = f"run this test with {RECORD}=1 to write it into the page"
        assert is_recording(), f"{page}: `{step.command}` printed, {hint}:\n{printed}"
        lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
        _record(page, step, Step(step.command, lines))


def is_recording() -> bool:
    """Return true if outputs are written into the pages."""
    return bool(os.environ.get(RECORD))


def _record(page: Path, step: Step, printed: Step) -> None:
    """Replace the first step of a page that is that one: those before it were written already."""
    text = page.read_text()
    for match in _consoles(text):
        steps = list(read_steps(match["text"]))
        if step in steps:
            steps[steps.index(step)] = printed
            block = textwrap.indent("```console\n" + "".join(map(str, steps)) + "```", match["indent"])
            page.write_text(f"{text[: match.start()]}{block}{text[match.end() :]}")
            return

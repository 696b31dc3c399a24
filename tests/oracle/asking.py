"""The oracle: a process that answers as Kubernetes does, and the record of its answers.

One rule: a file of the record is a list of questions with their answers, so that asking again rewrites it.

A line is `[selector, estimate, answers]`, or `[selector, "refused"]`. `answers` is one text where all
devices give the same, else one by device: what the selector gives, and what that cost. A loop may be over a
map, which is visited in any order, so its cost is left out. In `differences.json` a fourth element is what we
answer instead.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
DEVICES: Final = HERE / "devices.json"
RECORD: Final = HERE.parent / "unit" / "cel" / "answers"
_TIMES: Final = 20  # an answer that depends on the order of a map shows in so many questions
_LOOP: Final = re.compile(r"\.(all|exists|exists_one|existsOne|filter|map|transform\w+)\(")

Answers = str | dict[str, str]


class Oracle:
    """A running oracle."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, **question: str) -> dict[str, Any]:
        """Ask one question."""
        sent, received = self._process.stdin, self._process.stdout
        if sent is None or received is None:
            raise ValueError("the oracle was started without pipes")
        sent.write(json.dumps(question) + "\n")
        sent.flush()
        answer: dict[str, Any] = json.loads(received.readline())
        return answer

    def selector(self, text: str) -> list[Any]:
        """Return the line of the record for a selector."""
        answer = self.ask(selector=text)
        if "refused" in answer:
            return [text, "refused"]
        loops = _LOOP.search(text) is not None and ("device" in text or "{" in text)
        again = _TIMES - 1 if loops else 0
        found = [answer["devices"], *(self.ask(selector=text)["devices"] for _ in range(again))]
        by_device = {
            name: _settled([each[name] for each in found], costed=not loops) for name in sorted(found[0])
        }
        return [text, answer["estimate"], merged(by_device)]

    def quantity(self, text: str) -> list[Any]:
        """Return the line of the record for a quantity: its value, and whether it is an integer."""
        answer = self.ask(quantity=text)
        return [text, answer.get("value"), None if "refused" in answer else answer.get("integer", False)]


def _settled(verdicts: list[dict[str, Any]], *, costed: bool) -> str:
    answer = " or ".join(sorted({each["answer"] for each in verdicts}))
    return f"{answer} {verdicts[0]['cost']}" if costed else answer


def merged(by_device: dict[str, str]) -> Answers:
    """Return one answer where all devices give the same."""
    return next(iter(by_device.values())) if len(set(by_device.values())) == 1 else by_device


def build(folder: Path) -> Path:
    """Build the oracle."""
    binary = folder / "oracle"
    subprocess.run(["go", "build", "-o", str(binary), "."], cwd=HERE, check=True)
    return binary


@contextmanager
def running(binary: Path) -> Iterator[Oracle]:
    """Run the oracle."""
    with subprocess.Popen(
        [str(binary), str(DEVICES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Oracle(process)


def recorded(path: Path) -> list[list[Any]]:
    """Return the lines of a file of the record."""
    lines: list[list[Any]] = json.loads(path.read_text())
    return lines


def answered_anew(oracle: Oracle, path: Path) -> list[list[Any]]:
    """Return what a file of the record would be today."""
    ask = oracle.quantity if path.stem == "texts_of_quantities" else oracle.selector
    return [_with_ours(ask(line[0]), line) for line in recorded(path)]


def _with_ours(line: list[Any], known: list[Any]) -> list[Any]:
    return [*line, *known[len(line) :]] if len(known) > 3 or known[1:2] == ["refused"] else line


def write(path: Path, lines: Iterable[list[Any]]) -> None:
    """Write a file of the record, a question a line."""
    text = ",\n".join(f"  {json.dumps(line, ensure_ascii=False)}" for line in lines)
    path.write_text(f"[\n{text}\n]\n")

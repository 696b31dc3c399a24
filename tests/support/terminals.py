"""A reader with a terminal: a shell that runs the steps of a page one after the other."""

import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from modelplane.local.home import Home
from support.patience import LOOK_S, PATIENCE_S
from support.transcripts import REPORT, REPORTED, Step, check_outputs, is_answer, is_recording, is_shown

ROOT = Path(__file__).resolve().parents[2]
_LOOK = re.compile(
    r"(?!.*(?:\bwhile\b|\bxargs\b|\s-w\b|--watch))(?:modelplane )?kubectl (?:get|describe|events|logs|top)\b"
    r"|modelplane (?:status|explain|usage|chat|key list|cluster list|doctor)\b|curl\b",
    re.DOTALL,
)
"""Commands that change nothing: a reader who sees something else runs them again."""
_KEY = re.compile(r"\bmpk_[0-9a-f]{48}\b")
"""A key of the gateway, of which a page shows the beginning."""
_SETTLED = 3
"""As often in a row a look prints the same before it is recorded."""
_TIMEOUT_S = 400.0
_LOOKS_S = float(PATIENCE_S)
_FAILED = re.compile(r"error|refused|denied|forbidden|timed out|not ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Terminal:
    """A running shell."""

    process: "subprocess.Popen[bytes]"
    replaced: Mapping[str, str]
    """Paths of this machine, with what a reader's terminal prints for them."""

    def run(self, command: str) -> tuple[str, int]:
        """Run a command, and return what it prints and its status. Fails if it doesn't end."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        # A command that reads the terminal must not read the commands after it.
        stdin.write(f"{{ {command}\n}} </dev/null\n{REPORT}".encode())
        stdin.flush()
        deadline = time.monotonic() + _TIMEOUT_S
        printed = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not (done := re.search(REPORTED.encode(), printed)):
                assert time.monotonic() < deadline, (
                    f"`{command}` does not end; it printed:\n{printed.decode()}"
                )
                if selector.select(timeout=1.0):
                    piece = os.read(stdout.fileno(), 65536)
                    assert piece, f"`{command}` ended the shell; it printed:\n{printed.decode()}"
                    printed += piece
        text = _KEY.sub("mpk_...", printed[: done.start()].decode())
        for path, shown in self.replaced.items():
            text = text.replace(path, shown)
        return text, int(done[1])

    def follow(
        self, page: Path, steps: Sequence[Step], instead: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        """Run steps of a page, compare each output with the page's, and return what they printed.

        A look is repeated until it prints what the page shows. Commands in ``instead`` are replaced.
        """
        told = ""
        for step in steps:
            command = instead.get(step.command, step.command)
            printed, status = self._look(step) if _LOOK.match(command) else self.run(command)
            assert _may_end_with(step, status), f"{page}: `{step.command}` failed ({status}):\n{printed}"
            check_outputs(page, [step], [printed])
            told += printed
        return told

    def _look(self, step: Step) -> tuple[str, int]:
        deadline = time.monotonic() + _LOOKS_S
        printed, status = self.run(step.command)
        same = 1
        while not is_shown(step.output, printed) and time.monotonic() < deadline:
            if is_recording() and same == _SETTLED:
                break
            time.sleep(LOOK_S)
            before = printed
            printed, status = self.run(step.command)
            same = same + 1 if is_shown(before, printed) else 1
        return printed, status


def _may_end_with(step: Step, status: int) -> bool:
    """Return true if a status is an answer, or that of an error that the page shows."""
    is_refusal = status == 1 and step.command.startswith("kubectl auth can-i ")
    return is_answer(step, status) or is_refusal or _FAILED.search(step.output) is not None


def write_programs(folder: Path, kubernetes_binary: Path) -> None:
    """Write the programs of the pages into a folder: kubectl, helm and modelplane."""
    for name, command in (
        *((name, shlex.join((str(kubernetes_binary.absolute()), name))) for name in ("kubectl", "helm")),
        ("modelplane", shlex.join((sys.executable, "-m", "modelplane.cli.main"))),
    ):
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o700)


def build_environment(home: Home, programs: Path) -> dict[str, str]:
    """Return the environment of a reader of a fleet."""
    return {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MODELPLANE_HOME": str(home.root),
        "KUBECONFIG": str(home.kubeconfig),
        # Another fleet may have had the same address, and other kinds.
        "KUBECACHEDIR": str(programs / "cache"),
    }


@contextmanager
def open_terminal(
    home: Home, programs: Path, folder: Path = ROOT, home_shown: str = "~/.local/share/modelplane"
) -> Iterator[Terminal]:
    """Start a shell in a folder, and end it with all that it has started in the background."""
    process = subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        env=os.environ | build_environment(home, programs),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    shown = {str(home.root): home_shown, str(folder): "~/modelplane"}
    try:
        yield Terminal(process, shown)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

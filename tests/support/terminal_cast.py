"""A recording of a terminal: lines that are typed into a real shell, and what it prints, as asciicast v2."""

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path

COLUMNS, ROWS = 100, 30
IDLE_S = 1.5
"""Players show a longer wait as one of this time."""

_TYPED_AT_ONCE = 6
_TYPING_S = 0.03
_READING_S = 0.8
_ENDED = "\x1b]133;D;"
_ASKED = "\x1b]133;B\x07"
_MARK = re.compile(r"\x1b\]133;(?:D;(\d+)|B)\x07")
"""What the shell's prompts have around what is seen: the exit status of the last line, and their end."""

_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>()][0-9A-B]?)")


@dataclass
class Recording:
    """Events of a recording: seconds since its start, ``o`` for output or ``m`` for a marker, and a text."""

    events: list[tuple[float, str, str]] = field(default_factory=list)
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Paths and names of this machine, and what is shown for each."""

    def write(self, path: Path, title: str) -> None:
        """Write it as asciicast v2: a line of JSON about it, and one for each event."""
        head = {
            "version": 2,
            "width": COLUMNS,
            "height": ROWS,
            "idle_time_limit": IDLE_S,
            "title": title,
            "env": {"TERM": "xterm-256color", "SHELL": "/bin/bash"},
        }
        lines = [json.dumps(head), *(json.dumps(event, ensure_ascii=False) for event in self.events)]
        path.write_text("\n".join(lines) + "\n")

    def add(self, at: float, text: str) -> None:
        """Add output, with what is shown for paths and names of this machine."""
        for secret, shown in self.replaced.items():
            text = text.replace(secret, shown)
        if text:
            self.events.append((round(at, 2), "o", text))


def shown(path: Path) -> str:
    """Return what a recording shows, as plain text. Raises ValueError if it is not asciicast v2."""
    head, *events = map(json.loads, path.read_text().splitlines())
    if head["version"] != 2:
        raise ValueError(f"{path}: version {head['version']}")
    return plain("".join(text for _, kind, text in events if kind == "o"))


def plain(output: str) -> str:
    """Return output of a terminal without its control sequences."""
    return _CONTROL.sub("", output).replace("\r\n", "\n").replace("\r", "\n")


class Terminal:
    """A shell in a terminal of its own, whose output is recorded."""

    def __init__(self, descriptor: int, recording: Recording) -> None:
        self._descriptor = descriptor
        self._recording = recording
        self._started = time.monotonic()
        self._held = ""

    def chapter(self, title: str) -> None:
        """Begin a chapter: players show where it is, and readers a comment."""
        self._recording.events.append((self._now(), "m", title))
        self.run(f"# {title}", 10)

    def run(self, block: str, timeout: float) -> None:
        """Type lines one after the other, each when the shell asks. Raises AssertionError if one fails."""
        for line in block.rstrip("\n").split("\n"):
            for start in range(0, len(line), _TYPED_AT_ONCE):
                os.write(self._descriptor, line[start : start + _TYPED_AT_ONCE].encode())
                time.sleep(_TYPING_S)
                self._read()
                self._flush(everything=True)
            os.write(self._descriptor, b"\n")
            status = self.until_asked(timeout)
            # With 2, commands of Modelplane report that something is not placed or not ready.
            reports = status == 2 and line.startswith("modelplane ")
            assert status in {None, 0} or reports, f"{line}: exit status {status}"
        self._pause()

    def until_asked(self, timeout: float) -> int | None:
        """Record output until the shell asks for a line, and return the exit status that it tells, if any."""
        deadline = time.monotonic() + timeout
        status = None
        while True:
            assert time.monotonic() < deadline, f"the shell does not ask for a line: {self._held[-500:]!r}"
            self._read()
            for match in _MARK.finditer(self._held):
                status = int(match[1]) if match[1] else status
            asked = self._held.endswith(_ASKED)
            self._flush(everything=asked)
            if asked:
                return status

    def _read(self) -> None:
        readable, _, _ = select.select([self._descriptor], [], [], 0.05)
        if readable:
            self._held += os.read(self._descriptor, 65536).decode(errors="replace")

    def _flush(self, *, everything: bool) -> None:
        """Record what is complete: whole lines, because a name of this machine may come in two parts."""
        end = len(self._held) if everything else self._held.rfind("\n") + 1
        text, self._held = self._held[:end], self._held[end:]
        self._recording.add(self._now(), _MARK.sub("", text))

    def _pause(self) -> None:
        time.sleep(_READING_S)

    def _now(self) -> float:
        return round(time.monotonic() - self._started, 2)


@contextmanager
def terminal(recording: Recording, folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Run a shell in a folder, whose environment is the given one."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    shell = subprocess.Popen(
        ["setsid", "--ctty", "bash", "--noprofile", "--norc", "--noediting", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={
            **environment,
            "TERM": "xterm-256color",
            "PS1": rf"{_ENDED}$?\a$ {_ASKED}",
            "PS2": f"> {_ASKED}",
            "HISTFILE": "/dev/null",
            "VIRTUAL_ENV_DISABLE_PROMPT": "1",
        },
    )
    os.close(theirs)
    try:
        found = Terminal(ours, recording)
        found.until_asked(10)
        yield found
    finally:
        with suppress(ProcessLookupError):
            shell.send_signal(signal.SIGHUP)
        os.close(ours)
        shell.wait(timeout=10)

# ruff: noqa: INP001  a script, not a package; it runs before anything is installed
"""Install Modelplane with extras into a virtual environment, with progress.

Usage: ``python package/environment.py STAMP EXTRAS``, in the root of the repository. STAMP is the file in the
environment that records that it was installed. A second run waits for the first. A failure is explained in
one sentence.
"""

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

OFFLINE = ("Retrying (", "from versions: none", "Failed to establish a new connection")
"""What pip prints if it gets no answer from the index of packages."""

_LINE_EVERY_S = 10.0


def main() -> int:
    """Install, and return the exit status."""
    stamp, extras = Path(sys.argv[1]), sys.argv[2]
    directory = stamp.parent
    # The lock is on a file that is there, so that it leaves nothing behind.
    with Path("pyproject.toml").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stdout.write(f"Waiting for another make that installs into {directory}\n")
            sys.stdout.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            if stamp.exists():
                return 0
        if problem := install(directory, extras):
            sys.stderr.write(f"{problem}\n")
            return 1
        stamp.touch()
    return 0


def install(directory: Path, extras: str) -> str:
    """Install Modelplane and extras into an environment, made if there is none; return the problem."""
    python = directory / "bin" / "python"
    has_pip = _succeeds([python, "-m", "pip", "--version"])
    if not has_pip and not _succeeds([sys.executable, "-m", "venv", "--clear", directory]):
        return (
            f"Cannot make a virtual environment in {directory}: install the venv module of Python "
            "(python3-venv in Debian and Ubuntu), and run the command again"
        )
    started = time.monotonic()
    sys.stdout.write(f"Installing Modelplane and its dependencies into {directory} (about a minute)\n")
    sys.stdout.flush()
    command: list[str | Path] = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    options = ["--progress-bar=off", "--retries=2", "--editable", f".[{extras}]"]
    printed: list[str] = []
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        for step in _steps(pip.stdout or (), printed):
            sys.stdout.write(step)
            sys.stdout.flush()
    if pip.returncode:
        return explain("".join(printed), directory)
    sys.stdout.write(f"Installed in {time.monotonic() - started:.0f} s\n")
    return ""


def _succeeds(command: Sequence[str | Path]) -> bool:
    """Return true if a command exists and succeeds."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _steps(lines: Iterable[str], printed: list[str]) -> Iterator[str]:
    """Yield what to show while pip prints: in a terminal one line that changes, else a line now and then."""
    is_terminal, shown, packages = sys.stdout.isatty(), time.monotonic(), 0
    for line in lines:
        printed.append(line)
        packages += line.startswith("Collecting ")
        if is_terminal:
            yield f"\r\x1b[K  {packages} packages: {line.strip()[:60]}"
        elif time.monotonic() - shown >= _LINE_EVERY_S:
            shown = time.monotonic()
            yield f"  {packages} packages\n"
    if is_terminal:
        yield "\r\x1b[K"


def explain(printed: str, directory: Path) -> str:
    """Return why pip failed, and what to do."""
    if any(text in printed for text in OFFLINE):
        return (
            f"Cannot install Modelplane's dependencies into {directory}: pip got no answer from the package "
            "index. Check the network connection or PIP_INDEX_URL, and run the command again"
        )
    last = "".join(f"  {line}\n" for line in printed.strip().splitlines()[-8:])
    return f"Cannot install Modelplane's dependencies into {directory}. pip's last lines:\n{last}".rstrip()


if __name__ == "__main__":
    sys.exit(main())

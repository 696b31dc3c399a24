"""The files of another commit, so that its code can run beside that of the working tree."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "checkouts"


def checkout_of(commit: str) -> Path:
    """Return a folder with the files of a commit, which the first of several processes makes."""
    sha = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    folder = FOLDER / sha
    if not folder.is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=FOLDER, prefix="unfinished-"))
        subprocess.run(("tar", "-x", "-C", str(unfinished)), input=_git("archive", sha), check=True)
        try:
            unfinished.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)
    return folder


def environment(checkout: Path) -> dict[str, str]:
    """Return this process' environment, but for a Python that runs the code of a checkout."""
    found = os.environ | {"PYTHONPATH": str(checkout / "src")}
    said = subprocess.run(
        (sys.executable, "-P", "-c", "import modelplane; print(modelplane.__file__)"),
        env=found,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert Path(said.stdout.strip()).is_relative_to(checkout), said.stdout
    return found


def _git(*arguments: str) -> bytes:
    return subprocess.run(("git", *arguments), cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout

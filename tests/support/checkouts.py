"""The files of another commit, so that its code can run beside that of the working tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "checkouts"


def checkout_of(commit: str) -> Path:
    """Return a folder with the files of a commit; it is made once."""
    sha = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    folder = FOLDER / sha
    if not folder.is_dir():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        subprocess.run(("tar", "-x", "-C", str(unfinished)), input=_git("archive", sha), check=True)
        unfinished.rename(folder)
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

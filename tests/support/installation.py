"""A Python of its own in which Modelplane is installed, and then another version of it in the same place."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path


class Installation:
    """What ``pip install modelplane`` makes, with the dependencies of this Python."""

    def __init__(self, root: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)
        # Links cost neither time nor room. What writes to this Python replaces files, and never changes one.
        shutil.copytree(sys.prefix, root, symlinks=True, copy_function=os.link)
        packages = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        self.python = str(root / Path(sys.executable).relative_to(sys.prefix))
        self._package = root / packages / "modelplane"
        for editable in (root / packages).glob("_editable_impl_modelplane*"):
            editable.unlink()

    def install(self, checkout: Path) -> None:
        """Replace the version that is installed, if any, by that of a checkout."""
        shutil.rmtree(self._package, ignore_errors=True)
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(checkout / "src" / "modelplane", self._package, ignore=without)
        shutil.copytree(checkout / "kubernetes", self._package / "_kubernetes")
        said = subprocess.run(
            (self.python, "-P", "-c", "import modelplane; print(modelplane.__file__)"),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert Path(said.stdout.strip()).parent == self._package

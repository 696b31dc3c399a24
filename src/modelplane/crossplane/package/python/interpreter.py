"""The running Python as files of an image: its executable and its standard library.

CPython finds its library relative to its executable, so both can move together.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.image_entries import File

_LEFT_OUT = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
    }
)
"""Folders of the standard library that a server does not need: tests, tools, site packages."""

_MODULES_LEFT_OUT = (
    "_ctypes_test.",
    "_curses",
    "_dbm.",
    "_gdbm.",
    "_test",
    "_tkinter.",
    "_xx",
    "nis.",
    "readline.",
    "xx",
)
"""Prefixes of compiled modules for tests, terminals, windows or old databases."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A local Python installation."""

    executable: Path
    library: Path
    version: str
    """Major and minor, such as ``3.12``."""

    def files(self, folder: str) -> Iterator[File]:
        """Yield its files below a folder of the image, which becomes its prefix."""
        yield File(self.executable_in(folder), self.executable, executable=True)
        for path in self._library():
            relative = path.relative_to(self.library).as_posix()
            yield File(f"{folder}/lib/python{self.version}/{relative}", path)

    def executable_in(self, folder: str) -> str:
        """Return the path of its executable in the image."""
        return f"{folder}/bin/python{self.version}"

    def _library(self) -> Iterator[Path]:
        for folder, folders, names in os.walk(self.library, followlinks=True):
            folders[:] = [
                name for name in folders if name not in _LEFT_OUT and not name.startswith("config-")
            ]
            found = (Path(folder) / name for name in names if not name.startswith(_MODULES_LEFT_OUT))
            # Some systems have links to files of packages that are not installed.
            yield from (path for path in found if path.is_file())


def running() -> Interpreter:
    """Return the running Python, also if it runs in a virtual environment."""
    if sys.platform != "linux":
        raise PackageError(
            f"cannot make a runtime from this Python: it is for {sys.platform}, and images are for Linux: "
            "give --runtime-image, an image made elsewhere"
        )
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Interpreter(Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib")), version)

"""The function's runtime image, built from the running Python without a container engine.

Three layers, by how often they change: Python with system libraries, dependencies, and Modelplane. There is
no shell in the image, and nothing is written at run time: Crossplane runs it as a user of its own.

The image contains only files of distributions. pip's records list them.

CPython finds its library relative to its executable, so both can move together.

The local loader lists shared libraries, with ``ldd``, because only it knows its search path. It is asked
only about programs that Modelplane runs anyway.
"""

import importlib.metadata
import json
import os
import re
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError
from itertools import chain
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

import modelplane
from modelplane.crossplane.package.oci import (
    ANYONE_MAY_WRITE,
    Blobs,
    Entry,
    File,
    Folder,
    Image,
    Json,
    this_platform,
)
from modelplane.user_error import UserError

_ELF = b"\x7fELF"
_AT_ONCE = 100
_LINE = re.compile(r"\s+(?P<name>\S+)(?: => (?P<path>not found|\S+))?(?: \(0x[0-9a-f]+\))?")
_LOADED_LATER = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Libraries that the C library loads on demand, if they exist."""


def libraries(files: Iterable[File], folder: str) -> tuple[File, ...]:
    """Return the libraries that files of an image need beside those files, and the loader.

    They are put into one folder of the image, and the loader where programs expect it.
    """
    programs = [file.source for file in files if isinstance(file.source, Path) and _is_elf(file.source)]
    present = {os.path.realpath(program) for program in programs}
    found: dict[str, File] = {}
    for name, path in _needed(programs):
        if os.path.realpath(path) in present:
            continue
        is_loader = "/" in name
        inside = name.removeprefix("/") if is_loader else f"{folder}/{name}"
        file = File(inside, path.resolve(), executable=is_loader)
        if found.setdefault(inside, file) != file:
            raise UserError(f"cannot make a runtime: there are two libraries {name}, one is {path.resolve()}")
    return tuple(found[inside] for inside in sorted(found))


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF


def _needed(programs: list[Path]) -> list[tuple[str, Path]]:
    found = []
    for first in range(0, len(programs), _AT_ONCE):
        some = programs[first : first + _AT_ONCE]
        for program, line in _answers(some):
            match = _LINE.fullmatch(line)
            if match is None or (match["path"] is None and "/" not in match["name"]):
                continue
            if match["path"] == "not found":
                raise UserError(
                    f"cannot make a runtime: {program} needs the library {match['name']}, and this machine "
                    "has none: install it, or give --runtime-image, an image made elsewhere"
                )
            found.append((match["name"], Path(match["path"] or match["name"])))
    beside = {path.parent for name, path in found if name.startswith(("libc.", "libpthread."))}
    later = ((name, folder / name) for folder in sorted(beside) for name in _LOADED_LATER)
    return found + [(name, path) for name, path in later if path.is_file()]


def _answers(programs: list[Path]) -> list[tuple[str, str]]:
    """Return each line of the loader's output, with the program that it is about."""
    command = ["ldd", *map(str, programs)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except FileNotFoundError as error:
        raise UserError(
            "cannot make a runtime: there is no ldd here, which tells the libraries that Python needs: "
            "install it, or give --runtime-image, an image made elsewhere"
        ) from error
    # For a single program, ldd does not print its name.
    answers, about = [], str(programs[0])
    for line in done.stdout.splitlines():
        if not line.startswith(("\t", " ")):
            about = line.removesuffix(":")
            continue
        answers.append((about, line))
    return answers


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
        for place, folders, names in os.walk(self.library, followlinks=True):
            folders[:] = [
                name for name in folders if name not in _LEFT_OUT and not name.startswith("config-")
            ]
            found = (Path(place) / name for name in names if not name.startswith(_MODULES_LEFT_OUT))
            # Some systems have links to files of packages that are not installed.
            for path in filter(Path.is_file, found):
                relative = path.relative_to(self.library).as_posix()
                yield File(f"{folder}/lib/python{self.version}/{relative}", path)

    def executable_in(self, folder: str) -> str:
        """Return the path of its executable in the image."""
        return f"{folder}/bin/python{self.version}"


def running() -> Interpreter:
    """Return the running Python, also if it runs in a virtual environment."""
    if sys.platform != "linux":
        raise UserError(
            f"cannot make a runtime from this Python: it is for {sys.platform}, and images are for Linux: "
            "give --runtime-image, an image made elsewhere"
        )
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Interpreter(Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib")), version)


NAME = "modelplane"
EXTRA = "function"

_REMEDY = f"run `pip install '.[{EXTRA}]'` in a checkout of Modelplane"
_OF_THIS_MACHINE = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""Files that pip writes for one installation; they differ between machines."""


def required() -> tuple[Distribution, ...]:
    """Return the distributions that the function needs, Modelplane's own first, the others by name."""
    own = _installed(NAME, NAME)
    if EXTRA not in (own.metadata.get_all("Provides-Extra") or ()):
        raise UserError(
            f'the installed {NAME} {own.version} knows no extra "{EXTRA}": install it again, '
            "or give --runtime-image, an image made elsewhere"
        )
    found: dict[str, Distribution] = {}
    waiting = [(own, requirement) for requirement in _needs(own, frozenset({EXTRA}))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        by, requirement = waiting.pop()
        key = (_key(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        distribution = _installed(requirement.name, by.name)
        found[key[0]] = distribution
        waiting += [(distribution, need) for need in _needs(distribution, key[1])]
    found.pop(NAME, None)
    return (own, *(found[name] for name in sorted(found)))


def files(distribution: Distribution, folder: str) -> Iterator[File]:
    """Yield the files of a distribution, below a folder of the image."""
    text = distribution.read_text("direct_url.json")
    editable = bool(text and json.loads(text).get("dir_info", {}).get("editable"))
    if editable and _key(distribution.name) != NAME:
        raise UserError(
            f"cannot put {distribution.name} into an image: it is installed in editable mode, so its files "
            "are not known: install it from a wheel"
        )
    if distribution.files is None:
        raise UserError(
            f"cannot put {distribution.name} into an image: no record of its files was kept: "
            f"make a virtual environment and {_REMEDY} in it"
        )
    for path in distribution.files:
        # Scripts are outside the folder of packages and contain the path of this machine's Python.
        if ".." in path.parts or not _is_content(path):
            continue
        if editable and not path.parts[0].endswith(".dist-info"):
            continue
        yield File(f"{folder}/{path.as_posix()}", Path(str(path.locate())))
    if editable:
        [source] = map(Path, modelplane.__path__)
        for own in source.rglob("*"):
            relative = own.relative_to(source.parent)
            if own.is_file() and _is_content(PurePosixPath(relative.as_posix())):
                yield File(f"{folder}/{relative.as_posix()}", own)


def _is_content(path: PurePosixPath) -> bool:
    noted = path.name in _OF_THIS_MACHINE and path.parts[0].endswith(".dist-info")
    return not noted and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".pth")


def _needs(distribution: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in distribution.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield requirement


def _installed(name: str, needed_by: str) -> Distribution:
    try:
        return importlib.metadata.distribution(name)
    except PackageNotFoundError as error:
        raise UserError(
            f"cannot make a runtime: {name}, which {needed_by} needs, is not installed: {_REMEDY}"
        ) from error


def _key(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


PREFIX = "usr/local"
LIBRARIES = f"{PREFIX}/lib"
PACKAGES = "app"
USER = 65532
PORT = 9443
COMMAND = "function"

_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
_KNOWN_CERTIFICATES = (f"/{_CERTIFICATES}", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def from_this_python(blobs: Blobs) -> Image:
    """Return an image of the running Python and of the function's dependencies."""
    platform = this_platform()
    python = running()
    own, *needed = required()
    base = list(python.files(PREFIX))
    packages = list(chain.from_iterable(files(distribution, PACKAGES) for distribution in needed))
    modelplane = list(files(own, PACKAGES))
    shared = libraries([*base, *packages, *modelplane], LIBRARIES)
    layers = ([*base, *shared, *_system()], packages, modelplane)
    config = _config(python.executable_in(f"/{PREFIX}"))
    return Image(platform, config, tuple(blobs.add_entries(layer) for layer in layers))


def _config(executable: str) -> Json:
    environment = {
        "HOME": "/tmp",  # noqa: S108 - the one world-writable folder of the image
        "LD_LIBRARY_PATH": f"/{LIBRARIES}",
        "PATH": f"/{PREFIX}/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"/{PACKAGES}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        "SSL_CERT_FILE": f"/{_CERTIFICATES}",
    }
    return {
        "Cmd": [COMMAND],
        "Entrypoint": [executable, "-m", "modelplane.cli.main"],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "ExposedPorts": {f"{PORT}/tcp": {}},
        "User": f"{USER}:{USER}",
        "WorkingDir": "/",
    }


def _system() -> list[Entry]:
    """Return the few files that the C library and TLS read."""
    accounts = f"root:x:0:0:root:/:/nologin\nmodelplane:x:{USER}:{USER}:Modelplane:/tmp:/nologin\n"
    entries: list[Entry] = [
        File("etc/group", f"root:x:0:\nmodelplane:x:{USER}:\n".encode()),
        File("etc/nsswitch.conf", b"hosts: files dns\n"),
        File("etc/passwd", accounts.encode()),
        Folder("tmp", ANYONE_MAY_WRITE),
    ]
    known = (ssl.get_default_verify_paths().cafile, *_KNOWN_CERTIFICATES)
    certificates = [Path(path) for path in known if path and Path(path).is_file()]
    return entries + [File(_CERTIFICATES, path.resolve()) for path in certificates[:1]]

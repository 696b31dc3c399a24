"""Shared libraries of programs and modules.

One rule: the local loader lists them, with ``ldd``, because only it knows its search path. It is asked only
about programs that Modelplane runs anyway.
"""

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.image_entries import File

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
            raise PackageError(
                f"cannot make a runtime: there are two libraries {name}, one is {path.resolve()}"
            )
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
                raise PackageError(
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
        raise PackageError(
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

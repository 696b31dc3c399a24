"""Distributions: the installed Python packages that the function needs, and their files.

One rule: the image contains only files of distributions. pip's records list them.
"""

import importlib.metadata
import json
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

import modelplane
from modelplane.crossplane.package.errors import PackageError
from modelplane.crossplane.package.images.image_entries import File

NAME = "modelplane"
EXTRA = "function"

_REMEDY = f"run `pip install '{NAME}[{EXTRA}]'`"
_OF_THIS_MACHINE = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})
"""Files that pip writes for one installation; they differ between machines."""


def required() -> tuple[Distribution, ...]:
    """Return the distributions that the function needs, Modelplane's own first, the others by name."""
    own = _installed(NAME, NAME)
    if EXTRA not in (own.metadata.get_all("Provides-Extra") or ()):
        raise PackageError(
            f'the installed {NAME} {own.version} knows no extra "{EXTRA}": install it anew, '
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
    editable = _is_editable(distribution)
    if editable and _key(distribution.name) != NAME:
        raise PackageError(
            f"cannot put {distribution.name} into an image: it is installed in editable mode, so its files "
            "are not known: install it from a wheel"
        )
    if distribution.files is None:
        raise PackageError(
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
        yield from _own_files(folder)


def _own_files(folder: str) -> Iterator[File]:
    [source] = map(Path, modelplane.__path__)
    for path in source.rglob("*"):
        relative = path.relative_to(source.parent)
        if path.is_file() and _is_content(PurePosixPath(relative.as_posix())):
            yield File(f"{folder}/{relative.as_posix()}", path)


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
        raise PackageError(
            f"cannot make a runtime: {name}, which {needed_by} needs, is not installed: {_REMEDY}"
        ) from error


def _is_editable(distribution: Distribution) -> bool:
    text = distribution.read_text("direct_url.json")
    return bool(text and json.loads(text).get("dir_info", {}).get("editable"))


def _key(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()

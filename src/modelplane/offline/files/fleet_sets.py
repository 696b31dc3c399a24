"""Sets of the manifests of a folder: each folder with a fleet of its own is one set.

An InferenceCluster is about the ModelDeployments of its folder and of the folders below it. If there are
none, it is about those of the nearest folder above it that has any: so ``clusters/`` and ``deployments/`` are
one set. Named files and standard input are one set with the folders that have no fleet.
"""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

_NO_FOLDER: Final = PurePosixPath()


class Placed(msgspec.Struct, frozen=True):
    """Origin of an object."""

    folder: PurePosixPath | None
    """The folder of its file; None if the command names the file itself."""
    is_cluster: bool
    is_deployment: bool


def split_by_fleet(objects: Sequence[tuple[Placed, T]]) -> list[list[T]]:
    """Return the objects by set, in the order in which they were read."""
    used = {above for placed, _ in objects if placed.is_deployment for above in _list_folders(placed)}
    clusters = {placed.folder for placed, _ in objects if placed.is_cluster and placed.folder is not None}
    fleets = {
        next((folder for folder in (own, *own.parents) if folder in used), _NO_FOLDER) for own in clusters
    }
    sets: dict[PurePosixPath, list[T]] = {}
    for placed, item in objects:
        fleet = next((folder for folder in _list_folders(placed) if folder in fleets), _NO_FOLDER)
        sets.setdefault(fleet, []).append(item)
    return [*sets.values()]


def _list_folders(placed: Placed) -> Iterable[PurePosixPath]:
    """Return the folder of an object and those above it, from the inside."""
    return () if placed.folder is None else (placed.folder, *placed.folder.parents)

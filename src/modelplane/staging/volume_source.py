"""Another volume of the namespace, which is mounted beside the cache's own."""

import shutil
from pathlib import Path
from typing import Any

from modelplane.staging.stage import MOST_FILES, Stage, safe
from modelplane.staging.web import Hopeless, Interrupted

MOUNT = Path("/mnt/source")


def fill_from_volume(source: dict[str, Any], stage: Stage) -> None:
    """Copy the files of a folder."""
    for name, real in _files(source):
        _copy(real, stage.folder / safe(name), stage)


def sizes_of_volume(source: dict[str, Any]) -> list[int]:
    """Return the size of each file."""
    return [real.stat().st_size for _, real in _files(source)]


def _files(source: dict[str, Any]) -> list[tuple[str, Path]]:
    """Return the files of a folder by name; links are followed within the volume only."""
    top = MOUNT / safe(source["path"]) if source.get("path") else MOUNT
    if not top.is_dir():
        raise Hopeless(f"the volume has no folder {source.get('path', '')!a}")
    found = sorted(path for path in top.rglob("*") if not path.is_dir() or path.is_symlink())
    found = [path for path in found if path.relative_to(top).parts[0] != "lost+found"]
    if not found or len(found) > MOST_FILES:
        raise Hopeless(f"the folder has {len(found)} files, and must have 1 to {MOST_FILES}")
    files = []
    for path in found:
        name, real = path.relative_to(top).as_posix(), path.resolve()
        if not real.is_relative_to(MOUNT.resolve()) or not real.is_file():
            raise Hopeless(f"{name[:255]!a} is no file of the volume")
        files.append((name, real))
    return files


def _copy(path: Path, target: Path, stage: Stage) -> None:
    before = path.stat()
    stage.spend(before.st_size)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    after = path.stat()
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    if not same or target.stat().st_size != before.st_size:
        raise Interrupted("a file changed while it was copied")

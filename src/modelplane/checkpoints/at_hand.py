"""Configurations at hand without a network: of a folder of checkpoints, or of the hub's local cache."""

import re
from pathlib import Path
from typing import Final

from modelplane.checkpoints.checkpoint import CONFIG
from modelplane.checkpoints.folder import Folder
from modelplane.sizing.architecture import MAX_CONFIG_BYTES
from modelplane.sizing.unsizable import Unsizable

_REPO: Final = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
_REVISION: Final = re.compile(r"[A-Za-z0-9_][\w./-]*", re.ASCII)


class AtHand:
    """Local configurations of repositories of the hub."""

    def __init__(self, checkpoints: Path | None = None) -> None:
        """Look in ``checkpoints/OWNER/NAME`` first, whatever the revision."""
        self._checkpoints = checkpoints

    def config(self, repo: str, revision: str = "") -> bytes | None:
        """Return the text of a repository's ``config.json``; None if it is not at hand, or not readable."""
        if not _REPO.fullmatch(repo):
            return None
        folder = self._checkpoints / repo if self._checkpoints else None
        if folder is None or not folder.is_dir():
            folder = _cached(repo, revision)
        if folder is None:
            return None
        try:
            return Folder(folder).content(CONFIG, MAX_CONFIG_BYTES)
        except (Unsizable, OSError):
            return None


def _cached(repo: str, revision: str) -> Path | None:
    """Return the folder of a snapshot in the hub's local cache."""
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        return None
    if revision and not _REVISION.fullmatch(revision):
        return None
    found = try_to_load_from_cache(repo, CONFIG, revision=revision or None)
    return Path(found).parent if isinstance(found, str) else None

"""Pages: the Markdown of the documentation and of the examples that come with Modelplane.

One source: the repository. A wheel carries a copy.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import modelplane
from modelplane.host.errors import LocalError

_PACKAGE = Path(modelplane.__file__).parent
_COPIES: Final = {
    "README.md": "_README.md",
    "docs": "_docs",
    "examples": "_examples",
    "skills": "_skills",
}
"""Places in the wheel, below the package, by those in the repository."""

WEIGHTS: Final = {"docs/decisions/": 0.7}
"""Weights of folders in the search: a decision explains a choice, and rarely how to do something."""


def load() -> dict[str, str]:
    """Return the text of each page by its path in the repository."""
    return {path: text for part in ("README.md", "docs", "examples") for path, text in _texts(part)}


def skills() -> dict[str, str]:
    """Return the text of each skill of agents by the name of its folder."""
    return {Path(path).parent.name: text for path, text in _texts("skills")}


def _texts(part: str) -> Iterator[tuple[str, str]]:
    root = _root(part)
    if root.is_file():
        yield part, root.read_text(encoding="utf-8")
        return
    for path in sorted(root.rglob("*.md")):
        yield f"{part}/{path.relative_to(root).as_posix()}", path.read_text(encoding="utf-8")


def _root(part: str) -> Path:
    for candidate in (_PACKAGE / _COPIES[part], _PACKAGE.parents[1] / part):
        if candidate.exists():
            return candidate
    raise LocalError("this installation lacks the documentation: reinstall Modelplane")

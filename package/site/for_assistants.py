"""``llms.txt`` and ``llms-full.txt`` of the site, for programs that index all of it."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

import contents

from modelplane.mcp import documentation

_TITLE: Final = "Modelplane"
_SUMMARY: Final = "A control plane for AI inference over a fleet of GPU clusters."


def write(
    pages: Mapping[PurePosixPath, str],
    sections: Iterable[contents.Section],
    places: contents.Places,
    folder: Path,
) -> None:
    """Write both files about the Markdown pages of the site; addresses are relative to its root."""
    parsed = documentation.parse({str(path): text for path, text in pages.items()})
    groups = {
        str(places[page]): section.title
        for section in sections
        for page in section.pages
        if not contents.is_outside(page)
    }
    groups[""] = documentation.OPTIONAL
    (folder / "llms.txt").write_text(documentation.build_index(_TITLE, _SUMMARY, parsed, groups, _address))
    (folder / "llms-full.txt").write_text(documentation.build_full(_TITLE, _SUMMARY, parsed, _address))


def _address(path: str) -> str:
    return f"/{path}"

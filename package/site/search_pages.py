"""Pages of the site as the search in the browser reads them."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import contents
import yaml

from modelplane.mcp import documentation

_TABLE: Final = Path(__file__).with_name("search.yaml")
_WEIGHTS: Final = {
    "docs/how-to/": 1.3,
    "docs/explanation/": 0.6,
    "docs/reference/commands/": 0.4,
    "examples/": 0.7,
    "skills/": 0.3,
}
_LAST: Final = 0.05
"""Weight of the pages outside of the navigation."""
_MARKS: Final = re.compile(
    r"^ *(?:```|~~~).*$|^\|[-|: ]+\|$|(?<!\\)\||^ *(?:[-*>]|\d+\.) (?:\[!\w+\])?|<[^>]*>", re.MULTILINE
)
"""Marks of code, tables, lists, callouts and HTML."""


def build(
    texts: Mapping[PurePosixPath, str], sections: Iterable[contents.Section], places: contents.Places
) -> str:
    """Return a script that sets the pages with their weights, and the synonyms.

    Raises ValueError if the table has words for a page that does not exist.
    """
    table = yaml.safe_load(_TABLE.read_text())
    parsed = {
        page.path: page for page in documentation.parse({str(path): text for path, text in texts.items()})
    }
    pages = [
        _page(parsed[str(page)], label, section.title, places[page], table["keywords"].get(str(page), ""))
        for section in sections
        for label, page in _labels(section)
    ]
    found = json.dumps({"pages": pages, "synonyms": table["synonyms"]}, separators=(",", ":"))
    return f"globalThis.searchPages = {found};\n"


def _labels(section: contents.Section) -> Iterable[tuple[str, PurePosixPath]]:
    for entry in section.entries:
        yield entry.label, entry.page
        for page in entry.following:
            yield "", page


def _page(
    page: documentation.Page, label: str, section: str, place: PurePosixPath, keywords: str
) -> dict[str, Any]:
    last = contents.is_outside(PurePosixPath(page.path))
    weight = next((weight for start, weight in _WEIGHTS.items() if page.path.startswith(start)), 1.0)
    return {
        "title": page.title,
        "label": label,
        "section": section,
        "address": f"{place.parent}/" if place.name == "index.md" else f"{place.with_suffix('')}/",
        "keywords": keywords,
        "weight": _LAST if last else weight,
        "last": last,
        "sections": [
            {
                "heading": each.heading,
                "anchor": each.anchor,
                "text": " ".join(documentation.clean_text(_MARKS.sub(" ", each.text)).split()),
            }
            for each in page.sections
        ],
    }

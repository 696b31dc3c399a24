"""Tools of the documentation: search, and pages as Markdown."""

import asyncio
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Final

import modelplane
from modelplane.host.errors import LocalError
from modelplane.mcp.documentation import OPTIONAL, Hit, Index, Page, build_index, parse
from modelplane.user_error import UserError

INDEX: Final = "llms.txt"
"""Name of the index of all pages."""

TITLE: Final = "Modelplane"
SUMMARY: Final = "The open-source control plane for AI inference over a fleet of GPU clusters."
GROUPS: Final = {
    "README": "Overview",
    "docs/README": "Overview",
    "docs/how-to/": "How to",
    "docs/explanation/": "Explanation",
    "docs/reference/": "Reference",
    "examples/": "Examples",
    "docs/decisions/": OPTIONAL,
}
"""Sections of the index by the beginnings of paths."""

_HITS: Final = 8
_MOST_OF_A_QUERY: Final = 500
_MOST_OF_A_PAGE: Final = 60_000
"""Characters of a page; a longer one is read in sections."""

_PACKAGE = Path(modelplane.__file__).parent

_COPIES: Final = {"README.md": "_README.md", "docs": "_docs", "examples": "_examples", "skills": "_skills"}
"""Places in the wheel, below the package, by those in the repository."""

WEIGHTS: Final = {"docs/decisions/": 0.7}
"""Weights of folders in the search: a decision explains a choice, and rarely how to do something."""


class DocumentationTools:
    """The tools, over the pages that come with Modelplane."""

    def __init__(self, texts: Mapping[str, str], weights: Mapping[str, float]) -> None:
        self._texts = texts
        self._weights = weights

    @cached_property
    def _pages(self) -> Mapping[str, Page]:
        return {page.path: page for page in parse(self._texts)}

    @cached_property
    def _index(self) -> Index:
        return Index(tuple(self._pages.values()), self._weights)

    async def search(self, query: str) -> str:
        """Return the sections that fit a query, the best first."""
        hits = await asyncio.to_thread(lambda: self._index.search(query[:_MOST_OF_A_QUERY], _HITS))
        if not hits:
            return f"Nothing found. Use other words, or read the page {INDEX}, which lists all pages."
        return "\n\n".join(f"{number}. {_format_hit(hit)}" for number, hit in enumerate(hits, 1))

    async def read_page(self, name: str) -> str:
        """Return a page, or the section that an anchor names. Raises ``UserError``."""
        path, _, anchor = name.strip().partition("#")
        if path.strip("/") in (INDEX, ""):
            return build_index(TITLE, SUMMARY, self._pages.values(), GROUPS)
        page = self._find(path)
        if anchor:
            return _find_section(page, anchor)
        if len(page.markdown) <= _MOST_OF_A_PAGE:
            return page.markdown
        cut = page.markdown[:_MOST_OF_A_PAGE].rpartition("\n")[0]
        return f"{cut}\n\n(cut here: read {page.path}#ANCHOR, with one of {_list_anchors(page)})\n"

    def _find(self, path: str) -> Page:
        """Return the page of a path, also without its ending or the folder ``docs``. Raises ``UserError``."""
        stem = path.strip("/").removeprefix("./").removesuffix("/index.md").removesuffix(".md")
        for candidate in (stem, f"{stem}/README", f"docs/{stem}"):
            if page := self._pages.get(f"{candidate}.md"):
                return page
        near = get_close_matches(f"docs/{stem[:100]}.md", self._pages, n=3)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise UserError(f'there is no page "{path[:100]}": {meant}The page {INDEX} lists all pages')


def _format_hit(hit: Hit) -> str:
    anchor = f"#{hit.section.anchor}" if hit.section.anchor else ""
    return f"{' > '.join(hit.section.trail)}\n   page: {hit.page.path}{anchor}\n   {hit.snippet}"


def _find_section(page: Page, anchor: str) -> str:
    """Return a section with those below it. Raises ``UserError``."""
    start = next((number for number, section in enumerate(page.sections) if section.anchor == anchor), None)
    if start is None:
        raise UserError(f'{page.path} has no section "{anchor[:100]}": name one of {_list_anchors(page)}')
    first, *later = page.sections[start:]
    below = takewhile(lambda section: len(section.trail) > len(first.trail), later)
    texts = (f"{'#' * len(part.trail)} {part.heading}\n\n{part.text}" for part in (first, *below))
    return "\n\n".join(texts) + "\n"


def _list_anchors(page: Page) -> str:
    return ", ".join(section.anchor for section in page.sections[1:])


def load_pages() -> dict[str, str]:
    """Return the text of each page by its path in the repository."""
    return {path: text for part in ("README.md", "docs", "examples") for path, text in _read_texts(part)}


def load_skills() -> dict[str, str]:
    """Return the text of each skill of agents by the name of its folder."""
    return {Path(path).parent.name: text for path, text in _read_texts("skills")}


def _read_texts(part: str) -> Iterator[tuple[str, str]]:
    root = _find_root(part)
    if root.is_file():
        yield part, root.read_text(encoding="utf-8")
        return
    for path in sorted(root.rglob("*.md")):
        yield f"{part}/{path.relative_to(root).as_posix()}", path.read_text(encoding="utf-8")


def _find_root(part: str) -> Path:
    for candidate in (_PACKAGE / _COPIES[part], _PACKAGE.parents[1] / part):
        if candidate.exists():
            return candidate
    raise LocalError("this installation lacks the documentation: reinstall Modelplane")

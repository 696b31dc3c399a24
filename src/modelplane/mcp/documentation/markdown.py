"""Markdown pages: title, summary, and sections with the anchors that GitHub gives them."""

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})")
_HEADING: Final = re.compile(r"(#{1,6}) +(.+?) *#*$")
_FRONT_MATTER: Final = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"^([a-z-]+): *(.+)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_LINK_TO_PAGE: Final = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+\.md)\)")
_SENTENCE: Final = re.compile(r".+?[.?!](?=\s|$)")
_LABEL: Final = re.compile(r"\*\*[^*]+[.:]\*\*\s+")
_NOT_PROSE: Final = ("|", "```", "~~~", "![", "- ", "* ", ">", "#", "1. ")


@dataclass(frozen=True, slots=True)
class Section:
    """Text below one heading, without that of the headings below it."""

    trail: tuple[str, ...]
    """Headings from the page's title down to the section's own."""
    anchor: str
    """Empty for the text below the title."""
    text: str

    @property
    def heading(self) -> str:
        """Its own heading."""
        return self.trail[-1]


@dataclass(frozen=True, slots=True)
class Page:
    """One page; ``path`` names it."""

    path: str
    title: str
    summary: str
    """First sentence of prose; empty if there is none."""
    markdown: str
    """The page without front matter and comments."""
    sections: tuple[Section, ...]
    linked_as: tuple[str, ...] = ()
    """Names that other pages give it: the words of their links, and the rows of tables with such a link."""


def parse(texts: Mapping[str, str]) -> tuple[Page, ...]:
    """Return the pages of texts, in their order."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for path, text in texts.items():
        for target, text_of_link in _links(path, text):
            names[target].append(text_of_link)
    return tuple(_page(path, text, tuple(names.get(path, ()))) for path, text in texts.items())


def split_front_matter(text: str) -> tuple[Mapping[str, str], str]:
    """Return the fields before a page, each on one line, and the page without them."""
    match = _FRONT_MATTER.match(text)
    if not match:
        return {}, text
    return dict(_FIELD.findall(match[1])), text[match.end() :].lstrip("\n")


def clean_text(text: str) -> str:
    """Return text with links reduced to their words, and without the marks of code and emphasis."""
    return re.sub(r"`|\*\*", "", _LINK.sub(r"\1", text))


def _links(path: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the pages that a page links to as a whole, and what it calls them."""
    for line in text.splitlines():
        for words, target in _LINK_TO_PAGE.findall(line):
            other = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if other != path:
                yield other, clean_text(line if line.startswith("|") else words)


def _page(path: str, text: str, linked_as: tuple[str, ...]) -> Page:
    _, text = split_front_matter(text.replace("\r\n", "\n"))
    body = _COMMENT.sub("", text).strip()
    sections = tuple(_sections(path, body))
    summary = next((sentence for section in sections if (sentence := _first_sentence(section.text))), "")
    return Page(path, sections[0].trail[0], summary, f"{body}\n", sections, linked_as)


def _sections(path: str, body: str) -> Iterator[Section]:
    trail: list[tuple[int, str]] = []
    anchors: Counter[str] = Counter()
    anchor, lines = "", []
    for line, in_code in _lines(body):
        match = None if in_code else _HEADING.match(line)
        if not match:
            lines.append(line)
            continue
        if trail or any(lines):
            yield _section(trail, path, anchor, lines)
        level, heading = len(match[1]), clean_text(match[2])
        trail = [*(above for above in trail if above[0] < level), (level, heading)]
        anchor, lines = _anchor(heading, anchors) if len(trail) > 1 else "", []
    yield _section(trail, path, anchor, lines)


def _section(trail: list[tuple[int, str]], path: str, anchor: str, lines: list[str]) -> Section:
    return Section(tuple(heading for _, heading in trail) or (path,), anchor, "\n".join(lines).strip())


def _lines(body: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and True if it is of a block of code."""
    fence = ""
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
            yield line, True
        elif mark and mark[1].startswith(fence) and not line.strip(" `~"):
            fence = ""
            yield line, True
        else:
            yield line, bool(fence)


def _anchor(heading: str, taken: Counter[str]) -> str:
    name = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}-{taken[name] - 1}"


def _first_sentence(text: str) -> str | None:
    for block in re.split(r"\n\s*\n", text):
        if block.strip() and not block.lstrip().startswith(_NOT_PROSE):
            words = " ".join(clean_text(_LABEL.sub("", block.lstrip(), count=1)).split())
            match = _SENTENCE.match(words)
            return match[0] if match else words
    return None

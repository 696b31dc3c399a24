"""Documentation for programs: parsed Markdown, a search, and the files ``llms.txt``.

The input is a mapping from the path of a page to its Markdown. Nothing here needs the MCP SDK.

A page has a title, a summary, and sections with the anchors that GitHub gives them.

The form of ``llms.txt`` is that of https://llmstxt.org: a title, a summary as a quotation, and a list of
links below each heading. The section ``Optional`` holds what a reader with little room leaves out.

The search is BM25 over weighted fields (BM25F). A section's fields are the title of its page, its headings,
the words of the path, and its text. The page as a whole is scored in the same way, so that words in different
sections of a page count together.
"""

import math
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import snowballstemmer

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

OPTIONAL = "Optional"
_K1: Final = 3.0
"""Saturation. It is above the usual 1.2, because the weights of fields multiply the counts."""
_B: Final = 0.6
"""Share of the length in the score."""
_TITLE: Final = 4.0
_HEADINGS: Final = 2.5
_PATH: Final = 2.0
_LINKS: Final = 2.0
_WHOLE_PAGE: Final = 0.5
"""Share of the score of the page in the score of a hit."""
_SNIPPET: Final = 280
"""Characters of a snippet."""
_CONSOLE: Final = re.compile(r"^ *```console\n.*?^ *```$", re.DOTALL | re.MULTILINE)
_COMMAND: Final = re.compile(r"^ *[$>] .*", re.MULTILINE)
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_STEMMER: Final = snowballstemmer.stemmer("english")
_TABLE: Final = re.compile(r"\|[-|: ]*")
_STOP_WORDS: Final = """
a an and any are as at be by can could do does for from has have how i if in into is it its may me my need
of on one or over should so such than that the their them then there these this to use was what when where
which while who why will with without would you your
"""
_STOP: Final = frozenset(_STOP_WORDS.split())


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


def build_index(
    title: str,
    summary: str,
    pages: Iterable[Page],
    groups: Mapping[str, str],
    address: Callable[[str], str] = str,
) -> str:
    """Return ``llms.txt``.

    ``groups`` maps the beginning of a path to the heading of its section: the first one that fits counts,
    and the sections have the order of the headings. A page that fits none is left out. ``address`` maps a
    path to the target of its link.
    """
    sections: dict[str, list[str]] = {heading: [] for heading in groups.values()}
    for page in pages:
        heading = next((name for start, name in groups.items() if page.path.startswith(start)), None)
        if heading is not None:
            about = f": {page.summary}" if page.summary else ""
            sections[heading].append(f"- [{page.title}]({address(page.path)}){about}")
    told = (f"## {heading}\n\n" + "\n".join(lines) for heading, lines in sections.items() if lines)
    return "\n\n".join((f"# {title}", f"> {summary}", *told)) + "\n"


def build_full(title: str, summary: str, pages: Sequence[Page], address: Callable[[str], str] = str) -> str:
    """Return ``llms-full.txt``: each page with its source, separated by rules."""
    told = (_with_source(page, address(page.path)) for page in pages)
    return "\n---\n\n".join((f"# {title}\n\n> {summary}\n", *told))


def _with_source(page: Page, source: str) -> str:
    body = page.markdown.strip()
    heading = f"# {page.title}"
    if body.startswith("# "):
        heading, _, body = body.partition("\n")
    return f"{heading}\n\nSource: {source}\n\n{body.strip()}\n"


@dataclass(frozen=True, slots=True)
class Hit:
    """A page, and the section of it that fits best."""

    page: Page
    section: Section
    snippet: str
    score: float


@dataclass(frozen=True, slots=True)
class _Scored:
    """A document: weighted counts of its terms, and their sum."""

    terms: Mapping[str, float]
    length: float


class Index:
    """The words of pages, counted once."""

    def __init__(self, pages: Sequence[Page], weights: Mapping[str, float] | None = None) -> None:
        """``weights`` multiplies the scores of the pages below a folder; by default all count the same."""
        self._pages = pages
        self._weights = weights or {}
        self._sections = [(page, section) for page in pages for section in page.sections]
        self._by_section = _Bm25([_of_section(page, section) for page, section in self._sections])
        self._by_page = _Bm25([_of_page(page) for page in pages])

    def search(self, query: str, limit: int) -> tuple[Hit, ...]:
        """Return the pages that fit a query, the best first."""
        query_terms = tuple(dict.fromkeys(split_terms(query)))
        whole = dict(zip((page.path for page in self._pages), self._by_page.score(query_terms), strict=True))
        best: dict[str, tuple[float, Page, Section]] = {}
        for (page, section), score in zip(self._sections, self._by_section.score(query_terms), strict=True):
            total = (score + _WHOLE_PAGE * whole[page.path]) * self._weight(page.path)
            if total > best.get(page.path, (0.0,))[0]:
                best[page.path] = (total, page, section)
        hits = sorted(best.values(), key=lambda hit: (-hit[0], hit[1].path))
        return tuple(
            Hit(page, section, _snippet(section, query_terms), score) for score, page, section in hits[:limit]
        )

    def _weight(self, path: str) -> float:
        return next((weight for below, weight in self._weights.items() if path.startswith(below)), 1.0)


class _Bm25:
    """BM25 over weighted counts."""

    def __init__(self, documents: Sequence[_Scored]) -> None:
        self._documents = documents
        self._average = sum(document.length for document in documents) / len(documents) if documents else 1.0
        having: Counter[str] = Counter()
        for document in documents:
            having.update(document.terms.keys())
        self._rarity = {
            term: math.log(1 + (len(documents) - count + 0.5) / (count + 0.5))
            for term, count in having.items()
        }

    def score(self, query_terms: Iterable[str]) -> list[float]:
        """Return the score of each document."""
        rarities = [(term, self._rarity[term]) for term in query_terms if term in self._rarity]
        return [self._score(document, rarities) for document in self._documents]

    def _score(self, document: _Scored, rarities: Iterable[tuple[str, float]]) -> float:
        norm = _K1 * (1 - _B + _B * document.length / self._average)
        frequencies = ((document.terms.get(term, 0.0), rarity) for term, rarity in rarities)
        return sum(rarity * count * (_K1 + 1) / (count + norm) for count, rarity in frequencies if count)


def split_terms(text: str) -> Iterator[str]:
    """Yield the stems of the words of a text; a word of several humps also as a whole."""
    for word in re.findall(r"[A-Za-z0-9]+", text):
        parts = _HUMPS.sub(" ", word).lower().split()
        whole = [word.lower()] if len(parts) > 1 else []
        yield from (_stem(word) for word in (*whole, *parts) if word not in _STOP)


@cache
def _stem(word: str) -> str:
    return str(_STEMMER.stemWord(word))


def _of_section(page: Page, section: Section) -> _Scored:
    headings = " ".join(section.trail[1:])
    fields = (
        (page.title, _TITLE),
        (headings, _HEADINGS),
        (page.path, _PATH),
        (_read_words(section), 1.0),
    )
    links = " ".join(page.linked_as) if section is page.sections[0] else ""
    return _counted((*fields, (links, _LINKS)))


def _of_page(page: Page) -> _Scored:
    headings = " ".join(section.heading for section in page.sections[1:])
    text = " ".join(_read_words(section) for section in page.sections)
    links = " ".join(page.linked_as)
    return _counted(
        ((page.title, _TITLE), (headings, _HEADINGS), (page.path, _PATH), (links, _LINKS), (text, 1.0))
    )


def _read_words(section: Section) -> str:
    """Return the text of a section; the outputs of its commands are left out, as no page is about them."""
    return clean_text(_CONSOLE.sub(lambda console: "\n".join(_COMMAND.findall(console[0])), section.text))


def _counted(fields: Iterable[tuple[str, float]]) -> _Scored:
    counts: defaultdict[str, float] = defaultdict(float)
    for text, weight in fields:
        for term in split_terms(text):
            counts[term] += weight
    return _Scored(counts, sum(counts.values()))


def _snippet(section: Section, query_terms: Sequence[str]) -> str:
    """Return the part of a section with most of the wanted words."""
    text = " ".join(_TABLE.sub(" ", clean_text(section.text)).split())
    if len(text) <= _SNIPPET:
        return text
    starts = [0, *(match.end() for match in re.finditer(r"[.:] ", text))]
    meant = set(query_terms)

    def found_in(start: int) -> tuple[int, int]:
        return len(meant.intersection(split_terms(text[start : start + _SNIPPET]))), -start

    start = max(starts, key=found_in)
    told = text[start : start + _SNIPPET]
    return f"{'... ' if start else ''}{told}{' ...' if start + _SNIPPET < len(text) else ''}"

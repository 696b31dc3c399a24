"""Search of pages: BM25 over weighted fields (BM25F), by section, with one hit for each page.

A section's fields are the title of its page, its headings, the words of the path, and its text. The page as
a whole is scored in the same way, so that words in different sections of a page count together.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import snowballstemmer

from modelplane.mcp.documentation.markdown import Page, Section, clean_text

_K1: Final = 3.0
"""Saturation. It is above the usual 1.2, because the weights of fields multiply the counts."""
_B: Final = 0.6
"""Share of the length in the score."""
_TITLE: Final = 4.0
_HEADING: Final = 2.5
_PATH: Final = 2.0
_LINKS: Final = 2.0
_WHOLE_PAGE: Final = 0.5
"""Share of the score of the page in the score of a hit."""
_SNIPPET: Final = 280
"""Characters of a snippet."""

_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_STEMMER: Final = snowballstemmer.stemmer("english")
_TABLE: Final = re.compile(r"\|[-|: ]*")
_STOP_WORDS: Final = """
a an and any are as at be by can could do does for from has have how i if in into is it its may me my need of
on one or over should so such than that the their them then there these this to use was what when where which
while who why will with without would you your
"""
_STOP: Final = frozenset(_STOP_WORDS.split())


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
        scores = self._by_section.score(query_terms)
        for (page, section), score in zip(self._sections, scores, strict=True):
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
    fields = ((page.title, _TITLE), (headings, _HEADING), (page.path, _PATH), (clean_text(section.text), 1.0))
    links = " ".join(page.linked_as) if section is page.sections[0] else ""
    return _counted((*fields, (links, _LINKS)))


def _of_page(page: Page) -> _Scored:
    headings = " ".join(section.heading for section in page.sections[1:])
    text = " ".join(clean_text(section.text) for section in page.sections)
    links = " ".join(page.linked_as)
    return _counted(
        ((page.title, _TITLE), (headings, _HEADING), (page.path, _PATH), (links, _LINKS), (text, 1.0))
    )


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

"""A text that cannot be read as YAML, and what to do about it.

One rule: a parser says what it was doing; a sentence here says what the author did.
"""

from typing import Any, Final, NamedTuple

from yaml.error import MarkedYAMLError
from yaml.reader import ReaderError

from modelplane.offline.wording import shortened


class Place(NamedTuple):
    """Where something stands in a file, counted from 1."""

    line: int
    column: int


class Unreadable(Exception):
    """A document that cannot be read, and where."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


_UNALIGNED: Final = "the line is indented unlike its neighbours: align it with them"
_PROBLEMS: Final = (
    (
        "mapping values are not allowed",
        'a ":" is not expected here: align the line with its neighbours, or put the value in quotes',
    ),
    ("sequence entries are not allowed", 'a list cannot begin here: put each "- " on a line below its key'),
    ("expected node content", 'a value is missing: give one, and close what is open with "]" or "}"'),
    ("did not find expected key", _UNALIGNED),
    ("did not find expected '-' indicator", _UNALIGNED),
    ("expected <block end>, but found", _UNALIGNED),
    ("could not find expected ':'", 'the line is neither "name: value" nor part of one: add the ": "'),
    ("found unexpected end of stream", "the quote is not closed: add the one at its end"),
    ("found unexpected document", "the quote is not closed: add the one at its end"),
    ("expected ',' or ']'", 'the "[" is not closed: add a "," or the "]"'),
    ("expected ',' or '}'", 'the "{" is not closed: add a "," or the "}"'),
    (
        "document start",
        'what follows is not part of the document: begin another with "---", and leave % directives out',
    ),
    ("unknown escape character", "there is no such escape: write \\\\ for a backslash, or use single quotes"),
)
_OPENED: Final = ("while scanning a quoted scalar", "while parsing a flow")
"""Where the fault is what was opened, not where the parser gave up."""


def explained(error: MarkedYAMLError, text: str, line: int) -> Unreadable:
    """Return what is wrong with a text that begins after so many lines of its file."""
    problem = error.problem or ""
    opened = error.context_mark is not None and str(error.context).startswith(_OPENED)
    mark = error.context_mark if opened else error.problem_mark or error.context_mark
    place = Place(line + mark.line + 1, mark.column + 1) if mark else Place(line + 1, 1)
    if "cannot start any token" in problem and mark is not None:
        return Unreadable(_unstartable(text, mark), place)
    for known, sentence in _PROBLEMS:
        if known in problem:
            return Unreadable(sentence, place)
    return Unreadable(f"this is not YAML: {shortened(problem) or 'it cannot be parsed'}", place)


def _unstartable(text: str, mark: Any) -> str:
    character = text[mark.index : mark.index + 1]
    if character == "\t":
        return "a tab cannot indent YAML: use spaces"
    return f"a value cannot begin with {shortened(character)} unless it is in quotes"


def not_text(error: ReaderError, text: str, line: int) -> Unreadable:
    """Return the same for a character that no YAML may have."""
    position = error.position if isinstance(error.position, int) else 0
    before = text[:position]
    place = Place(line + before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    return Unreadable("this is not text: YAML has no control characters", place)

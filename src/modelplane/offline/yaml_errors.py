"""A text that cannot be read as YAML, and what to do about it.

One rule: a parser says what it was doing; a sentence here says what the author did.
"""

import re
from collections.abc import Callable
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
_ESCAPE: Final = "there is no such escape: write \\\\ for a backslash, or use single quotes"
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
    ("unknown escape character", _ESCAPE),
    ("expected hexdecimal number", _ESCAPE),
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
    for find in _CAUSES:
        if (cause := find(problem, text.split("\n"), mark)) is not None:
            sentence, found = cause
            return Unreadable(sentence, Place(line + found.line, found.column))
    for known, sentence in _PROBLEMS:
        if known in problem:
            return Unreadable(sentence, place)
    return Unreadable(f"this is not YAML: {shortened(problem) or 'it cannot be parsed'}", place)


def _unstartable(text: str, mark: Any) -> str:
    character = text[mark.index : mark.index + 1]
    if character == "\t":
        return "a tab cannot indent YAML: use spaces"
    return f"a value cannot begin with {shortened(character)} unless it is in quotes"


_Cause = tuple[str, Place] | None
_BLANKS: Final = re.compile(r"[^\S\t\r\n ]")
_NO_SPACE: Final = re.compile(r"\s*(?:- )*[A-Za-z][\w.-]*(:)[^\s:/]\S*\s*")


def _other_blank(_problem: str, lines: list[str], mark: Any) -> _Cause:
    """Find a blank that looks like a space and is none, where a line is indented by it."""
    for number in _and_before(lines, mark):
        text = lines[number - 1]
        if found := _BLANKS.search(text[: len(text) - len(text.lstrip())]):
            return "a no-break space cannot indent YAML: use plain spaces", Place(number, found.start() + 1)
    return None


def _no_space(problem: str, lines: list[str], mark: Any) -> _Cause:
    """Find a name that took its value with it, so that the next line seems to go on with it."""
    if "mapping values are not allowed" not in problem and "could not find expected ':'" not in problem:
        return None
    for number in _and_before(lines, mark):
        if found := _NO_SPACE.fullmatch(lines[number - 1]):
            return 'a space is missing behind the ":": add it', Place(number, found.start(1) + 1)
    return None


def _quote_within(problem: str, lines: list[str], mark: Any) -> _Cause:
    """Find what follows a text in quotes on its line: mostly the text itself, after a quote within it."""
    if "did not find expected key" not in problem or mark is None or mark.line >= len(lines):
        return None
    if not lines[mark.line][: mark.column].rstrip().endswith(("'", '"')):
        return None
    sentence = 'the text in quotes ends before this: use the other quotes within it, or write it below "|"'
    return sentence, Place(mark.line + 1, mark.column + 1)


def _and_before(lines: list[str], mark: Any) -> list[int]:
    """Return the numbers of the line of a fault and of the one before it, as far as there are such."""
    last = len(lines) if mark is None else mark.line + 1
    return [number for number in (last, last - 1) if 0 < number <= len(lines)]


_CAUSES: Final[tuple[Callable[[str, list[str], Any], _Cause], ...]] = (_other_blank, _no_space, _quote_within)
"""What the author did, where the text tells more than the parser."""

_TEMPLATE: Final = re.compile(r"[^\"'#]*\{\{")


def templated(error: Unreadable, text: str, line: int) -> Unreadable:
    """Return the error, or a better one where the braces of a template are what is wrong."""
    lines = text.split("\n")[error.place.line - line - 1 :][:1]
    if not lines or not _TEMPLATE.match(lines[0]):
        return error
    message = "{{ begins a template, which is no manifest yet: give what comes of it, as of helm template"
    return Unreadable(message, error.place)


def not_text(error: ReaderError, text: str, line: int) -> Unreadable:
    """Return the same for a character that no YAML may have."""
    position = error.position if isinstance(error.position, int) else 0
    before = text[:position]
    place = Place(line + before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    return Unreadable("this is not text: YAML has no control characters", place)

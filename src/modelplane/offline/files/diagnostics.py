"""Problems of a file, with their position and message.

A problem is one line of printable characters, whatever the file holds. It names file, line, object, field and
remedy. A parser's error describes the parser's state; the message here describes the author's mistake. If the
exact position is unknown, the problem has that of the whole value.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from yaml.error import MarkedYAMLError
from yaml.reader import ReaderError

from modelplane.api.listing import in_order
from modelplane.api.meta import Object
from modelplane.offline.files.report_documents import Output
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.cel import SelectorError

Path = tuple[str | int, ...]
"""Position of a value in an object: names of fields and indexes of lists."""


class Place(NamedTuple):
    """A position in a file, counted from 1."""

    line: int
    column: int


class Severity(StrEnum):
    """ERROR: an API server would refuse the object. WARNING: it probably does not do what was intended."""

    ERROR = "error"
    WARNING = "warning"


class ObjectName(Output, frozen=True, kw_only=True):
    """Identity of an object, as far as the document gives it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, item: Object) -> "ObjectName":
        """Return the identity of an object."""
        metadata = item["metadata"]
        return cls(
            api_version=item["apiVersion"],
            kind=item["kind"],
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
        )

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return (
            f'{limit_text(self.kind) or "object"} "{limit_text(name, 130)}"'
            if name
            else limit_text(self.kind)
        )


class Problem(Output, frozen=True, kw_only=True):
    """One problem."""

    path: str
    """The file, or ``stdin``."""
    line: int
    """From 1; 0 for the whole file."""
    column: int
    severity: Severity
    object: ObjectName | None
    """None if the document is not an object."""
    field: str
    """Path of the field, such as ``spec.engines[0].name``; empty for the whole object."""
    message: str
    excerpt: tuple[str, ...] = ()
    """Lines of the file, the last one with a caret under the fault."""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        parts = [place, str(self.severity), str(self.object or ""), self.field, self.message]
        return ": ".join(part for part in parts if part)


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MOST_CHOICES = 8
_LONGEST_NAME = 64  # the longest name for which a similar one is searched


def limit_text(text: str, most: int = 80) -> str:
    """Return a text on one line, cut if it is long."""
    text = text if len(text) <= most else f"{text[: most - 3]}..."
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return _as_json(character)[1:-1] if character < " " else f"\\u{ord(character):04x}"


def quote(value: Any) -> str:
    """Return a value for a sentence: a text in quotes, a number without, a collection by its type."""
    match value:
        case str():
            return f'"{limit_text(value)}"'
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return limit_text(_as_json(value))


def _as_json(value: Any) -> str:
    import json  # noqa: PLC0415  few values are shown

    return json.dumps(value)


def format_path(path: Path) -> str:
    """Return a path as text, such as ``spec.engines[0].name``."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step if isinstance(step, int) else limit_text(step)}]"
    return text


def find_nearest(name: str, words: Iterable[str], least: float = 0.7) -> str | None:
    """Return the known name that was probably meant; None if none is similar."""
    if len(name) > _LONGEST_NAME:
        return None
    by_form = {_form(word): word for word in words}
    if (form := _form(name)) in by_form:
        return by_form[form]
    import difflib  # noqa: PLC0415  most names are known

    matches = difflib.get_close_matches(form, by_form, n=1, cutoff=least)
    return by_form[matches[0]] if matches else None


def _form(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def join_choices(options: Sequence[Any]) -> str:
    """Join the allowed values of a field in the given order, and count the rest."""
    texts = [str(option) for option in options]
    if len(texts) > _MOST_CHOICES:
        return in_order(texts, _MOST_CHOICES)
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


class Unreadable(UserError):
    """A document that cannot be read, and the position of the error."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


_UNALIGNED: Final = "the line is indented unlike its neighbours: align it with them"
_ESCAPE: Final = "unknown escape sequence: write \\\\ for a backslash, or use single quotes"
_PROBLEMS: Final = (
    (
        "mapping values are not allowed",
        'a ":" is not expected here: align the line with its neighbours, or put the value in quotes',
    ),
    ("sequence entries are not allowed", 'a list cannot begin here: put each "- " on a line below its key'),
    ("expected node content", 'a value is missing: add it, and close open brackets with "]" or "}"'),
    ("did not find expected key", _UNALIGNED),
    ("did not find expected '-' indicator", _UNALIGNED),
    ("expected <block end>, but found", _UNALIGNED),
    ("could not find expected ':'", 'the line is not part of a "name: value" pair: add the ": "'),
    ("found unexpected end of stream", "the quote is not closed: add the one at its end"),
    ("found unexpected document", "the quote is not closed: add the one at its end"),
    ("expected ',' or ']'", 'the "[" is not closed: add a "," or the "]"'),
    ("expected ',' or '}'", 'the "{" is not closed: add a "," or the "}"'),
    (
        "document start",
        (
            'the following lines are not part of the document: start another document with "---", and '
            "remove % directives"
        ),
    ),
    ("unknown escape character", _ESCAPE),
    ("expected hexdecimal number", _ESCAPE),
)
_OPENED: Final = ("while scanning a quoted scalar", "while parsing a flow")
"""Errors whose cause is the opened bracket or quote, not the place at which the parser stopped."""


def explain_error(error: MarkedYAMLError, text: str, line: int) -> Unreadable:
    """Return the problem of a text that begins after this many lines of its file."""
    problem = error.problem or ""
    opened = error.context_mark is not None and str(error.context).startswith(_OPENED)
    mark = error.context_mark if opened else error.problem_mark or error.context_mark
    place = Place(line + mark.line + 1, mark.column + 1) if mark else Place(line + 1, 1)
    if "cannot start any token" in problem and mark is not None:
        return Unreadable(_unstartable(text, mark), place)
    for find in _CAUSES:
        if (cause := find(problem, text.split("\n"), mark)) is not None:
            sentence, cause_place = cause
            return Unreadable(sentence, Place(line + cause_place.line, cause_place.column))
    for part, sentence in _PROBLEMS:
        if part in problem:
            return Unreadable(sentence, place)
    return Unreadable(f"this is not YAML: {limit_text(problem) or 'the text cannot be parsed'}", place)


def _unstartable(text: str, mark: Any) -> str:
    character = text[mark.index : mark.index + 1]
    if character == "\t":
        return "a tab cannot indent YAML: use spaces"
    return f"a value cannot begin with {limit_text(character)} unless it is in quotes"


_Cause = tuple[str, Place] | None
_BLANKS: Final = re.compile(r"[^\S\t\r\n ]")
_NO_SPACE: Final = re.compile(r"\s*(?:- )*[A-Za-z][\w.-]*(:)[^\s:/]\S*\s*")


def _other_blank(_problem: str, lines: list[str], mark: Any) -> _Cause:
    """Find a line that is indented by a character that looks like a space but is not a space."""
    for number in _and_before(lines, mark):
        text = lines[number - 1]
        if blank := _BLANKS.search(text[: len(text) - len(text.lstrip())]):
            return "a no-break space cannot indent YAML: use plain spaces", Place(number, blank.start() + 1)
    return None


def _no_space(problem: str, lines: list[str], mark: Any) -> _Cause:
    """Find a name without a space after its colon, which makes the next line look like its continuation."""
    if "mapping values are not allowed" not in problem and "could not find expected ':'" not in problem:
        return None
    for number in _and_before(lines, mark):
        if colon := _NO_SPACE.fullmatch(lines[number - 1]):
            return 'a space is missing after the ":": add it', Place(number, colon.start(1) + 1)
    return None


def _quote_within(problem: str, lines: list[str], mark: Any) -> _Cause:
    """Find text after a quoted string on its line: usually its rest, after a quote within it."""
    if "did not find expected key" not in problem or mark is None or mark.line >= len(lines):
        return None
    if not lines[mark.line][: mark.column].rstrip().endswith(("'", '"')):
        return None
    sentence = (
        "the quoted text ends before this character: use the other kind of quotes inside, or write the "
        'text below "|"'
    )
    return sentence, Place(mark.line + 1, mark.column + 1)


def _and_before(lines: list[str], mark: Any) -> list[int]:
    """Return the numbers of the line of a fault and of the previous line, as far as they exist."""
    last = len(lines) if mark is None else mark.line + 1
    return [number for number in (last, last - 1) if 0 < number <= len(lines)]


_CAUSES: Final[tuple[Callable[[str, list[str], Any], _Cause], ...]] = (_other_blank, _no_space, _quote_within)
"""The author's mistake, if the text shows more than the parser's error."""

_TEMPLATE: Final = re.compile(r"[^\"'#]*\{\{")


def check_template(error: Unreadable, text: str, line: int) -> Unreadable:
    """Return the error, or a better one if the braces of a template cause it."""
    lines = text.split("\n")[error.place.line - line - 1 :][:1]
    if not lines or not _TEMPLATE.match(lines[0]):
        return error
    message = "{{ starts a template, which is not a manifest: use the output of helm template"
    return Unreadable(message, error.place)


def report_character(error: ReaderError, text: str, line: int) -> Unreadable:
    """Return the same for a character that no YAML may have."""
    position = error.position if isinstance(error.position, int) else 0
    before = text[:position]
    place = Place(line + before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    return Unreadable("this is not text: YAML doesn't allow control characters", place)


_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # YAML 1.1, in which positions are counted


def find_place(value: Place, style: str, error: "SelectorError", text: str) -> tuple[Place, tuple[str, ...]]:
    """Return the position of a selector's fault in the file, and that line with a caret below it.

    The selector begins at a position, in a YAML style of scalars. A fault without a position of its own has
    that of the selector, without lines. A folded or escaped text has other lines than its file.
    """
    if not error.line:
        return value, ()
    lines = _BREAK.split(text)
    place = _place(value, style, error, lines)
    if place is None:
        source = (error.expression.splitlines() or [""])[error.line - 1 : error.line] or [""]
        return value, _pointed(source[0], error.column)
    return place, _pointed(lines[place.line - 1], place.column)


def _place(value: Place, style: str, error: "SelectorError", lines: list[str]) -> Place | None:
    source = error.expression.split("\n")[error.line - 1 : error.line]
    if not source:
        return None
    if style == "|":
        line = value.line + error.line
        column = len(lines[line - 1]) - len(source[0]) if line <= len(lines) else -1
    else:
        line = value.line
        column = value.column - 1 + (1 if style else 0)
    if column < 0 or line > len(lines) or lines[line - 1][column : column + len(source[0])] != source[0]:
        return None
    return Place(line, column + error.column)


def _pointed(line: str, column: int) -> tuple[str, ...]:
    plain = "".join(character if character.isprintable() else " " for character in line)
    cut = max(column - 100, 0)
    return (plain[cut : cut + 160].rstrip(), " " * (column - 1 - cut) + "^")

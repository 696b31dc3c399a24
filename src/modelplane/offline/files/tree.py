"""A YAML or JSON document as a tree of values with their positions.

One rule: input is untrusted. Depth, number of values and expansion of aliases are bounded, nothing is
executed, and nothing recurses into the input. A document beyond a bound is an error, like one that is not
YAML.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml
from yaml import events
from yaml.error import MarkedYAMLError
from yaml.reader import ReaderError

from modelplane.offline.files.diagnostics import (
    Path,
    Place,
    Unreadable,
    check_template,
    explain_error,
    limit_text,
    report_character,
)
from modelplane.offline.files.yaml_text import NotFinite, Scalar, parse_number, resolve

MAX_DEPTH: Final = 100
MAX_VALUES: Final = 2_000_000
"""Maximum of values of one document, including those that aliases repeat."""


class Node(msgspec.Struct):
    """A value, and its position."""

    value: "Scalar | dict[str, Node] | list[Node]"
    place: Place
    text: str = ""
    """A scalar as written, without quotes."""
    style: str = ""
    """Style of a scalar: empty for a plain one, else a quote, ``|`` or ``>``."""
    keys: dict[str, Place] = msgspec.field(default_factory=dict)
    """Positions of the keys of a mapping."""

    def find(self, path: Path) -> "Node | None":
        """Return the value at a path; None if there is none."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            if isinstance(node.value, dict):
                node = node.value.get(str(step))
            elif isinstance(node.value, list) and isinstance(step, int):
                node = node.value[step] if step < len(node.value) else None
            else:
                return None
        return node

    def place_of(self, path: Path, *, key: bool = False) -> Place:
        """Return the position of a field, or of the innermost value around a missing one.

        That is the position of its value if that is a word, and otherwise, or if asked for, of its name.
        """
        whole = self.find(path)
        if whole is not None and not key and not isinstance(whole.value, dict | list):
            return whole.place
        while path:
            outer = self.find(path[:-1])
            if outer is not None and path[-1] in outer.keys:
                return outer.keys[str(path[-1])]
            if outer is not None and isinstance(path[-1], int) and (item := self.find(path)) is not None:
                return item.place
            path = path[:-1]
        return self.place

    def to_plain(self) -> Any:
        """Return the value without positions."""
        if isinstance(self.value, dict):
            return {key: child.to_plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.to_plain() for child in self.value]
        return self.value


class Duplicate(msgspec.Struct, frozen=True):
    """A duplicate key of a mapping."""

    path: Path
    place: Place
    first: Place


class Document(msgspec.Struct, frozen=True):
    """A document of a file."""

    node: Node
    duplicates: tuple[Duplicate, ...] = ()


_SEPARATOR: Final = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)


def parse_documents(text: str) -> Iterator[Document | Unreadable]:
    """Yield the documents of a text that are not empty; an unreadable one does not hide the next."""
    starts = sorted({0, *(separator.start() for separator in _SEPARATOR.finditer(text))})
    line = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        yield from _read(part, line)
        line += part.count("\n")


def _read(text: str, line: int) -> Iterator[Document | Unreadable]:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(line)
    try:
        for event in yaml.parse(text if not text.lstrip().startswith("{") else _paired(text), Loader=loader):
            document = builder.take(event)
            if document is not None and (document.node.value is not None or document.node.text):
                yield document
    except Unreadable as error:
        yield check_template(error, text, line)
    except MarkedYAMLError as error:
        yield check_template(explain_error(error, text, line), text, line)
    except ReaderError as error:
        yield report_character(error, text, line)


_PAIR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def _paired(text: str) -> str:
    r"""Return JSON with the characters of escapes such as ``\ud83d\ude00``, which YAML does not know."""

    def join(escape: re.Match[str]) -> str:
        pair = int(escape[2], 16).to_bytes(2, "big") + int(escape[3], 16).to_bytes(2, "big")
        return escape[1] + pair.decode("utf-16-be")

    return _PAIR.sub(join, text)


_KINDS: Final[dict[str, type]] = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
    "tag:yaml.org,2002:bool": bool,
}


class _Open(msgspec.Struct):
    """A collection whose end has not been read yet."""

    node: Node
    anchor: str | None
    counted: int
    """Number of values before it."""
    depth: int = 1
    """Number of levels from it to its innermost value."""
    key: str | None = None
    merged: list[Node] = msgspec.field(default_factory=list)
    merging: bool = False


class _Anchored(msgspec.Struct, frozen=True):
    """An anchored value: its number of values and levels."""

    node: Node
    values: int
    depth: int


class _Builder:
    """Builds the documents of one text from its events."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._begin()

    def _begin(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._values = 0
        self._duplicates: list[Duplicate] = []
        self._root: Node | None = None

    def take(self, event: events.Event) -> Document | None:
        """Process the next event; return the document that it ends."""
        match event:
            case events.ScalarEvent():
                self._add(_scalar(event, self._place(event.start_mark)), event.anchor)
            case events.MappingStartEvent() | events.SequenceStartEvent():
                self._enter(event)
            case events.MappingEndEvent() | events.SequenceEndEvent():
                closed = self._open.pop()
                if isinstance(closed.node.value, dict):
                    for source in closed.merged:
                        _merge(closed.node, source)
                if closed.anchor is not None:
                    values = self._values - closed.counted
                    self._anchors[closed.anchor] = _Anchored(closed.node, values, closed.depth)
                if self._open:
                    self._open[-1].depth = max(self._open[-1].depth, 1 + closed.depth)
                self._attach(closed.node)
            case events.AliasEvent():
                self._repeat(event)
            case events.DocumentStartEvent():
                self._begin()
            case events.DocumentEndEvent() if self._root is not None:
                return Document(self._root, tuple(self._duplicates))
        return None

    def _place(self, mark: Any) -> Place:
        return Place(self._line + mark.line + 1, mark.column + 1)

    def _count(self, values: int, place: Place) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise Unreadable(
                f"the document contains more than {MAX_VALUES:,} values with aliases expanded: split "
                "the document",
                place,
            )

    def _descend(self, levels: int, place: Place) -> None:
        if len(self._open) + levels > MAX_DEPTH:
            raise Unreadable(
                f"values are nested more than {MAX_DEPTH} levels deep: no manifest needs that", place
            )
        if self._open:
            self._open[-1].depth = max(self._open[-1].depth, 1 + levels)

    def _enter(self, event: events.CollectionStartEvent) -> None:
        place = self._place(event.start_mark)
        self._descend(1, place)
        if self._awaits_key():
            raise Unreadable("a mapping or list cannot be the name of a field: use a word", place)
        counted = self._values
        self._count(1, place)
        empty: Any = {} if isinstance(event, events.MappingStartEvent) else []
        self._open.append(_Open(Node(empty, place), event.anchor, counted))

    def _repeat(self, event: events.AliasEvent) -> None:
        place = self._place(event.start_mark)
        name = limit_text(str(event.anchor))
        if event.anchor not in self._anchors:
            within = any(container.anchor == event.anchor for container in self._open)
            cause = "contains itself" if within else f"is undefined: there is no &{name}"
            raise Unreadable(f"the alias *{name} {cause} before it", place)
        anchored = self._anchors[event.anchor]
        self._count(anchored.values, place)
        self._descend(anchored.depth, place)
        if self._awaits_key():
            self._name(anchored.node, place)
        else:
            self._attach(anchored.node)

    def _add(self, node: Node, anchor: str | None) -> None:
        self._count(1, node.place)
        if anchor is not None:
            self._anchors[anchor] = _Anchored(node, 1, 0)
        if self._awaits_key():
            self._name(node, node.place)
        else:
            self._attach(node)

    def _awaits_key(self) -> bool:
        if not self._open:
            return False
        inner = self._open[-1]
        return isinstance(inner.node.value, dict) and inner.key is None and not inner.merging

    def _name(self, node: Node, place: Place) -> None:
        """Read the key of a mapping's next value."""
        inner = self._open[-1]
        if node.text == "<<" and not node.style:
            inner.merging = True
            return
        if isinstance(node.value, dict | list) or node.value is None:
            what = "nothing" if node.value is None else "a mapping or list"
            raise Unreadable(f"{what} cannot be the name of a field: use a word", place)
        key = str(node.value).lower() if isinstance(node.value, bool) else str(node.value)
        if key in inner.node.keys:
            self._duplicates.append(Duplicate((*self._path(), key), place, inner.node.keys[key]))
        inner.node.keys[key] = place
        inner.key = key

    def _path(self) -> Path:
        """Return the path of the innermost open collection."""
        return tuple(
            len(container.node.value) if isinstance(container.node.value, list) else container.key or "<<"
            for container in self._open[:-1]
        )

    def _attach(self, node: Node) -> None:
        """Add a finished value to its collection."""
        if not self._open:
            self._root = node
            return
        inner = self._open[-1]
        if isinstance(inner.node.value, list):
            inner.node.value.append(node)
        elif inner.merging:
            inner.merging = False
            sources = node.value if isinstance(node.value, list) else [node]
            if not all(isinstance(source.value, dict) for source in sources):
                raise Unreadable("<< requires the alias of a mapping, or a list of such aliases", node.place)
            inner.merged.extend(sources)
        elif isinstance(inner.node.value, dict) and inner.key is not None:
            inner.node.value[inner.key] = node
            inner.key = None


def _merge(into: Node, source: Node) -> None:
    """Add the fields of another mapping that a mapping does not have itself."""
    if isinstance(into.value, dict) and isinstance(source.value, dict):
        for key, child in source.value.items():
            into.value.setdefault(key, child)
            into.keys.setdefault(key, source.keys[key])


def _scalar(event: events.ScalarEvent, place: Place) -> Node:
    text = event.value
    style = "" if event.style in (None, "plain") else event.style
    return Node(_value(event.tag, text, style, place), place, text, style)


def _value(tag: str | None, text: str, style: str, place: Place) -> Scalar:
    kind = _KINDS.get(tag or "")
    if kind is str or (style and kind is None):
        return text
    try:
        value = resolve(text)
    except NotFinite:
        raise Unreadable(f"{text} is not a number in JSON: use a finite number", place) from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return parse_number(float(value))
    if kind is not None and not isinstance(value, kind):
        raise Unreadable(
            f"{limit_text(text)} does not match the tag's type {kind.__name__}: remove the tag", place
        )
    return value

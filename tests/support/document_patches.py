"""How a document differs from another: a map from paths to new values, such as ``spec.replicas: 3``.

A path names fields (``spec.replicas``, or ``labels[example.org/team]`` where a name is not a word) and items
of lists: ``containers[engine]`` by name, ``args[0]`` by position. ``env[DEBUG after HOME]`` is a new item in
its place. The value ``REMOVED`` removes what the path names, and ``Like("HOME")`` adds a copy of the field or
the item HOME beside it, which further paths change.
"""

import re
from dataclasses import dataclass
from typing import Any

Value = Any
Document = dict[str, Any]
Changes = list[tuple[str, Value]]
_Fields = tuple[str, ...]

_NAMES: tuple[_Fields, ...] = (
    ("key", "keep"),
    ("type",),
    ("name",),
    ("metadata",),
    ("mountPath",),
    ("host",),
    ("role",),
)
"""Fields by which the items of a list are told apart. A child in a golden is composed or kept."""
_STEP = re.compile(r"\.?([\w-]+)|\[([^\[\]]*)\]")
_BRACKETS = re.compile(r"[\[\]]")
_WORD = re.compile(r"[\w-]+")
_FIRST = " first"
_AFTER = " after "
WIDTH = 110
"""Length of a line."""
SHORT = 90
"""Length up to which a map or a list is one line."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What a path names is not in the document."""


@dataclass(frozen=True, slots=True)
class Like:
    """A new field or item is like another one beside it."""

    name: str


REMOVED = Removed()


def diff(base: Document, document: Document) -> Document:
    """Return the smallest changes that make a document of its base.

    Raises:
        ValueError: A path cannot express a difference.
    """
    changes = _of_fields(base, document)
    patch = {path.removeprefix("."): value for path, value in changes or ()}
    if not is_same(apply(base, patch), document):
        raise ValueError("no patch expresses this document")
    return patch


def apply(base: Document, patch: Document) -> Document:
    """Return a document with its changes.

    Raises:
        ValueError: A path names something that is not there.
    """
    document: Document = copied(base)
    for path, value in patch.items():
        steps = [word or name for word, name in _STEP.findall(path)]
        around: Value = document
        try:
            for step in steps[:-1]:
                around = around[_place(around, step)]
            _set(around, steps[-1], value)
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"the base has nothing at {path}: {error}") from error
    return document


def copied(value: Value) -> Value:
    """Return a copy in which nothing is shared, not even what YAML shares by anchors."""
    if isinstance(value, dict):
        return {name: copied(inner) for name, inner in value.items()}
    return [*map(copied, value)] if isinstance(value, list) else value


def is_same(one: Value, other: Value) -> bool:
    """Whether two values are written alike: 1, 1.0 and true are equal, but not the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def lines(value: Value) -> int:
    """Return the number of lines of a value below its field."""
    return _extent(value)[0]


def is_short(value: Value) -> bool:
    """Whether a value is written in one line."""
    return _extent(value)[1] <= SHORT


def _extent(value: Value) -> tuple[int, int]:
    """Return the number of lines of a value, and its length in one line."""
    if isinstance(value, dict):
        inner = [_extent(item) for item in value.values()]
        width = sum(item[1] for item in inner) + sum(len(name) + 4 for name in value)
        return (1 if width <= SHORT else 1 + sum(item[0] for item in inner)), width
    if isinstance(value, list):
        inner = [_extent(item) for item in value]
        width = sum(item[1] + 2 for item in inner)
        # A map begins in the line of its dash.
        of_items = (max(1, item[0] - isinstance(of, dict)) for of, item in zip(value, inner, strict=True))
        return (1 if width <= SHORT else 1 + sum(of_items)), width
    text = str(value)
    if "\n" in text:
        return 1 + text.count("\n"), WIDTH
    return 1 + len(text) // WIDTH, len(text)


def _cost(changes: Changes) -> int:
    return sum(lines(value) for _, value in changes)


def _changes(step: str, base: Value, value: Value) -> Changes:
    """Return the changes of a value at a step, or its replacement if that is shorter."""
    changes: Changes | None = None
    if isinstance(base, dict) and isinstance(value, dict):
        changes = _of_fields(base, value)
    elif isinstance(base, list) and isinstance(value, list):
        changes = _of_items(base, value)
    elif is_same(base, value):
        changes = []
    # What is within a value has no more lines than all of it.
    if changes is None or (len(changes) > 1 and _cost(changes) > lines(value)):
        return [(step, value)]
    return [(step + path, change) for path, change in changes]


def _of_fields(base: Document, value: Document) -> Changes | None:
    if any(map(_BRACKETS.search, base.keys() | value.keys())):
        return None  # no path can name them
    changes: Changes = []
    removed = {name: inner for name, inner in base.items() if name not in value}
    present: Document = {}
    for name in (*(name for name in base if name in value), *(name for name in value if name not in base)):
        inner = value[name]
        step = _field(name)
        changes += (
            _changes(step, base[name], inner)
            if name in base
            else _added(step, step, removed | present, inner)
        )
        present[name] = inner
    # These come last: an added field may be like one of them, and paths may find the item by one of them.
    return changes + [(_field(name), REMOVED) for name in removed]


def _field(name: str) -> str:
    return f".{name}" if _WORD.fullmatch(name) else f"[{name}]"


def _of_items(base: list[Value], value: list[Value]) -> Changes:
    fields = _name_fields(base)
    if fields and fields == _name_fields(value):
        named, new = ({_name(item, fields): item for item in items} for items in (base, value))
        kept = [name for name in named if name in new]
        if kept and kept == [name for name in new if name in named]:
            return _of_named_items(named, new, fields)
    changes: Changes = []
    present: Document = {}
    for number, item in enumerate(value):
        step = f"[{number}]"
        changes += (
            _changes(step, base[number], item) if number < len(base) else _added(step, step, present, item)
        )
        present[str(number)] = item
    return changes + [(f"[{number}]", REMOVED) for number in reversed(range(len(value), len(base)))]


def _of_named_items(base: Document, value: Document, fields: _Fields) -> Changes:
    changes: Changes = []
    removed = {name: item for name, item in base.items() if name not in value}
    present: Document = {}
    place = _FIRST
    for name, item in value.items():
        if name in base:
            changes += _changes(f"[{name}]", base[name], item)
        else:
            others = {other: _renamed(inner, fields, name) for other, inner in (removed | present).items()}
            changes += _added(f"[{name}{place}]", f"[{name}]", others, item)
        present[name] = item
        place = _AFTER + name
    return changes + [(f"[{name}]", REMOVED) for name in removed]


def _added(step: str, then: str, others: Document, value: Value) -> Changes:
    """Return what adds a value at a step: as it is, or like another one, if that is half as long."""
    best: Changes = [(step, value)]
    most = lines(value) // 2
    for name, other in others.items():
        if most > 1 and isinstance(other, dict | list) and type(other) is type(value):
            changes = [(step, Like(name)), *_changes(then, other, value)]
            if len(changes) <= most and (cost := _cost(changes)) <= most:
                best, most = changes, cost - 1
    return best


def _name_fields(items: list[Value]) -> _Fields:
    """Return the fields by which the items of a list are told apart, or none."""
    if not items or not all(isinstance(item, dict) for item in items):
        return ()
    for fields in _NAMES:
        if len({*(_name(item, fields) for item in items), ""}) == len(items) + 1:
            return fields
    return ()


def _name(item: Document, fields: _Fields) -> str:
    name = next((item[field] for field in fields if field in item), None)
    if isinstance(name, dict):
        name = name.get("name")
    return name if isinstance(name, str) and not _BRACKETS.search(name) else ""


def _renamed(item: Document, fields: _Fields, name: str) -> Document:
    renamed: Document = copied(item)
    field = next(field for field in fields if field in item)
    if isinstance(renamed[field], dict):
        renamed[field]["name"] = name
    else:
        renamed[field] = name
    return renamed


def _place(around: Value, step: str) -> Any:
    """Return the field or the position that a step names."""
    if isinstance(around, dict):
        return step
    names = [_name(item, fields) for item in around] if (fields := _name_fields(around)) else []
    return names.index(step) if step in names else int(step)


def _set(around: Value, step: str, value: Value) -> None:
    name, is_after, before = step.partition(_AFTER)
    is_new = isinstance(around, list) and (bool(is_after) or step.endswith(_FIRST))
    if value == REMOVED:
        del around[_place(around, step)]
        return
    if isinstance(value, Like):
        value = around[_place(around, value.name)]
        if is_new:
            value = _renamed(value, _name_fields(around), name.removesuffix(_FIRST))
    value = copied(value)
    if is_new:
        around.insert(_place(around, before) + 1 if is_after else 0, value)
    elif isinstance(around, list) and step == str(len(around)):
        around.append(value)
    else:
        around[_place(around, step)] = value

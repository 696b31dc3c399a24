"""The checked syntax tree that the CEL compiler returns, read from its wire form.

One rule: this module knows the messages of `cel/expr/checked.proto` and `syntax.proto` (cel-expr/cel-spec),
and nothing about devices or meaning.

The compiler hands its result out only as a serialized `Any`. A protobuf runtime for nine small messages
would be the largest dependency of the core, so the fields are read here.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_Field: TypeAlias = int | bytes


@dataclass(frozen=True, slots=True)
class Unsigned:
    """The value of a `uint` literal, kept apart from an int."""

    value: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: bool | int | float | str | bytes | Unsigned | None


@dataclass(frozen=True, slots=True)
class Identifier:
    """A variable or a type, by the name that the checker resolved it to."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `has(operand.field)` where `test` is true."""

    operand: "Node"
    field: str
    test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator; `member` says that the first argument was written before the dot."""

    function: str
    arguments: "tuple[Node, ...]"
    member: bool


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, ?b]`; `optional` holds the positions marked with `?`."""

    elements: "tuple[Node, ...]"
    optional: frozenset[int]


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """`{k: v}`; each entry with whether it is marked with `?`."""

    entries: "tuple[tuple[Node, Node, bool], ...]"


@dataclass(frozen=True, slots=True)
class Fold:
    """A comprehension, the form to which `all`, `exists`, `map`, `filter` and `cel.bind` are expanded."""

    variable: str
    items: "Node"
    accumulator: str
    initial: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node: TypeAlias = Constant | Identifier | Select | Call | ListLiteral | MapLiteral | Fold


@dataclass(frozen=True, slots=True)
class _Notes:
    """What the checker found out about expressions, by their id: resolved names, and types (serialized)."""

    names: dict[int, str]
    types: dict[int, bytes]

    def same_type(self, expressions: Iterable[bytes]) -> bool:
        """Tell whether all expressions have one type. Lists and maps are not looked into."""
        types = {self.types.get(_number(expression, 2), b"") for expression in expressions}
        return len(types) <= 1 or any({number for number, _ in _fields(kind)} & {6, 7} for kind in types)


def decode(serialized: bytes) -> Node:
    """Return the tree of a serialized `Any` that holds a CheckedExpr."""
    checked = _one(serialized, 2)
    names = {_number(entry, 1): _text(_one(_one(entry, 2), 1)) for entry in _all(checked, 2)}
    types = {_number(entry, 1): _one(entry, 2) for entry in _all(checked, 3)}
    return _node(_one(checked, 4), _Notes({key: name for key, name in names.items() if name}, types))


def _node(data: bytes, notes: _Notes) -> Node:
    fields = dict(_fields(data))
    identity = fields.get(2, 0)
    kind = next((number for number in _KINDS if number in fields), None)
    if kind is None:
        raise ValueError("an expression of an unknown kind")
    if isinstance(identity, int) and identity in notes.names and kind in (4, 5):
        test = kind == 5 and bool(_number(_as_bytes(fields[5]), 3))
        return Constant(True) if test else Identifier(notes.names[identity])
    return _KINDS[kind](_as_bytes(fields[kind]), notes)


def _constant(data: bytes, _: _Notes) -> Node:
    number, value = next(iter(_fields(data)), (1, 0))
    return Constant(_CONSTANTS[number](value))


def _identifier(data: bytes, _: _Notes) -> Node:
    return Identifier(_text(_one(data, 1)))


def _select(data: bytes, notes: _Notes) -> Node:
    return Select(_node(_one(data, 1), notes), _text(_one(data, 2)), bool(_number(data, 3)))


def _call(data: bytes, notes: _Notes) -> Node:
    target = tuple(_node(part, notes) for part in _all(data, 1))
    arguments = tuple(_node(part, notes) for part in _all(data, 3))
    return Call(_text(_one(data, 2)), target + arguments, bool(target))


def _list(data: bytes, notes: _Notes) -> Node:
    optional = frozenset(index for packed in _all(data, 2) for index in _packed(packed))
    if not optional and not notes.same_type(_all(data, 1)):
        raise ValueError("a list of mixed types")
    return ListLiteral(tuple(_node(part, notes) for part in _all(data, 1)), optional)


def _map(data: bytes, notes: _Notes) -> Node:
    if _one(data, 1):
        raise ValueError(f"an object of type {_text(_one(data, 1))}")
    marked = any(_number(entry, 5) for entry in _all(data, 2))
    if not all(marked or notes.same_type(_one(entry, side) for entry in _all(data, 2)) for side in (3, 4)):
        raise ValueError("a map of mixed types")
    entries = tuple(
        (_node(_one(entry, 3), notes), _node(_one(entry, 4), notes), bool(_number(entry, 5)))
        for entry in _all(data, 2)
    )
    return MapLiteral(entries)


def _fold(data: bytes, notes: _Notes) -> Node:
    if _one(data, 8):
        raise ValueError("a macro with two variables")
    return Fold(
        variable=_text(_one(data, 1)),
        items=_node(_one(data, 2), notes),
        accumulator=_text(_one(data, 3)),
        initial=_node(_one(data, 4), notes),
        condition=_node(_one(data, 5), notes),
        step=_node(_one(data, 6), notes),
        result=_node(_one(data, 7), notes),
    )


_KINDS: Final[dict[int, Callable[[bytes, _Notes], Node]]] = {
    3: _constant,
    4: _identifier,
    5: _select,
    6: _call,
    7: _list,
    8: _map,
    9: _fold,
}


def _signed(value: _Field) -> int:
    number = _as_int(value)
    return number - 2**64 if number >= 2**63 else number


def _double(value: _Field) -> float:
    result: float = struct.unpack("<d", _as_bytes(value))[0]
    return result


_CONSTANTS: Final[dict[int, Callable[[_Field], bool | int | float | str | bytes | Unsigned | None]]] = {
    1: lambda _: None,
    2: bool,
    3: _signed,
    4: lambda value: Unsigned(_as_int(value)),
    5: _double,
    6: lambda value: _as_bytes(value).decode(),
    7: lambda value: bytes(_as_bytes(value)),
}


def _fields(data: bytes) -> Iterator[tuple[int, _Field]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _BYTES:
            length, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")
        yield number, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _packed(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _all(data: bytes, number: int) -> Iterator[bytes]:
    return (_as_bytes(value) for found, value in _fields(data) if found == number)


def _one(data: bytes, number: int) -> bytes:
    return next(_all(data, number), b"")


def _number(data: bytes, number: int) -> int:
    return next((_as_int(value) for found, value in _fields(data) if found == number), 0)


def _text(data: bytes) -> str:
    return data.decode()


def _as_bytes(value: _Field) -> bytes:
    if isinstance(value, int):
        raise TypeError("a number where a message was expected")
    return value


def _as_int(value: _Field) -> int:
    if isinstance(value, bytes):
        raise TypeError("a message where a number was expected")
    return value

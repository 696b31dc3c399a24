"""The checked syntax tree that the CEL compiler returns, read from its wire form.

This module knows the messages of `cel/expr/checked.proto` and `syntax.proto` (cel-expr/cel-spec), and nothing
about devices or semantics.

The compiler returns its result only as a serialized `Any`. A protobuf runtime for a dozen small messages
would be the largest dependency of the core, so the fields are read here.
"""

import math
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from modelplane.cel.value_types.numbers import Unsigned

RESULT: Final = "@result"  # what a macro collects its result in
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_Field: TypeAlias = int | bytes
_Message: TypeAlias = dict[int, list[_Field]]


class Constant(msgspec.Struct, frozen=True):
    """A literal."""

    identity: int
    value: bool | int | float | str | bytes | None


class Identifier(msgspec.Struct, frozen=True):
    """A variable or a type, by the name that the checker resolved it to."""

    identity: int
    name: str


class Select(msgspec.Struct, frozen=True):
    """`operand.field`, or `has(operand.field)` if `test` is true."""

    identity: int
    operand: "Node"
    field: str
    test: bool


class Call(msgspec.Struct, frozen=True):
    """A function or operator; `member` is true if the first argument was written before the dot.

    `overload` is the one that the checker found; it is empty if there are several.
    """

    identity: int
    function: str
    arguments: "tuple[Node, ...]"
    member: bool
    overloads: tuple[str, ...]

    @property
    def overload(self) -> str:
        """The overload; empty if it depends on the values."""
        return self.overloads[0] if len(self.overloads) == 1 else ""


class ListLiteral(msgspec.Struct, frozen=True):
    """`[a, ?b]`; `optional` holds the positions marked with `?`."""

    identity: int
    elements: "tuple[Node, ...]"
    optional: frozenset[int]


class MapLiteral(msgspec.Struct, frozen=True):
    """`{k: v}`; each entry with whether it is marked with `?`."""

    identity: int
    entries: "tuple[tuple[Node, Node, bool], ...]"


class Fold(msgspec.Struct, frozen=True):
    """A comprehension, the form to which `all`, `exists`, `map`, `filter` and `cel.bind` are expanded.

    With a second variable the first one is the index or key, the second the element or value.
    """

    identity: int
    variable: str
    second: str
    items: "Node"
    accumulator: str
    initial: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"

    @property
    def binds(self) -> bool:
        """Return True if this is `cel.bind`: a loop over nothing, whose accumulator has another name."""
        empty = isinstance(self.items, ListLiteral) and not self.items.elements
        return empty and self.accumulator != RESULT


Node: TypeAlias = Constant | Identifier | Select | Call | ListLiteral | MapLiteral | Fold


class Type(msgspec.Struct, frozen=True):
    """A type: `int`, `list` with one parameter, `map` with two, `kubernetes.Quantity`, `dyn`."""

    name: str
    parameters: "tuple[Type, ...]" = ()


DYNAMIC: Final = Type("dyn")


class Unsupported(Exception):
    """A construct that selectors cannot have; `identity` is that of its node."""

    def __init__(self, problem: str, identity: int) -> None:
        super().__init__(problem)
        self.identity = identity


class Tree:
    """A checked expression: its root, and the checker's results for each node by its identity."""

    __slots__ = (
        "_calls",
        "_expression",
        "_mixes",
        "_names",
        "_overloads",
        "_positions",
        "_read",
        "_readers",
        "_types",
        "folds",
        "names_device",
        "root",
    )

    def __init__(self, serialized: bytes) -> None:
        """Read a serialized `Any` that holds a CheckedExpr, but for its nodes."""
        checked = _fields(_last(_fields(serialized), 2))
        self._names: dict[int, str] = {}
        self._overloads: dict[int, tuple[str, ...]] = {}
        for entry in map(_fields, _messages(checked, 2)):
            reference = _fields(_last(entry, 2))
            if 1 in reference:
                self._names[_number(entry, 1)] = _text(reference, 1)
            if 3 in reference:
                self._overloads[_number(entry, 1)] = tuple(
                    message.decode() for message in _messages(reference, 3)
                )
        self._types = {_number(entry, 1): _last(entry, 2) for entry in map(_fields, _messages(checked, 3))}
        self._read: dict[bytes, Type] = {}
        self._calls: dict[str, list[Call]] = {}
        self._mixes = False
        self.folds: list[Fold] = []
        self.names_device = False
        self._positions = _last(checked, 5)
        self._expression = _last(checked, 4)
        self._readers: tuple[tuple[int, Callable[[int, bytes], Node]], ...] = (
            (5, self._select),
            (4, self._identifier),
            (6, self._call),
            (3, self._constant),
            (7, self._list),
            (8, self._map),
            (9, self._fold),
        )
        self.root: Node = Constant(0, None)

    def read(self) -> None:
        """Read the nodes. Raises Unsupported; the positions are read before."""
        self.root = self._node(self._expression)

    def type_of(self, identity: int) -> Type:
        """Return the type of a node."""
        data = self._types.get(identity, b"")
        known = self._read.get(data)
        if known is None:
            known = self._read[data] = _type(data)
        return known

    def calls(self, *functions: str) -> "list[Call]":
        """Return the calls of some functions."""
        return [call for function in functions for call in self._calls.get(function, ())]

    def offset(self, identity: int) -> int | None:
        """Return the place of a node, in characters from the start of the text."""
        for entry in map(_fields, _messages(_fields(self._positions), 4)):
            if _number(entry, 1) == identity:
                return _number(entry, 2)
        return None

    def _node(self, data: bytes) -> Node:
        fields = _fields(data)
        identity = _number(fields, 2)
        for kind, read in self._readers:
            if kind in fields:
                return read(identity, _last(fields, kind))
        raise Unsupported("it uses an expression of an unknown kind, which selectors cannot", identity)

    def _constant(self, identity: int, data: bytes) -> Node:
        for number, values in _fields(data).items():
            value = _CONSTANTS[number](values[-1])
            if isinstance(value, float) and math.isinf(value):
                raise Unsupported("a number is too large for a double", identity)
            return Constant(identity, value)
        return Constant(identity, None)

    def _identifier(self, identity: int, data: bytes) -> Node:
        name = self._names.get(identity) or _text(_fields(data), 1)
        self.names_device |= name == "device"
        return Identifier(identity, name)

    def _select(self, identity: int, data: bytes) -> Node:
        fields = _fields(data)
        test = bool(_number(fields, 3))
        name = self._names.get(identity)
        if name is not None and not test:
            return Identifier(identity, name)
        return Select(identity, self._node(_last(fields, 1)), _text(fields, 2), test)

    def _call(self, identity: int, data: bytes) -> Node:
        fields = _fields(data)
        arguments = [*_messages(fields, 1), *_messages(fields, 3)]
        function = _text(fields, 2)
        mixes, self._mixes = self._mixes, function == "format"
        nodes = tuple(map(self._node, arguments))
        self._mixes = mixes
        call = Call(identity, function, nodes, 1 in fields, self._overloads.get(identity, ()))
        self._calls.setdefault(function, []).append(call)
        return call

    def _list(self, identity: int, data: bytes) -> Node:
        fields = _fields(data)
        optional = frozenset(
            index
            for packed in fields.get(2, ())
            for index in ([packed] if isinstance(packed, int) else _packed(packed))
        )
        elements = tuple(map(self._node, _messages(fields, 1)))
        self._same(elements, optional)
        return ListLiteral(identity, elements, optional)

    def _map(self, identity: int, data: bytes) -> Node:
        fields = _fields(data)
        if 1 in fields:
            raise Unsupported(f"it makes an object of type {_text(fields, 1)}", identity)
        entries = tuple(
            (self._node(_last(entry, 3)), self._node(_last(entry, 4)), bool(_number(entry, 5)))
            for entry in map(_fields, _messages(fields, 2))
        )
        self._same([key for key, _, _ in entries], frozenset())
        self._same(
            [value for _, value, _ in entries],
            frozenset(index for index, (_, _, marked) in enumerate(entries) if marked),
        )
        return MapLiteral(identity, entries)

    def _fold(self, identity: int, data: bytes) -> Node:
        fields = _fields(data)
        fold = Fold(
            identity,
            _text(fields, 1),
            _text(fields, 8),
            self._node(_last(fields, 2)),
            _text(fields, 3),
            *(self._node(_last(fields, part)) for part in (4, 5, 6, 7)),
        )
        self.folds.append(fold)
        return fold

    def _same(self, nodes: "list[Node] | tuple[Node, ...]", optional: frozenset[int]) -> None:
        """Refuse a literal of mixed types, as Kubernetes does, except an argument of `format`."""
        if self._mixes:
            return
        expected: Type | None = None
        for index, node in enumerate(nodes):
            found = self.type_of(node.identity)
            if index in optional and found.parameters:
                found = found.parameters[0]
            if expected is None:
                expected = found
            elif expected != found and not (_is_empty(node) and expected.name == found.name):
                problem = f"it mixes {expected.name} and {found.name} in one list or map"
                raise Unsupported(problem, node.identity)


def _is_empty(node: Node) -> bool:
    """Return True if a node is `[]` or `{}`, whose type follows from the other operand."""
    return (isinstance(node, ListLiteral) and not node.elements) or (
        isinstance(node, MapLiteral) and not node.entries
    )


_PRIMITIVES: Final = ("dyn", "bool", "int", "uint", "double", "string", "bytes")
_WELL_KNOWN: Final = ("dyn", "dyn", "timestamp", "duration")


def _type(data: bytes) -> Type:  # noqa: PLR0911  (one form for each kind of type)
    for number, values in _fields(data).items():
        value = values[-1]
        if isinstance(value, int):
            names = {3: _PRIMITIVES, 5: _WELL_KNOWN}.get(number, ())
            return Type("null" if number == 2 else names[value] if value < len(names) else "dyn")
        inner = _fields(value)
        match number:
            case 6:
                return Type("list", (_type(_last(inner, 1)),))
            case 7:
                return Type("map", (_type(_last(inner, 1)), _type(_last(inner, 2))))
            case 9:
                return Type(value.decode())
            case 11:
                return Type("type", (_type(value),))
            case 14:
                return Type(_text(inner, 1), tuple(map(_type, _messages(inner, 2))))
    return DYNAMIC


def _signed(value: _Field) -> int:
    number = _as_int(value)
    return number - 2**64 if number >= 2**63 else number


def _double(value: _Field) -> float:
    result: float = struct.unpack("<d", _as_bytes(value))[0]
    return result


_CONSTANTS: Final[dict[int, Callable[[_Field], bool | int | float | str | bytes | None]]] = {
    1: lambda _: None,
    2: bool,
    3: _signed,
    4: lambda value: Unsigned(_as_int(value)),
    5: _double,
    6: lambda value: _as_bytes(value).decode(),
    7: lambda value: bytes(_as_bytes(value)),
}


def _fields(data: bytes) -> _Message:
    """Return the values of a message by field number, in order."""
    found: _Message = {}
    position, end = 0, len(data)
    while position < end:
        tag = data[position]
        position += 1
        if tag >= 0x80:
            tag, position = _varint(data, position - 1)
        wire = tag & 7
        value: _Field
        if wire == _VARINT:
            value, position = _varint(data, position)
        else:
            if wire == _BYTES:
                length, position = _varint(data, position)
            elif wire in (_FIXED64, _FIXED32):
                length = 8 if wire == _FIXED64 else 4
            else:
                raise ValueError(f"wire type {wire}")
            value = data[position : position + length]
            position += length
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _packed(data: bytes) -> list[int]:
    found = []
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        found.append(value)
    return found


def _messages(fields: _Message, number: int) -> list[bytes]:
    return [_as_bytes(value) for value in fields.get(number, ())]


def _last(fields: _Message, number: int) -> bytes:
    found = fields.get(number)
    return _as_bytes(found[-1]) if found else b""


def _number(fields: _Message, number: int) -> int:
    found = fields.get(number)
    return _as_int(found[-1]) if found else 0


def _text(fields: _Message, number: int) -> str:
    return _last(fields, number).decode()


def _as_bytes(value: _Field) -> bytes:
    if isinstance(value, int):
        raise TypeError("a number where a message was expected")
    return value


def _as_int(value: _Field) -> int:
    if isinstance(value, bytes):
        raise TypeError("a message where a number was expected")
    return value

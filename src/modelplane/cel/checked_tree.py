"""The compiler's checked tree, read from its wire form, and written to it again.

This module knows the messages of `cel/expr/checked.proto` and `syntax.proto` (cel-expr/cel-spec), and nothing
about devices. A protobuf runtime for a dozen small messages would be the largest dependency of the core.
"""

import functools
import operator
import struct
from enum import IntEnum
from typing import Any, Final, TypeAlias

import msgspec

_Message: TypeAlias = dict[int, list[Any]]
"""Values by field: numbers, and bytes for anything else."""


class Kind(IntEnum):
    """Form of an expression; the number is that of its field in `Expr`."""

    CONSTANT = 3
    NAME = 4
    SELECT = 5
    CALL = 6
    LIST = 7
    MAP = 8
    FOLD = 9


# Fields of each form: its name, and its parts in their order.
_NAME: Final = {Kind.NAME: 1, Kind.SELECT: 2, Kind.CALL: 2, Kind.FOLD: 1}
_PARTS: Final = {Kind.SELECT: (1,), Kind.CALL: (1, 3), Kind.LIST: (1,), Kind.FOLD: (2, 4, 5, 6, 7)}
# What makes `flag` true: `has(a.b)`, a call written as `a.f()`, a list with optional elements.
_FLAG: Final = {Kind.SELECT: 3, Kind.CALL: 1, Kind.LIST: 2}
_ACCUMULATOR: Final = 3
_MADE: Final = 2**32  # added to the identity of a new expression, so that no reference is taken for its own
# The field of a type, and its name; a primitive type is a number.
_PRIMITIVES: Final = ("dyn", "bool", "int", "uint", "double", "string", "bytes")
_TYPES: Final = {2: "null", 5: "time", 6: "list", 7: "map", 11: "type"}
_OPAQUE: Final = 14


class Node(msgspec.Struct, frozen=True):
    """An expression.

    `name` is the variable, the field, the function, or the variable of a fold, to which `all` and `exists`
    are expanded. The parts of a fold are range, initial value, condition, step and result. `value` is that of
    a constant. `type` is the name of the type, and `full_type` its message, with parameters. `wire` is the
    wire form as it was read.
    """

    kind: Kind
    identity: int
    name: str = ""
    parts: "tuple[Node, ...]" = ()
    flag: bool = False
    accumulator: str = ""
    value: bool | int | float | str | bytes | None = None
    type: str = "dyn"
    full_type: bytes = b""
    overloads: tuple[str, ...] = ()
    wire: bytes = b""

    def replace_parts(self, parts: "tuple[Node, ...]") -> "Node":
        """Return the expression with other parts; itself if they are its own."""
        is_same = all(map(operator.is_, parts, self.parts))
        return self if is_same else msgspec.structs.replace(self, parts=parts, wire=b"")


class Tree:
    """A checked expression."""

    def __init__(self, serialized: bytes) -> None:
        """Read a serialized `Any` that contains a CheckedExpr."""
        self._any = _read(serialized)
        self._checked = _read(self._any[2][0])
        # By node: what its name refers to, and its type.
        entries = (map(_read, self._checked.get(number, ())) for number in (2, 3))
        self._references, self._types = ({entry[1][0]: entry[2][0] for entry in table} for table in entries)
        self.root = self._read_node(self._checked[4][0])

    def serialize(self, root: Node) -> bytes:
        """Return the wire form of the expression with another root, without types and positions."""
        references = self._checked.get(2, [])
        return _write({1: self._any[1], 2: [_write({2: references, 4: [_write_node(root)]})]})

    def find_offset(self, identity: int) -> int | None:
        """Return the place of a node, in characters from the start of the text."""
        positions = map(_read, _read(self._checked[5][0]).get(4, ()))
        return next((entry.get(2, [0])[0] for entry in positions if entry[1][0] == identity), None)

    def _read_node(self, data: bytes) -> Node:
        fields = _read(data)
        kind, identity = next(kind for kind in Kind if kind in fields), fields.get(2, [0])[0]
        reference = _read(self._references.get(identity, b""))
        body = _read(fields[kind][0])
        if 1 in reference and kind is Kind.SELECT and _FLAG[kind] not in body:
            kind, body = Kind.NAME, reference  # a variable with a dot in its name
        parts = [part for number in _PARTS.get(kind, ()) for part in body.get(number, ())]
        full_type = self._types.get(identity, b"")
        return Node(
            kind,
            identity,
            _text(reference if 1 in reference and kind is Kind.NAME else body, _NAME.get(kind, 0)),
            tuple(map(self._read_node, parts)),
            _FLAG.get(kind) in body,
            _text(body, _ACCUMULATOR) if kind is Kind.FOLD else "",
            _read_value(body) if kind is Kind.CONSTANT else None,
            _name_type(full_type),
            full_type,
            tuple(str(overload, "utf-8") for overload in reference.get(3, ())),
            data,
        )


def _read_value(body: _Message) -> bool | int | float | str | bytes | None:
    ((number, (value,)),) = body.items()
    match number:
        case 1:
            return None
        case 3:
            return int(value - 2**64 if value >= 2**63 else value)
        case 5:
            return float(*struct.unpack("<d", value))
    return bool(value) if number == 2 else str(value, "utf-8") if number == 6 else value


@functools.lru_cache(maxsize=256)
def _name_type(data: bytes) -> str:
    for number, (value, *_) in _read(data).items():
        if number == _OPAQUE:
            return _text(_read(value), 1)
        return _TYPES.get(number, _PRIMITIVES[value] if isinstance(value, int) else "dyn")
    return "dyn"


def _write_node(node: Node) -> bytes:
    if node.wire:
        return node.wire
    parts = [_write_node(part) for part in node.parts]
    body: _Message = {_NAME[node.kind]: [node.name.encode()]} if node.kind in _NAME else {}
    match node.kind:
        case Kind.CALL:
            body |= {1: parts[: node.flag], 3: parts[node.flag :]}
        case Kind.FOLD:
            body |= {number: [part] for number, part in zip(_PARTS[node.kind], parts, strict=True)}
            body[_ACCUMULATOR] = [node.accumulator.encode()]
        case Kind.SELECT | Kind.LIST:
            body |= {1: parts} | ({_FLAG[node.kind]: [1]} if node.flag else {})
    return _write({2: [node.identity], int(node.kind): [_write(body)]})


def make_call(like: Node, function: str, *parts: Node, is_member: bool = False) -> Node:
    """Return a call in place of another expression."""
    return Node(Kind.CALL, like.identity + _MADE, function, parts, is_member, type=like.type)


def make_constant(like: Node, value: bool | str | bytes) -> Node:
    """Return a constant in place of another expression."""
    if isinstance(value, bool):
        body: _Message = {2: [int(value)]}
    else:
        body = {6: [value.encode()]} if isinstance(value, str) else {7: [value]}
    identity = like.identity + _MADE
    wire = _write({2: [identity], int(Kind.CONSTANT): [_write(body)]})
    return Node(Kind.CONSTANT, identity, value=value, wire=wire)


def _write(fields: _Message) -> bytes:
    written = bytearray()
    for number, value in ((number, value) for number, values in fields.items() for value in values):
        is_number = isinstance(value, int)
        written += _write_number(number << 3 | (0 if is_number else 2))
        written += _write_number(value) if is_number else _write_number(len(value)) + value
    return bytes(written)


def _write_number(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _read(data: bytes) -> _Message:
    fields: _Message = {}
    position, end = 0, len(data)
    while position < end:
        tag, position = data[position], position + 1
        if tag >= 0x80:
            tag, position = _read_number(data, position - 1)
        # A double has eight bytes. A number is its own value, a message or text has a length.
        length, position = (8, position) if tag & 7 == 1 else _read_number(data, position)
        value = length if tag & 7 == 0 else data[position : position + length]
        position += length if tag & 7 else 0
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _read_number(data: bytes, position: int) -> tuple[int, int]:
    value, shift = data[position] & 0x7F, 0
    while data[position] >= 0x80:
        position, shift = position + 1, shift + 7
        value |= (data[position] & 0x7F) << shift
    return value, position + 1


def _text(fields: _Message, number: int) -> str:
    return str(fields.get(number, [b""])[0], "utf-8")

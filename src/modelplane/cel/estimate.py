"""Estimate of the highest possible cost of a selector, made when it is compiled.

The API server does not store a selector whose estimate exceeds the limit, so it is refused here too.

A size is a range of the possible results of `size()`. An unbounded size exceeds any limit, so a function
whose cost grows with its argument is refused on such an argument. The sizes of a device's values are bounded
by the ResourceSlice schema.

Sources: cel-go v0.26 `checker/cost.go` and `ext/{lists,sets}.go`; k8s.io/apiserver v0.35
`pkg/cel/library/cost.go`; k8s.io/dynamic-resource-allocation v0.35 `cel/compile.go` (sizes of a device's
parts).
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from modelplane.cel import environment
from modelplane.cel.checked import (
    Call,
    Constant,
    Fold,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
    Tree,
    Type,
)
from modelplane.cel.evaluation_cost import LIST, MAP, PATTERN, TEXT
from modelplane.cel.value_types.type_names import QUANTITY, SEMVER

UNBOUNDED: Final = 2**64 - 1

_Path: TypeAlias = tuple[str, ...]


class Size(NamedTuple):
    """A range of sizes."""

    least: int
    most: int

    def times(self, other: "Size") -> "Size":
        """Multiply, up to the bound."""
        return Size(_bounded(self.least * other.least), _bounded(self.most * other.most))

    def plus(self, other: "Size") -> "Size":
        """Add, up to the bound."""
        return Size(_bounded(self.least + other.least), _bounded(self.most + other.most))

    def union(self, other: "Size") -> "Size":
        """Return the range that holds both."""
        return Size(min(self.least, other.least), max(self.most, other.most))


_ANY: Final = Size(0, UNBOUNDED)
_ONE: Final = Size(1, 1)


class _Entries(NamedTuple):
    """The sizes of the elements of a list or map."""

    container: str
    key: Size
    value: Size

    def union(self, other: "_Entries | None") -> "_Entries | None":
        if other is None:
            return None
        return _Entries(self.container, self.key.union(other.key), self.value.union(other.value))


class _Variable(NamedTuple):
    path: _Path
    size: Size | None
    entries: _Entries | None


class _Estimate(NamedTuple):
    cost: int
    size: Size | None = None


class _Part(NamedTuple):
    """A part of a device: its greatest number of elements, and the parts under its names and keys."""

    most: int
    fields: "dict[str, _Part]"
    named: "_Part | None" = None  # the part of a name that is not in `fields`


def _domains(value: "_Part | None") -> _Part:
    values = _Part(32, {"@keys": _Part(32, {})} | ({"@values": value} if value else {}), value)
    return _Part(32, {"@keys": _Part(63, {}), "@values": values})


# A ResourceSlice's device: 32 attributes and capacities, domains of 63 characters, names of 32, values of 64.
_DEVICE: Final[dict[str, _Part]] = {
    "driver": _Part(63, {}),
    "attributes": _domains(_Part(64, {})),
    "capacity": _domains(None),
}


def most(tree: Tree) -> int:
    """Return the most that the expression can cost."""
    return _Estimator(tree).cost(tree.root)


def _bounded(value: float) -> int:
    return UNBOUNDED if value >= UNBOUNDED else math.ceil(value)


def _by(size: int, factor: float) -> int:
    return _bounded(size * factor) if size < UNBOUNDED else _bounded(float(UNBOUNDED) * factor)


class _Estimator:
    """One walk over one tree, which remembers the sizes it met."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.paths: dict[int, _Path] = {}
        self.sizes: dict[int, Size] = {}
        self.entries: dict[int, _Entries] = {}
        self.variables: dict[str, list[_Variable]] = {}

    def cost(self, node: Node) -> int:
        return _COSTS[type(node)](self, node)

    def size(self, node: Node) -> Size:
        """Return the size of a node's value, unbounded if it is unknown."""
        found = self.known_size(node)
        return _ANY if found is None else found

    def known_size(self, node: Node) -> Size | None:
        found = self.sizes.get(node.identity)
        if found is not None:
            return found
        match node:
            case Constant(value=value):
                length = len(value) if isinstance(value, (str, bytes)) else 1
                return Size(length, length)
            case ListLiteral(elements=parts) | MapLiteral(entries=parts):
                return Size(len(parts), len(parts))
        found = self.device_size(self.path(node))
        if found is not None:
            self.sizes[node.identity] = found
            return found
        if _scalar(self.tree.type_of(node.identity)):
            return _ONE
        variable = self.variable(node)
        return variable.size if variable else None

    def device_size(self, path: _Path) -> Size | None:
        if len(path) < 2 or path[0] != environment.DEVICE:
            return None
        part = _DEVICE.get(path[1])
        for name in path[2:]:
            part = part and part.fields.get("@values" if name == "@items" else name, part.named)
        return Size(0, part.most) if part else None

    def path(self, node: Node) -> _Path:
        variable = self.variable(node)
        return variable.path if variable else self.paths.get(node.identity, ())

    def variable(self, node: Node) -> _Variable | None:
        if not isinstance(node, Identifier):
            return None
        found = self.variables.get(node.name)
        return found[-1] if found else None

    def entry(self, node: Node) -> _Entries | None:
        found = self.entries.get(node.identity)
        if found is None:
            variable = self.variable(node)
            found = variable.entries if variable else None
        return found

    def copy(self, target: Node, source: Node) -> None:
        """Give a node the sizes of another."""
        size, entries = self.known_size(source), self.entry(source)
        if size is not None:
            self.sizes[target.identity] = size
        if entries is not None:
            self.entries[target.identity] = entries

    def identifier(self, node: Identifier) -> int:
        variable = self.variable(node)
        if variable:
            self.paths[node.identity] = variable.path
            return 1
        self.paths[node.identity] = tuple(node.name.split("."))
        return 2 if node.name in environment.FIELDS else 1

    def select(self, node: Select) -> int:
        total = self.cost(node.operand)
        if node.test:
            return total
        self.paths[node.identity] = (*self.path(node.operand), node.field)
        return total + (self.tree.type_of(node.operand.identity).name == "map")

    def list_literal(self, node: ListLiteral) -> int:
        total = LIST + sum(map(self.cost, node.elements))
        inside = self.together(node.elements)
        self.entries[node.identity] = _Entries("list", _ONE, inside)
        return total

    def map_literal(self, node: MapLiteral) -> int:
        total = MAP + sum(self.cost(key) + self.cost(value) for key, value, _ in node.entries)
        keys = self.together([key for key, _, _ in node.entries])
        values = self.together([value for _, value, _ in node.entries])
        self.entries[node.identity] = _Entries("map", keys, values)
        return total

    def together(self, nodes: "tuple[Node, ...] | list[Node]") -> Size:
        found = Size(UNBOUNDED if nodes else 0, 0)
        for node in nodes:
            found = found.union(self.size(node))
        return found

    def fold(self, node: Fold) -> int:
        total = self.cost(node.items) + self.cost(node.initial)
        bound = _Variable(self.path(node.initial), self.known_size(node.initial), self.entry(node.initial))
        self.push(node.accumulator, bound)
        if node.binds:
            total += self.cost(node.result)
            self.copy(node, node.result)
            self.variables[node.accumulator].pop()
            return _bounded(total)
        loops = self.loop_variables(node)
        for name, variable in loops.items():
            self.push(name, variable)
        each = self.cost(node.condition) + self.cost(node.step)
        for name in loops:
            self.variables[name].pop()
        total += self.cost(node.result)
        self.variables[node.accumulator].pop()
        count = self.size(node.items)
        if isinstance(node.initial, (ListLiteral, MapLiteral)):
            self.sizes[node.identity] = count
            inside = self.entry(node.step)
            if inside is not None:
                self.entries[node.identity] = inside
        elif isinstance(node.initial, Constant):
            self.sizes[node.identity] = self.size(node.initial)
        return _bounded(total + _bounded(count.most * each))

    def push(self, name: str, variable: _Variable) -> None:
        self.variables.setdefault(name, []).append(variable)

    def loop_variables(self, node: Fold) -> dict[str, _Variable]:
        inside, path = self.entry(node.items), self.path(node.items)
        container = inside.container if inside else self.tree.type_of(node.items.identity).name
        key, value = (inside.key, inside.value) if inside else (None, None)
        if container == "list":
            indexes = _Variable((*path, "@indices"), key, None)
            items = _Variable((*path, "@items"), value, None)
        else:
            indexes = _Variable((*path, "@keys"), key, None)
            items = _Variable((*path, "@values"), value, None)
        if node.second:
            return {node.variable: indexes, node.second: items}
        return {node.variable: items if container == "list" else indexes}

    def call(self, node: Call) -> int:
        costs = [self.cost(argument) for argument in node.arguments]
        if node.function == "dyn":
            self.copy(node, node.arguments[0])
            return 1 + costs[0]
        if not node.overloads:
            return 0
        found = [self.overloaded(node, form) for form in node.overloads]
        total = max(estimate.cost for estimate in found)
        sizes = [estimate.size for estimate in found if estimate.size is not None]
        size: Size | None = None
        for each in sizes:
            size = each if size is None else size.union(each)
        for overload in node.overloads:
            if overload in ("index_list", "index_map"):
                inside = self.entry(node.arguments[0])
                size = inside.value if inside else None
                place = "@items" if overload == "index_list" else "@values"
                self.paths[node.identity] = (*self.path(node.arguments[0]), place)
        if size is None:
            size = self.known_size(node)
        if size is not None:
            self.sizes[node.identity] = size
        if node.function == "_?_:_":
            test, *branches = costs
            return _bounded(test + max(branches))
        return _bounded(total + sum(costs))

    def overloaded(self, node: Call, overload: str) -> _Estimate:
        """Return the cost of one overload without its arguments."""
        estimate = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(node.function)
        if estimate is None and overload.startswith("list_") and overload.endswith(_SORTS):
            estimate = _sorted
        return estimate(self, node) if estimate else _Estimate(1)

    def element(self, node: Node) -> tuple[Type, Size] | None:
        """Return the type and size of a list's elements, or None if it is not a list."""
        parameters = self.tree.type_of(node.identity).parameters
        if not parameters:
            return None
        path = self.path(node)
        size = self.device_size((*path, "@items")) if path else None
        return parameters[0], _ANY if size is None else size


def _scalar(kind: Type) -> bool:
    if kind.name == "optional_type" and kind.parameters:
        return _scalar(kind.parameters[0])
    return kind.name in ("bool", "double", "duration", "int", "timestamp", "uint")


_COSTS: Final[dict[type, Callable[..., int]]] = {
    Constant: lambda _, __: 0,
    Identifier: _Estimator.identifier,
    Select: _Estimator.select,
    Call: _Estimator.call,
    ListLiteral: _Estimator.list_literal,
    MapLiteral: _Estimator.map_literal,
    Fold: _Estimator.fold,
}

_Estimating: TypeAlias = Callable[[_Estimator, Call], _Estimate]


def _through(factor: float, place: int = 0, *, keeps: bool = False) -> _Estimating:
    """Estimate a traversal of one argument: its cost and, if the result is as long, its size."""

    def estimate(walk: _Estimator, node: Call) -> _Estimate:
        size = walk.size(node.arguments[place])
        return _Estimate(_by(size.most, factor), size if keeps else None)

    return estimate


def _walked(walk: _Estimator, node: Call) -> _Estimate:
    size, element = walk.size(node.arguments[0]), walk.element(node.arguments[0])
    if element is None:
        return _Estimate(_by(size.most, TEXT))
    kind, inside = element
    each = 1 + (_by(inside.most, TEXT) if kind.name in ("string", "bytes") else 0)
    return _Estimate(_bounded(size.most * each))


def _replaced(walk: _Estimator, node: Call) -> _Estimate:
    text, old, new = (walk.size(argument) for argument in node.arguments[:3])
    if old.least == 0:
        most_count, most_kept = min(text.most + 1, UNBOUNDED), text.most
    elif new.most <= old.least:
        most_count, most_kept = 0, text.most
    else:
        most_count, most_kept = _by(text.most, 1 / old.least), 0
    if old.most == 0:
        least_count, least_kept = min(text.least + 1, UNBOUNDED), text.least
    elif old.most <= new.least:
        least_count, least_kept = 0, text.least
    else:
        least_count, least_kept = _by(text.least, 1 / old.most), 0
    size = Size(least_count, most_count).times(new).plus(Size(least_kept, most_kept))
    return _Estimate(_by(text.most, 2 * TEXT), size)


def _split(walk: _Estimator, node: Call) -> _Estimate:
    size = walk.size(node.arguments[0])
    count = size.most
    if len(node.arguments) > 2:
        limit = node.arguments[2]
        if isinstance(limit, Constant) and type(limit.value) is int:
            count = limit.value % 2**64
    return _Estimate(_by(size.most, 2 * TEXT), Size(0, count))


def _joined(walk: _Estimator, node: Call) -> _Estimate:
    count, element = walk.size(node.arguments[0]), walk.element(node.arguments[0])
    size = count.times(element[1]) if element else Size(0, 0)
    if len(node.arguments) > 1:
        between = Size(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(walk.size(node.arguments[1]).times(between))
    return _Estimate(_by(size.most, TEXT), size)


def _pattern(walk: _Estimator, node: Call) -> int:
    text, pattern = (walk.size(argument) for argument in node.arguments[:2])
    return _bounded(_by(min(text.most + 1, UNBOUNDED), TEXT) * _by(pattern.most, PATTERN))


def _matched(walk: _Estimator, node: Call) -> _Estimate:
    return _Estimate(_pattern(walk, node))


def _found(walk: _Estimator, node: Call) -> _Estimate:
    return _Estimate(_pattern(walk, node), Size(0, walk.size(node.arguments[0]).most))


_CONSTANT_EQUALITY: Final = {
    QUANTITY: 1,
    SEMVER: 1,
}


def _equal(walk: _Estimator, node: Call) -> _Estimate:
    left, right = (walk.tree.type_of(argument.identity) for argument in node.arguments)
    if left == right and left.name in _CONSTANT_EQUALITY:
        return _Estimate(_CONSTANT_EQUALITY[left.name])
    return _compared(walk, node)


def _compared(walk: _Estimator, node: Call) -> _Estimate:
    left, right = (walk.size(argument) for argument in node.arguments)
    return _Estimate(_by(min(left.most, right.most), TEXT))


def _added(walk: _Estimator, node: Call) -> _Estimate:
    left, right = (walk.size(argument) for argument in node.arguments)
    size = left.plus(right)
    inside = walk.entry(node.arguments[0])
    together = inside and inside.union(walk.entry(node.arguments[1]))
    if together:
        walk.entries[node.identity] = together
    return _Estimate(_by(size.most, TEXT), size)


def _appended(walk: _Estimator, node: Call) -> _Estimate:
    return _Estimate(1, _added(walk, node).size)


def _chosen(walk: _Estimator, node: Call) -> _Estimate:
    _, then, otherwise = node.arguments
    inside = walk.entry(then)
    together = inside and inside.union(walk.entry(otherwise))
    if together:
        walk.entries[node.identity] = together
    return _Estimate(0, walk.size(then).union(walk.size(otherwise)))


def _contained(walk: _Estimator, node: Call) -> _Estimate:
    text, part = (_by(walk.size(argument).most, TEXT) for argument in node.arguments)
    return _Estimate(_bounded(text * part))


def _to_bytes(walk: _Estimator, node: Call) -> _Estimate:
    size = walk.size(node.arguments[0])
    return _Estimate(_by(size.most, TEXT), Size(size.least, size.most * 4 % 2**64))


def _from_bytes(walk: _Estimator, node: Call) -> _Estimate:
    size = walk.size(node.arguments[0])
    return _Estimate(_by(size.most, TEXT), Size(size.least // 4, size.most))


def _quoted(walk: _Estimator, node: Call) -> _Estimate:
    size = walk.size(node.arguments[0])
    return _Estimate(_by(size.most, TEXT), Size(size.least + 2, _bounded(size.most * 2 + 2)))


def _new_list(factor: float, size: Size) -> _Estimate:
    return _Estimate(_bounded(_by(size.most, factor) + 1 + LIST), size)


def _literal(node: Node, otherwise: int) -> int:
    return max(node.value, 0) if isinstance(node, Constant) and type(node.value) is int else otherwise


def _sliced(walk: _Estimator, node: Call) -> _Estimate:
    items, start, end = node.arguments
    count = (_literal(end, walk.size(items).most) - _literal(start, 0)) % 2**64
    return _new_list(1, Size(count, count))


def _ranged(_: _Estimator, node: Call) -> _Estimate:
    count = _literal(node.arguments[0], UNBOUNDED)
    return _new_list(1, Size(count, count))


def _flattened(walk: _Estimator, node: Call) -> _Estimate:
    depth = _literal(node.arguments[1], UNBOUNDED) if len(node.arguments) > 1 else 1
    return _new_list(depth, walk.size(node.arguments[0]))


def _reversed(walk: _Estimator, node: Call) -> _Estimate:
    return _new_list(1, walk.size(node.arguments[0]))


def _distinct(walk: _Estimator, node: Call) -> _Estimate:
    size = walk.size(node.arguments[0])
    return _new_list(2, size.times(size))


_SORTS: Final = ("_sort", "_sortByAssociatedKeys")


def _sorted(walk: _Estimator, node: Call) -> _Estimate:
    by = node.arguments[-1]
    kind, size = walk.tree.type_of(by.identity), walk.size(by)
    texts = not kind.parameters or kind.parameters[0].name in ("string", "bytes", "dyn")
    return _new_list(2 + (TEXT if texts else 0), size.times(size))


def _sets(factor: int) -> _Estimating:
    def estimate(walk: _Estimator, node: Call) -> _Estimate:
        left, right = (walk.size(argument) for argument in node.arguments)
        return _Estimate(_bounded(left.times(right).most * factor + 1))

    return estimate


_BY_FUNCTION: Final[dict[str, _Estimating]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walked),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _through(TEXT, keeps=True)),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _through(TEXT)),
    **dict.fromkeys(("find", "findAll"), _found),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    "slice": _sliced,
    "flatten": _flattened,
    "lists.range": _ranged,
    "reverse": _reversed,
    "distinct": _distinct,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "_==_": _equal,
    "_!=_": _compared,
}

_BY_OVERLOAD: Final[dict[str, _Estimating]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _through(TEXT, 1)),
    **dict.fromkeys(("matches", "matches_string"), _matched),
    **dict.fromkeys(
        (
            f"{operator}_{kind}"
            for operator in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _compared,
    ),
    **dict.fromkeys(("add_string", "add_bytes"), _added),
    "add_list": _appended,
    "bytes_to_string": _from_bytes,
    "conditional": _chosen,
    "contains_string": _contained,
    "in_list": _through(1, 1),
    "logical_and": lambda _, __: _Estimate(0),
    "logical_or": lambda _, __: _Estimate(0),
    "string_to_bytes": _to_bytes,
    "strings_quote": _quoted,
}

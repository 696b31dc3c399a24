"""A checked syntax tree becomes a program over one device.

One rule: errors are exceptions, except where CEL absorbs them: `||`, `&&` and the loops that macros make.

Why not the library's own evaluator: it refuses two overloads of `compareTo` that differ only in an abstract type, has
no map with a default domain, no limit on cost, and no way to tell which values were looked at. So it parses and
checks, this module walks the tree, and plain values go back to it (`standard`). Source for the semantics: the CEL
language definition (github.com/google/cel-spec), "Evaluation".
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from modelplane.cel import checked, environment, functions, optional, standard
from modelplane.cel.bindings import Bindings, Domain, Domains
from modelplane.cel.errors import EvaluationError
from modelplane.cel.optional import ABSENT, Optional
from modelplane.cel.quantity import Quantity
from modelplane.cel.semver import Semver

COST_LIMIT: Final = 100_000

_Value: TypeAlias = Any  # a CEL value: plain, Quantity, Semver, Domain, Domains, Optional or TypeName
Program: TypeAlias = "Callable[[Frame], _Value]"


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as a value, such as `int`."""

    name: str


@dataclass(slots=True)
class Frame:
    """One evaluation: the device, the variables of the loops being run, and the cost left."""

    bindings: Bindings
    scope: dict[str, _Value] = field(default_factory=dict)
    budget: int = COST_LIMIT

    def charge(self, cost: int) -> None:
        """Take from the budget. Raises EvaluationError when it is spent."""
        self.budget -= cost
        if self.budget < 0:
            raise EvaluationError(f"it costs more than {COST_LIMIT:,} steps to evaluate")


def build(node: checked.Node) -> Program:
    """Return the program of a tree."""
    return _BUILDERS[type(node)](node)


def _constant(node: checked.Constant) -> Program:
    value = node.value
    return lambda _: value


def _identifier(node: checked.Identifier) -> Program:
    name = node.name
    if name in _DEVICE:
        return _DEVICE[name]
    type_name = TypeName(name)

    def read(frame: Frame) -> _Value:
        value = frame.scope.get(name, type_name)
        if isinstance(value, EvaluationError):
            raise value
        return value

    return read


_DEVICE: Final[dict[str, Program]] = {
    environment.DRIVER: lambda frame: frame.bindings.driver,
    environment.ATTRIBUTES: lambda frame: frame.bindings.attributes,
    environment.CAPACITY: lambda frame: frame.bindings.capacity,
}


def _select(node: checked.Select) -> Program:
    operand, key = build(node.operand), node.field
    if node.test:
        return lambda frame: _find(operand(frame), key).present
    return lambda frame: _index(operand(frame), key)


def _list(node: checked.ListLiteral) -> Program:
    elements = [(build(element), index in node.optional) for index, element in enumerate(node.elements)]

    def make(frame: Frame) -> _Value:
        values = []
        for element, marked in elements:
            value = element(frame)
            if not marked:
                values.append(value)
            elif _optional(value).present:
                values.append(value.value)
        return values

    return make


def _map(node: checked.MapLiteral) -> Program:
    entries = [(build(key), build(value), marked) for key, value, marked in node.entries]

    def make(frame: Frame) -> _Value:
        result: dict[_Value, _Value] = {}
        for key, value, marked in entries:
            name, content = key(frame), value(frame)
            if not isinstance(name, (str, int, checked.Unsigned)):
                raise EvaluationError("a map key must be a string, a whole number or a boolean")
            if name in result:
                raise EvaluationError(f"a map has the key {name} twice")
            if not marked:
                result[name] = content
            elif _optional(content).present:
                result[name] = content.value
        return result

    return make


def _fold(node: checked.Fold) -> Program:
    items, initial = build(node.items), build(node.initial)
    condition, step, result = build(node.condition), build(node.step), build(node.result)
    cost = 1 + _size(node.condition) + _size(node.step)

    def run(frame: Frame) -> _Value:
        values = _iterable(items(frame))
        outer = frame.scope
        inner = frame.scope = {**outer, node.accumulator: _caught(initial, frame)}
        try:
            for value in values:
                frame.charge(cost)
                inner[node.variable] = value
                if condition(frame) is not True:
                    break
                inner[node.accumulator] = _caught(step, frame)
            inner.pop(node.variable, None)
            return result(frame)
        finally:
            frame.scope = outer

    return run


def _caught(program: Program, frame: Frame) -> _Value:
    """Return the value, or the error as one: a later step may absorb it. A spent budget is not absorbed."""
    try:
        return program(frame)
    except EvaluationError as error:
        if frame.budget < 0:
            raise
        return error


def _iterable(value: _Value) -> list[_Value]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, Domains):
        return list(value.domains)
    if isinstance(value, Domain):
        return list(value.values)
    raise EvaluationError(f"{_kind(value)} cannot be iterated over")


def _size(node: checked.Node) -> int:
    match node:
        case checked.Select(operand, _, _):
            return 1 + _size(operand)
        case checked.Call(_, arguments, _):
            return 1 + sum(map(_size, arguments))
        case checked.ListLiteral(elements, _):
            return 1 + sum(map(_size, elements))
        case checked.MapLiteral(entries):
            return 1 + sum(_size(key) + _size(value) for key, value, _ in entries)
        case checked.Fold(_, items, _, initial, _, _, result):
            return 1 + _size(items) + _size(initial) + _size(result)
        case _:
            return 1


def _call(node: checked.Call) -> Program:
    arguments = tuple(build(argument) for argument in node.arguments)
    name, member = node.function, node.member
    if name in _SPECIAL:
        return _SPECIAL[name](*arguments)
    if name in _OPERATORS:
        operator = _OPERATORS[name]
        return lambda frame: operator(*[argument(frame) for argument in arguments])
    return lambda frame: _apply(frame, name, tuple(argument(frame) for argument in arguments), member)


def _apply(frame: Frame, name: str, arguments: tuple[_Value, ...], member: bool) -> _Value:  # noqa: FBT001
    overload = functions.OVERLOADS.get((name, tuple(type(argument) for argument in arguments)))
    if overload is not None:
        return overload(*arguments)
    if name in optional.FUNCTIONS and (not member or isinstance(arguments[0], Optional)):
        return optional.FUNCTIONS[name](*arguments)
    frame.charge(1)
    if name == "_+_" and all(isinstance(argument, list) for argument in arguments):
        frame.charge(len(arguments[0]) + len(arguments[1]))
        return arguments[0] + arguments[1]
    if name == "size" and len(arguments) == 1 and not isinstance(arguments[0], (str, bytes)):
        return len(_iterable(arguments[0]))
    if name in functions.NAMES or not all(map(standard.is_plain, arguments)):
        raise EvaluationError(_no_overload(name, arguments))
    frame.charge(sum(_weight(argument) for argument in arguments))
    result = standard.apply(name, arguments, member=member)
    frame.charge(_weight(result))
    return result


def _weight(value: _Value) -> int:
    return len(value) if isinstance(value, (str, bytes, list, dict)) else 0


def _no_overload(name: str, arguments: tuple[_Value, ...]) -> str:
    symbol = name.strip("_@") or name
    return f"{symbol} cannot be applied to {' and '.join(map(_kind, arguments))}"


_KINDS: Final = {
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Domain: "map",
    Domains: "map",
    type(None): "null_type",
    checked.Unsigned: "uint",
    TypeName: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    datetime.datetime: "timestamp",
    datetime.timedelta: "duration",
}


def _kind(value: _Value) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _find(value: _Value, key: _Value) -> Optional:
    """Return the element under a key, absent when there is none."""
    match value:
        case Domains():
            # Kubernetes' map answers every lookup, so a domain is never absent.
            return optional.of(value.read(_name(key)))
        case Domain():
            return optional.of(value.read(key)) if isinstance(key, str) and key in value.values else ABSENT
        case dict():
            return next((optional.of(item) for name, item in value.items() if _equal(name, key)), ABSENT)
        case list() if type(key) is int:
            return optional.of(value[key]) if 0 <= key < len(value) else ABSENT
        case Optional():
            return _find(value.value, key) if value.present else ABSENT
    raise EvaluationError(f"{_kind(value)} has no element {key!r}")


def _index(value: _Value, key: _Value) -> _Value:
    if isinstance(value, Domain):
        return value.read(_name(key))
    found = _find(value, key)
    if isinstance(value, Optional):
        return found
    if not found.present:
        raise EvaluationError(f"{_kind(value)} has no element {key!r}")
    return found.value


def _name(key: _Value) -> str:
    if not isinstance(key, str):
        raise EvaluationError(f"a device's values are found by string, not by {_kind(key)}")
    return key


def _contains(value: _Value, container: _Value) -> bool:
    if isinstance(container, Domains):
        return isinstance(value, str) and value in container.domains
    if isinstance(container, list):
        return any(_equal(value, item) for item in container)
    return _find(container, value).present


_FOREIGN: Final = (Quantity, Semver, TypeName, Optional)


def _equal(left: _Value, right: _Value) -> bool:
    if type(left) is type(right) and isinstance(left, (str, bool, int, *_FOREIGN)):
        return bool(left == right)
    if isinstance(left, (Quantity, Semver)):
        raise EvaluationError(_no_overload("_==_", (left, right)))
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    left_map, right_map = _as_map(left), _as_map(right)
    if left_map is not None and right_map is not None:
        return len(left_map) == len(right_map) and all(
            (found := _find(right_map, key)).present and _equal(value, found.value)
            for key, value in left_map.items()
        )
    if not standard.is_plain(left) or not standard.is_plain(right):
        return False
    return bool(standard.apply("_==_", (left, right), member=False))


def _as_map(value: _Value) -> dict[_Value, _Value] | None:
    match value:
        case dict():
            return value
        case Domain():
            return dict(value.values)
        case Domains():
            return dict(value.domains)
    return None


def _select_optional(operand: Program, key: Program) -> Program:
    return lambda frame: _find(operand(frame), key(frame))


def _decides(verdict: bool) -> Callable[[Program, Program], Program]:  # noqa: FBT001
    """Make `||` (True) or `&&` (False): either side may decide, whatever becomes of the other."""

    def connect(left: Program, right: Program) -> Program:
        def evaluate(frame: Frame) -> bool:
            first = _caught(left, frame)
            if first is verdict:
                return verdict
            second = right(frame)
            if second is verdict:
                return verdict
            if isinstance(first, EvaluationError):
                raise first
            if not isinstance(first, bool) or not isinstance(second, bool):
                raise EvaluationError(_no_overload("||" if verdict else "&&", (first, second)))
            return not verdict

        return evaluate

    return connect


def _conditional(test: Program, then: Program, otherwise: Program) -> Program:
    return lambda frame: then(frame) if _boolean(test(frame)) else otherwise(frame)


def _optional(value: _Value) -> Optional:
    if not isinstance(value, Optional):
        raise EvaluationError(f"an optional is needed, not {_kind(value)}")
    return value


def _boolean(value: _Value) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(f"a boolean is needed, not {_kind(value)}")
    return value


def _not_strictly_false(operand: Program) -> Program:
    return lambda frame: _caught(operand, frame) is not False


_SPECIAL: Final[dict[str, Callable[..., Program]]] = {
    "_||_": _decides(verdict=True),
    "_&&_": _decides(verdict=False),
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
    "_?._": _select_optional,
    "_[?_]": _select_optional,
}

_OPERATORS: Final[dict[str, Callable[..., _Value]]] = {
    "!_": lambda value: not _boolean(value),
    "_==_": _equal,
    "_!=_": lambda left, right: not _equal(left, right),
    "_[_]": _index,
    "@in": _contains,
    "dyn": lambda value: value,
    "type": lambda value: TypeName(_kind(value)),
}

_BUILDERS: Final[dict[type, Callable[[Any], Program]]] = {
    checked.Constant: _constant,
    checked.Identifier: _identifier,
    checked.Select: _select,
    checked.Call: _call,
    checked.ListLiteral: _list,
    checked.MapLiteral: _map,
    checked.Fold: _fold,
}

"""A checked syntax tree becomes a program over one device.

One rule: errors are exceptions, except where CEL absorbs them: `||`, `&&` and the loops that macros make.

Why not the library's own evaluator: it refuses two overloads of `compareTo` that differ only in an abstract
type, has no map with a default domain, no limit on cost, and no way to tell which values were looked at. So
it parses and checks, this module walks the tree, and plain values go back to it (`standard`). Source for
the semantics: the CEL language definition (cel-expr/cel-spec), "Evaluation".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from modelplane.cel import checked, environment, functions, optional, standard, values
from modelplane.cel.bindings import Bindings
from modelplane.cel.errors import EvaluationError
from modelplane.cel.optional import Optional

COST_LIMIT: Final = 100_000

_Value: TypeAlias = Any  # a CEL value, see `values`
Program: TypeAlias = "Callable[[Frame], _Value]"


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
    type_name = values.TypeName(name)

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
        return lambda frame: values.find(operand(frame), key).present
    return lambda frame: values.index(operand(frame), key)


def _list(node: checked.ListLiteral) -> Program:
    elements = [(build(element), index in node.optional) for index, element in enumerate(node.elements)]

    def make(frame: Frame) -> _Value:
        made = []
        for element, marked in elements:
            value = element(frame)
            if not marked:
                made.append(value)
            elif values.as_optional(value).present:
                made.append(value.value)
        return made

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
            elif values.as_optional(content).present:
                result[name] = content.value
        return result

    return make


def _fold(node: checked.Fold) -> Program:
    items, initial = build(node.items), build(node.initial)
    condition, step, result = build(node.condition), build(node.step), build(node.result)
    cost = 1 + _size(node.condition) + _size(node.step)

    def run(frame: Frame) -> _Value:
        elements = values.elements(items(frame))
        outer = frame.scope
        inner = frame.scope = {**outer, node.accumulator: _caught(initial, frame)}
        try:
            for value in elements:
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
        return lambda frame: operator(*(argument(frame) for argument in arguments))
    return lambda frame: _apply(frame, name, tuple(argument(frame) for argument in arguments), member)


def _apply(frame: Frame, name: str, arguments: tuple[_Value, ...], member: bool) -> _Value:
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
        return len(values.elements(arguments[0]))
    if name in functions.NAMES or not all(map(standard.is_plain, arguments)):
        raise EvaluationError(values.no_overload(name, arguments))
    frame.charge(sum(_weight(argument) for argument in arguments))
    result = standard.apply(name, arguments, member=member)
    frame.charge(_weight(result))
    return result


def _weight(value: _Value) -> int:
    return len(value) if isinstance(value, (str, bytes, list, dict)) else 0


def _select_optional(operand: Program, key: Program) -> Program:
    return lambda frame: values.find(operand(frame), key(frame))


def _decides(*, verdict: bool) -> Callable[[Program, Program], Program]:
    """Make `||` (True) or `&&` (False): either side may decide, whatever becomes of the other."""

    def connect(left: Program, right: Program) -> Program:
        def evaluate(frame: Frame) -> _Value:
            first = _caught(left, frame)
            if first is verdict:
                return verdict
            second = right(frame)
            if second is verdict:
                return verdict
            if isinstance(first, EvaluationError):
                raise first
            if not isinstance(first, bool) or not isinstance(second, bool):
                raise EvaluationError(values.no_overload("||" if verdict else "&&", (first, second)))
            return not verdict

        return evaluate

    return connect


def _conditional(test: Program, then: Program, otherwise: Program) -> Program:
    return lambda frame: then(frame) if values.as_boolean(test(frame)) else otherwise(frame)


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
    "!_": lambda value: not values.as_boolean(value),
    "_==_": values.same,
    "_!=_": lambda left, right: not values.equal(left, right),
    "_[_]": values.index,
    "@in": values.contains,
    "dyn": lambda value: value,
    "type": lambda value: values.TypeName(values.kind(value)),
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

"""Evaluation: a checked syntax tree becomes a program over one device.

Errors are exceptions, except where CEL absorbs them: `||`, `&&` and the loops of macros.

The library's own evaluator is not used: it refuses two overloads of `compareTo` that differ only in an
abstract type, and has no map with a default domain, no cost limit, and no record of the values that were
read. So it parses and checks, this module walks the tree, and some plain values go back to it (`standard`).
Sources for the semantics: the CEL language definition (cel-expr/cel-spec), "Evaluation"; for constants, which
cost nothing, cel-go v0.26 `interpreter/decorators.go`.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from modelplane.cel import checked, environment, functions, source
from modelplane.cel import evaluation_cost as cost
from modelplane.cel.bindings import Bindings, Domain, Domains
from modelplane.cel.checked import Unsupported
from modelplane.cel.errors import EvaluationError, TooMuchWork
from modelplane.cel.functions.conversions import CONVERSIONS
from modelplane.cel.functions.optionals import inserted
from modelplane.cel.functions.texts import BY_LIBRARY, check_pattern, work_of_pattern
from modelplane.cel.value_types import values, weight
from modelplane.cel.value_types.numbers import Unsigned
from modelplane.cel.value_types.optional import Optional
from modelplane.cel.value_types.quantity import Quantity
from modelplane.cel.value_types.semver import Semver
from modelplane.cel.value_types.type_names import Value

_WORK_OF_A_TURN: Final = 6
_WORK_OF_A_CALL: Final = 12
_WORK_OF_A_LIBRARY_CALL: Final = 16
_WORK_OF_AN_ERROR: Final = 8

Program: TypeAlias = "Callable[[Frame], Value]"


class Frame(msgspec.Struct):
    """One evaluation: the device, the variables of the active loops, and the cost so far."""

    bindings: Bindings
    scope: dict[str, Value] = {}
    cost: int = 0
    work: int = 0

    def check(self, work: int = 0) -> None:
        """Count work. Raises TooMuchWork if there was too much, or it cost too much."""
        self.work += work
        if self.cost > cost.LIMIT:
            raise TooMuchWork(f"it costs more than {cost.LIMIT:,} units to evaluate")
        if self.work > weight.LIMIT:
            raise TooMuchWork(f"it takes more than {weight.LIMIT:,} steps to evaluate")


class Known(msgspec.Struct, frozen=True):
    """A program whose result is known before it runs."""

    value: Value

    def __call__(self, _: Frame) -> Value:
        """Return the value."""
        return self.value


class _Later(msgspec.Struct):
    """A variable of `cel.bind`, which is evaluated when it is first read."""

    program: Program
    scope: dict[str, Value]
    known: Known | None = None

    def read(self, frame: Frame) -> Value:
        if self.known is None:
            inner, frame.scope = frame.scope, self.scope
            try:
                self.known = Known(_caught(self.program, frame))
            finally:
                frame.scope = inner
        return self.known.value


def build(node: checked.Node) -> Program:
    """Return the program of a tree. Raises Unsupported if it can only fail."""
    return _BUILDERS[type(node)](node)


def _constant(node: checked.Constant) -> Program:
    return Known(node.value)


def _identifier(node: checked.Identifier) -> Program:
    name = node.name
    if name in _DEVICE:
        return _DEVICE[name]
    type_name = values.TypeName(name)

    def read(frame: Frame) -> Value:
        frame.cost += 1
        value = frame.scope.get(name, type_name)
        if type(value) is _Later:
            value = frame.scope[name] = value.read(frame)
        if isinstance(value, EvaluationError):
            raise value.with_traceback(None)
        return value

    return read


def _driver(frame: Frame) -> Value:
    frame.cost += 2
    return frame.bindings.driver


def _attributes(frame: Frame) -> Value:
    frame.cost += 2
    return frame.bindings.attributes


def _capacity(frame: Frame) -> Value:
    frame.cost += 2
    return frame.bindings.capacity


def _present(frame: Frame) -> Value:
    frame.cost += 1
    return True


_DEVICE: Final[dict[str, Program]] = {
    **dict.fromkeys(source.PRESENT, _present),
    environment.DRIVER: _driver,
    environment.ATTRIBUTES: _attributes,
    environment.CAPACITY: _capacity,
}


def _is_path(node: checked.Node) -> bool:
    """Tell whether a node reads something by name; to read on from there costs one unit less."""
    match node:
        case checked.Identifier() | checked.Select():
            return True
        case checked.Call(function=function):
            return function in _PATHS
    return False


_PATHS: Final = frozenset({"_[_]", "_[?_]", "_?._", "_?_:_"})


def _select(node: checked.Select) -> Program:
    operand, key = build(node.operand), node.field
    price = 1 if _is_path(node.operand) else 2
    if node.test:

        def test(frame: Frame) -> Value:
            frame.cost += price - 1
            return _has(operand(frame), key)

        return test

    def select(frame: Frame) -> Value:
        frame.cost += price
        found = values.index(operand(frame), key)
        if type(found) is Optional:
            frame.cost -= not found.present
        return found

    return select


def _has(value: Value, key: str) -> bool:
    if isinstance(value, list):
        raise EvaluationError("a list is indexed by a whole number, not by string")
    return values.find(value, key).present


def _index(node: checked.Call) -> Program:
    operand, key = (build(argument) for argument in node.arguments)
    price = _price(node, key)
    if isinstance(key, Known):
        known = key.value

        def index_known(frame: Frame) -> Value:
            frame.cost += price
            return values.index(operand(frame), known)

        return index_known

    def index(frame: Frame) -> Value:
        frame.cost += price
        return values.index(operand(frame), key(frame))

    return index


def _index_optional(node: checked.Call) -> Program:
    operand, key = (build(argument) for argument in node.arguments)
    price = _price(node, key)

    def index(frame: Frame) -> Value:
        frame.cost += price
        found = values.find(operand(frame), key(frame))
        frame.cost -= not found.present
        return found

    return index


def _price(node: checked.Call, key: Program) -> int:
    """Return the cost of an index without its operands."""
    operand, index = node.arguments
    price = 1 if _is_path(operand) else 2
    if isinstance(key, Known):
        if type(key.value) not in values.INDEXES:
            raise Unsupported(f"nothing is found by {values.kind(key.value)}", index.identity)
        return price
    return price - 1 if _is_path(index) else price


def _list(node: checked.ListLiteral) -> Program:
    elements = [(build(element), index in node.optional) for index, element in enumerate(node.elements)]
    if all(isinstance(element, Known) and not marked for element, marked in elements):
        return Known([element.value for element, _ in elements if isinstance(element, Known)])

    def make(frame: Frame) -> Value:
        frame.cost += cost.LIST
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

    def make(frame: Frame) -> Value:
        frame.cost += cost.MAP
        result: dict[Value, Value] = {}
        for key, value, marked in entries:
            name, content = values.map_key(key(frame)), value(frame)
            if name in result and type(name) is not next(type(key) for key in result if key == name):
                raise EvaluationError(f"a map has the key {name} as numbers of two types")
            if not marked:
                result[name] = content
            elif values.as_optional(content).present:
                result[name] = content.value
        return result

    if all(isinstance(part, Known) and not marked for *pair, marked in entries for part in pair):
        return _known(node, make)
    return make


def _fold(node: checked.Fold) -> Program:
    items, initial = build(node.items), build(node.initial)
    result = build(node.result)
    if node.binds:
        name = node.accumulator

        def bind(frame: Frame) -> Value:
            outer = frame.scope
            frame.scope = {**outer, name: _Later(initial, outer)}
            try:
                return result(frame)
            finally:
                frame.scope = outer

        return bind
    condition, step = build(node.condition), build(node.step)
    visit = values.pairs if node.second else values.elements

    def run(frame: Frame) -> Value:
        elements = visit(items(frame))
        outer = frame.scope
        inner = frame.scope = {**outer, node.accumulator: _fresh(_caught(initial, frame))}
        try:
            for element in elements:
                frame.check(_WORK_OF_A_TURN)
                if node.second:
                    inner[node.variable], inner[node.second] = element
                else:
                    inner[node.variable] = element
                if condition(frame) is not True:
                    break
                inner[node.accumulator] = _caught(step, frame)
            for variable in (node.variable, node.second):
                inner.pop(variable, None)
                if variable in outer:
                    inner[variable] = outer[variable]
            return result(frame)
        finally:
            frame.scope = outer

    return run


def _fresh(value: Value) -> Value:
    """Return a list or map that a loop may add to in place."""
    return value.copy() if isinstance(value, (list, dict)) else value


def _caught(program: Program, frame: Frame) -> Value:
    """Return the value, or the error as one: a later step may absorb it."""
    try:
        return program(frame)
    except EvaluationError as error:
        frame.work += _WORK_OF_AN_ERROR
        return error.with_traceback(None)


def _call(node: checked.Call) -> Program:
    if node.function in _SPECIAL:
        return _SPECIAL[node.function](node)
    arguments = tuple(build(argument) for argument in node.arguments)
    name = node.function
    operator = functions.OPERATORS.get(name)
    if operator is None:
        program = _function(node, arguments)
    elif len(arguments) == 2:
        program = _binary(node, operator, *arguments)
    else:
        program = _unary(operator, *arguments)
    known = all(isinstance(argument, Known) for argument in arguments)
    if known and len(arguments) == 1 and name in CONVERSIONS:
        return _known(node, program)
    if name in _PATTERNS and len(arguments) > 1 and isinstance(arguments[1], Known):
        _check_pattern(node, arguments[1].value)
    return program


_PATTERNS: Final = frozenset({"matches", "find", "findAll"})


def _known(node: checked.Call | checked.MapLiteral, program: Program) -> Program:
    """Return the constant result. Kubernetes evaluates it when it compiles, and refuses errors."""
    try:
        return Known(program(Frame(_NO_DEVICE)))
    except EvaluationError as error:
        raise Unsupported(str(error), node.identity) from error


def _check_pattern(node: checked.Call, pattern: Value) -> None:
    if isinstance(pattern, str):
        try:
            check_pattern(pattern)
        except EvaluationError as error:
            raise Unsupported(str(error), node.arguments[1].identity) from error


_NO_DEVICE: Final[Any] = None  # a literal is converted without one


def _unary(operator: Callable[..., Value], operand: Program) -> Program:
    def apply(frame: Frame) -> Value:
        frame.cost += 1
        return operator(operand(frame))

    return apply


def _binary(node: checked.Call, operator: Callable[..., Value], left: Program, right: Program) -> Program:
    costing = cost.of(node.function, node.overload)

    def apply(frame: Frame) -> Value:
        frame.cost += 1
        try:
            first = left(frame)
        except EvaluationError:
            _caught(right, frame)
            raise
        second = right(frame)
        if type(first) in _WEIGHED:
            frame.check(weight.of(first))
        if type(second) in _WEIGHED:
            frame.check(weight.of(second))
        if costing is not None:
            frame.cost += costing((first, second), None) - 1
        return operator(first, second)

    return apply


def _function(node: checked.Call, arguments: tuple[Program, ...]) -> Program:
    name = node.function
    costing = cost.of(name, node.overload)
    work = _WORK_OF_A_LIBRARY_CALL if name in BY_LIBRARY else _WORK_OF_A_CALL

    def apply(frame: Frame) -> Value:
        frame.cost += 1
        frame.work += work
        handed = _evaluated(frame, arguments)
        kinds = tuple(map(type, handed))
        if not _LIGHT.issuperset(kinds):
            frame.check(_work(name, handed))
        implementation = functions.resolve(name, kinds)
        if implementation is None:
            if name == "size" and len(handed) == 1:
                return len(values.elements(handed[0]))
            raise EvaluationError(values.no_overload(name, handed))
        result = None
        try:
            result = implementation(*handed)
        finally:
            if costing is not None:
                frame.cost += costing(handed, result) - 1
        if type(result) in _WEIGHED:
            frame.check(weight.of(result))
        return result

    return apply


_LIGHT: Final = frozenset({bool, int, float, Unsigned, Quantity})
_WEIGHED: Final = frozenset({str, bytes, list, dict, Optional, Semver, Domain, Domains})
_SQUARED: Final = frozenset({"distinct", "sets.contains", "sets.equivalent", "sets.intersects"})


def _work(name: str, handed: tuple[Value, ...]) -> int:
    """Return how many steps a call takes."""
    total = sum(map(weight.of, handed))
    if name in _PATTERNS and len(handed) > 1:
        return total + work_of_pattern(*handed[:2])
    if name in _SQUARED and isinstance(handed[-1], list):
        return total * (1 + len(handed[-1]) // 4)
    return total


def _evaluated(frame: Frame, arguments: tuple[Program, ...]) -> tuple[Value, ...]:
    """Return the values of all arguments. After an error the remaining ones still count for the cost."""
    handed: list[Value] = []
    try:
        for argument in arguments:
            handed.append(argument(frame))  # noqa: PERF401  (how many there are is needed after an error)
    except EvaluationError:
        for argument in arguments[len(handed) + 1 :]:
            _caught(argument, frame)
        raise
    return tuple(handed)


def _in(node: checked.Call) -> Program:
    value, container = (build(argument) for argument in node.arguments)
    if node.overload == "in_list" and isinstance(container, Known):
        members = container.value
        if not members:
            return Known(value=False)
        if all(type(member) in _PRIMITIVE for member in members):
            # Kubernetes makes a set of it, which costs nothing to ask, but has no place for a version.
            return _member_of(value, members)
    return _binary(node, values.contains, value, container)


_PRIMITIVE: Final = frozenset({str, bool, int, float, Unsigned})


def _member_of(value: Program, members: list[Value]) -> Program:
    keys = {(type(member) is bool, member) for member in members}

    def apply(frame: Frame) -> bool:
        found = value(frame)
        if type(found) is Semver:
            raise EvaluationError("a version cannot be looked for among other values")
        return type(found) in _PRIMITIVE and (type(found) is bool, found) in keys

    return apply


def _type(node: checked.Call) -> Program:
    (operand,) = (build(argument) for argument in node.arguments)
    program = _unary(lambda value: values.TypeName(values.kind(value)), operand)
    return _known(node, program) if isinstance(operand, Known) else program


def _decides(*, verdict: bool) -> Callable[[checked.Call], Program]:
    """Make `||` (True) or `&&` (False): either side may decide, whatever becomes of the other."""

    def connect(node: checked.Call) -> Program:
        left, right = (build(argument) for argument in node.arguments)

        def evaluate(frame: Frame) -> Value:
            frame.work += 1
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


def _conditional(node: checked.Call) -> Program:
    test, then, otherwise = (build(argument) for argument in node.arguments)
    discounts = [_is_path(branch) for branch in node.arguments[1:]]

    def choose(frame: Frame) -> Value:
        frame.work += 1
        chosen = values.as_boolean(test(frame))
        frame.cost -= discounts[0] if chosen else discounts[1]
        return then(frame) if chosen else otherwise(frame)

    return choose


def _not_strictly_false(node: checked.Call) -> Program:
    operand = build(node.arguments[0])

    def evaluate(frame: Frame) -> bool:
        frame.cost += 1
        return _caught(operand, frame) is not False

    return evaluate


def _or(node: checked.Call) -> Program:
    held, other = (build(argument) for argument in node.arguments)

    def evaluate(frame: Frame) -> Value:
        found = values.as_optional(held(frame))
        if node.function == "or":
            return found if found.present else values.as_optional(other(frame))
        return found.value if found.present else other(frame)

    return evaluate


def _add(node: checked.Call) -> Program:
    """Make `+`; a loop that collects its results adds them to its own list in place."""
    first, second = node.arguments
    if not isinstance(first, checked.Identifier) or first.name != checked.RESULT:
        left, right = build(first), build(second)
        return _binary(node, functions.OPERATORS["_+_"], left, right)
    accumulator, more = build(first), build(second)

    def evaluate(frame: Frame) -> Value:
        frame.cost += 1
        held, added = accumulator(frame), more(frame)
        if type(held) is list and type(added) is list:
            held.extend(added)
            return held
        return functions.OPERATORS["_+_"](held, added)

    return evaluate


def _insert(node: checked.Call) -> Program:
    accumulator, *more = (build(argument) for argument in node.arguments)

    def evaluate(frame: Frame) -> Value:
        frame.cost += 1
        held = accumulator(frame)
        handed = [argument(frame) for argument in more]
        if len(handed) == 2:
            return inserted(held, *handed)
        for key in values.elements(handed[0]):
            inserted(held, key, values.index(handed[0], key))
        return held

    return evaluate


_SPECIAL: Final[dict[str, Callable[[checked.Call], Program]]] = {
    "_||_": _decides(verdict=True),
    "_&&_": _decides(verdict=False),
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
    "_[_]": _index,
    "_?._": _index_optional,
    "_[?_]": _index_optional,
    "@in": _in,
    "_+_": _add,
    "cel.@mapInsert": _insert,
    "or": _or,
    "orValue": _or,
    "type": _type,
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

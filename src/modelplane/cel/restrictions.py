"""Restrictions of Kubernetes that the compiler does not check.

- `device` by itself, and unknown fields of it: the compiler knows three variables with a dot in the name.
- The types of arguments of overloads that the compiler knows with fewer types than Kubernetes.
- A selector whose type is `dyn`: the result may be only an attribute, whose type is open until it is read.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from modelplane.cel import environment
from modelplane.cel.checked import (
    DYNAMIC,
    Call,
    Fold,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
    Tree,
    Type,
    Unsupported,
)
from modelplane.cel.errors import nearest
from modelplane.cel.functions import unsupported

LISTED: Final = f"{', '.join(environment.FIELDS[:-1])} and {environment.FIELDS[-1]}"
FIELDS: Final = tuple(name.removeprefix("device.") for name in environment.FIELDS)
_WHOLE: Final = f"device is read through {LISTED}"


def check(tree: Tree) -> None:
    """Check a tree. Raises Unsupported."""
    opens = _Openness(tree)
    if tree.names_device:
        _device_stands_alone(tree.root, frozenset())
    for call in tree.calls("indexOf", "lastIndexOf"):
        _element_is_of_the_list(tree, call)
    for call in tree.calls("flatten"):
        _lists_are_flattened(tree, call)
    for call in tree.calls("optional.unwrap", "unwrapOpt"):
        _optionals_are_open(tree, call)
    for call in tree.calls("@sortByAssociatedKeys"):
        if tree.type_of(call.identity) == DYNAMIC:
            raise Unsupported("sortBy needs keys of one known type", call.identity)
    for fold in tree.folds:
        if fold.binds and tree.type_of(fold.initial.identity).name == "type":
            raise Unsupported("a type cannot be bound to a name", fold.initial.identity)
        if tree.type_of(fold.items.identity) == DYNAMIC and opens.of(fold.items):
            raise Unsupported("an attribute cannot be iterated over", fold.items.identity)
    for call in tree.calls("format"):
        raise Unsupported(unsupported.reason(unsupported.STRING_FORMAT), call.identity)
    if tree.type_of(tree.root.identity) == DYNAMIC and not opens.of(tree.root):
        problem = "it gives dyn, but a selector gives true or false: compare it, as in `... == true`"
        raise Unsupported(problem, tree.root.identity)


def unknown_field(name: str) -> str:
    """Return the message for a field that the device does not have, with the nearest one."""
    if near := nearest(name, FIELDS):
        return f'unknown name "device.{name}", did you mean device.{near}?'
    return f'unknown name "device.{name}", a selector reads {LISTED}'


def _device_stands_alone(node: Node, variables: frozenset[str]) -> None:
    match node:
        case Select(operand=Identifier(name=environment.DEVICE), field=field) if (
            environment.DEVICE not in variables
        ):
            raise Unsupported(unknown_field(field), node.identity)
        case Identifier(name=environment.DEVICE) if environment.DEVICE not in variables:
            raise Unsupported(_WHOLE, node.identity)
        case Fold():
            for part in (node.items, node.initial):
                _device_stands_alone(part, variables)
            result = variables | {node.accumulator}
            _device_stands_alone(node.result, result)
            for part in (node.condition, node.step):
                _device_stands_alone(part, result | {node.variable, node.second})
        case _:
            for part in _parts(node):
                _device_stands_alone(part, variables)


def _parts(node: Node) -> Iterator[Node]:
    match node:
        case Select(operand=operand):
            yield operand
        case Call(arguments=parts) | ListLiteral(elements=parts):
            yield from parts
        case MapLiteral(entries=entries):
            for key, value, _ in entries:
                yield from (key, value)


def _element_is_of_the_list(tree: Tree, call: Call) -> None:
    items, wanted = (tree.type_of(argument.identity) for argument in call.arguments[:2])
    if items.name != "list" or DYNAMIC in (wanted, *items.parameters):
        return
    if items.parameters[0] != wanted:
        problem = f"{call.function} looks for {wanted.name} in a list of {items.parameters[0].name}"
        raise Unsupported(problem, call.identity)


def _lists_are_flattened(tree: Tree, call: Call) -> None:
    for inside in tree.type_of(call.arguments[0].identity).parameters:
        if inside.name not in ("list", "dyn"):
            raise Unsupported(f"flatten cannot be applied to a list of {inside.name}", call.identity)


def _optionals_are_open(tree: Tree, call: Call) -> None:
    """Refuse other optionals: the compiler's type, a list of dyn, is right only for optional attributes."""
    found = tree.type_of(call.arguments[0].identity)
    if found != Type("list", (Type("optional_type", (DYNAMIC,)),)):
        raise Unsupported(f"{call.function} takes optional attributes only", call.identity)


_PASSED_ON: Final = frozenset({"optional.of", "value", "or", "orValue"})
_INDEXES: Final = frozenset({"_[_]", "_?._", "_[?_]"})


class _Openness:
    """Finds out if a value of type dyn is an attribute, or contained one. Each node is visited once."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[int, bool] = {}

    def of(self, node: Node, bound: Mapping[str, Node] = MappingProxyType({})) -> bool:
        """Return True if a node is open; `bound` are the variables of enclosing `cel.bind`."""
        known = self._known.get(node.identity)
        if known is None:
            known = self._known[node.identity] = self._look(node, bound)
        return known

    def _is_closed(self, node: Node) -> bool:
        return self._tree.type_of(node.identity) == DYNAMIC

    def _look(self, node: Node, bound: Mapping[str, Node]) -> bool:  # noqa: PLR0911  (a table of nodes)
        match node:
            case Identifier(name=name):
                return self.of(bound[name]) if name in bound else name == environment.ATTRIBUTES
            case Call(function="_?_:_", arguments=(_, *branches)):
                opens = [self.of(branch, bound) for branch in branches]
                return any(opens) and all(
                    is_open or not self._is_closed(branch)
                    for is_open, branch in zip(opens, branches, strict=True)
                )
            case Select(operand=operand):
                return not self._is_closed(operand) and self.of(operand, bound)
            case Call(function=function, arguments=(operand, *_)) if function in _INDEXES:
                return not self._is_closed(operand) and self.of(operand, bound)
            case Call(function=function, arguments=(first, *_)) if function in _PASSED_ON:
                return self.of(first, bound)
            case ListLiteral(elements=elements):
                return all(self.of(element, bound) for element in elements)
            case MapLiteral(entries=entries):
                return all(self.of(value, bound) for _, value, _ in entries)
            case Fold() if node.binds:
                self.of(node.initial, bound)
                return self.of(node.result, {**bound, node.accumulator: node.initial})
        return False

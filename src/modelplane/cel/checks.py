"""Rules of selectors that the compiler does not check: Kubernetes' own, and those of a short language.

- `device` by itself, and unknown fields of it: the compiler knows three variables with a dot in the name.
- A selector whose type is `dyn`: the result may be only an attribute, whose type is open until it is read.
- Lists of mixed types, which Kubernetes refuses.
- Equality of quantities; loops over anything but lists, or nested more than two deep.
- Values that a selector has no use for: maps, null, and bytes, which stand for quantities and versions here.
"""

import math
from typing import Final

from modelplane.cel import source
from modelplane.cel.checked_tree import Kind, Node
from modelplane.cel.environment import DEVICE, FIELDS
from modelplane.cel.errors import find_nearest
from modelplane.cel.functions import QUANTITY

LISTED: Final = f"{', '.join(FIELDS[:-1])} and {FIELDS[-1]}"
NAMES: Final = tuple(name.removeprefix("device.") for name in FIELDS)
_MOST_LOOPS: Final = 2
_DYNAMIC: Final = b"\n\0"  # the type dyn within another
_STEPS: Final = frozenset({"_[_]", "_?._", "_[?_]"})


class Unsupported(Exception):
    """A construct that selectors cannot have; `identity` is that of its node."""

    def __init__(self, problem: str, identity: int) -> None:
        super().__init__(problem)
        self.identity = identity


def check(root: Node) -> None:
    """Check a tree. Raises Unsupported."""
    _check_node(root, frozenset(), 0)
    if root.type == "dyn" and b"attributes" not in root.wire:
        problem = "it gives dyn, but a selector gives true or false: compare it, as in `... == true`"
        raise Unsupported(problem, root.identity)


def explain_field(name: str) -> str:
    """Return the message for a field that the device does not have, with the nearest one."""
    near = find_nearest(name, NAMES)
    other = f"did you mean device.{near}?" if near else f"a selector reads {LISTED}"
    return f'unknown name "device.{name}", {other}'


def _check_node(node: Node, variables: frozenset[str], loops: int) -> None:
    if node.kind is Kind.SELECT and node.parts[0].name == DEVICE and DEVICE not in variables:
        raise Unsupported(explain_field(node.name), node.identity)
    inside = variables | {node.name, node.accumulator} if node.kind is Kind.FOLD else variables
    for place, part in enumerate(node.parts):
        is_repeated = node.kind is Kind.FOLD and place > 1
        _check_node(part, inside if is_repeated else variables, loops + is_repeated)
    if problem := _find_problem(node, variables, loops):
        raise Unsupported(problem, node.identity)


def _find_problem(node: Node, variables: frozenset[str], loops: int) -> str | None:  # noqa: PLR0911  (a table of forms)
    match node.kind:
        case Kind.CONSTANT:
            return _find_problem_of_constant(node)
        case Kind.NAME if node.name not in variables and node.name not in FIELDS:
            return (
                f"device is read through {LISTED}" if node.name == DEVICE else f'unknown name "{node.name}"'
            )
        case Kind.SELECT | Kind.CALL if node.parts[0].type == "dyn" and (
            node.kind is Kind.SELECT or node.name in _STEPS
        ):
            return "an attribute has no fields and no elements"
        case Kind.CALL if node.name not in source.FUNCTIONS | source.OPERATORS:
            return source.explain(node.name)
        case Kind.CALL if node.name in ("_==_", "_!=_", "@in"):
            return _find_problem_of_equality(node)
        case Kind.LIST:
            return _find_problem_of_list(node)
        case Kind.MAP:
            return "selectors have no maps: compare the values one by one"
        case Kind.FOLD if node.parts[0].type != "list":
            return 'exists and all are for lists: ask for a domain with "domain" in device.attributes'
        case Kind.FOLD if loops == _MOST_LOOPS:
            return f"exists and all are nested more than {_MOST_LOOPS} deep"
    return None


def _find_problem_of_equality(node: Node) -> str | None:
    if any(QUANTITY.encode() in part.full_type for part in node.parts):
        return "quantities are not compared with ==, != or in: write a.compareTo(b) == 0"
    # Kubernetes takes a version in a list for equal to anything.
    compared = node.parts[:1] if node.name == "@in" else node.parts
    if any(part.type != "dyn" and _DYNAMIC in part.full_type for part in compared):
        return "lists, optionals and domains with attributes are not compared: compare each attribute"
    return None


def _find_problem_of_constant(node: Node) -> str | None:
    match node.value:
        case None:
            return "selectors have no null: ask for a name with has"
        case bytes():
            return "selectors have no bytes: compare texts"
        case float(value) if math.isinf(value):
            return "a number is too large for a double"
        case str(value) if "\0" in value:
            return "a text has a null character"
    return None


def _find_problem_of_list(node: Node) -> str | None:
    if node.flag:
        return "selectors have no optional elements of lists: use orValue(default)"
    for part in node.parts:
        expected = node.parts[0]
        is_empty = part.kind is Kind.LIST and not part.parts and expected.type == "list"
        if part.full_type != expected.full_type and not is_empty:
            raise Unsupported(f"it mixes {expected.type} and {part.type} in one list", part.identity)
    return None

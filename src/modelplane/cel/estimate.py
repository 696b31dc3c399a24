"""Estimate of the highest possible cost of a selector, made when it is compiled.

The API server does not store a selector whose estimate exceeds the limit, so it is refused here too. What
Kubernetes counts as cheap takes the library and our functions longer, so that steps are counted too.

A size is the greatest possible result of `size()`. An unbounded one exceeds any limit, so a function whose
cost grows with its argument is refused on such an argument. The sizes of a device's values are bounded by the
ResourceSlice schema.

Sources: cel-go v0.26 `checker/cost.go`; k8s.io/apiserver v0.35 `pkg/cel/library/cost.go`;
k8s.io/dynamic-resource-allocation v0.35 `cel/compile.go` (sizes of a device's parts).
"""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from modelplane.cel.checked_tree import Kind, Node
from modelplane.cel.environment import ATTRIBUTES, CAPACITY, DRIVER, FIELDS
from modelplane.cel.functions import SEMVER
from modelplane.cel.selector import LIMIT

_UNBOUNDED: Final = 2**64 - 1
# About 0.2 seconds; loops have fewer than 10,000 turns, which the library allows.
_MOST_STEPS: Final = 200_000
_STEPS_OF_A_CALL: Final = 7
_STEPS_OF_ANY_PATTERN: Final = 40_000  # of one that is known only when it is matched
_LARGE: Final = re.compile(r"\\[pP]|\(\?[a-zA-Z]*i")
"""Parts that make a short regular expression large: classes of Unicode, and letters of either case."""
_LIST: Final = 10
_TEXT: Final = 0.1  # per character
_PATTERN: Final = 0.25  # per character of a regular expression

# A ResourceSlice's device: 32 attributes and capacities, values of 64 characters. A path has `.` or `[]` for
# each step.
_SIZES: Final[dict[tuple[str, ...], int]] = {
    (DRIVER,): 63,
    **{(field, *path): 32 for field in (ATTRIBUTES, CAPACITY) for path in ((), ("[]",))},
    **{(ATTRIBUTES, "[]", step): 64 for step in ("[]", ".")},
}


class _Estimate(NamedTuple):
    """Cost of an expression, its size, that of the elements of a list, and its place in a device."""

    cost: int
    size: int = _UNBOUNDED
    element: int = _UNBOUNDED
    path: tuple[str, ...] = ()


class Estimator:
    """One walk over a tree: its cost, and the steps that it takes."""

    def __init__(self, root: Node) -> None:
        self._steps = 0
        self._repeated = 1
        self._variables: dict[str, list[_Estimate]] = {}
        self.cost = self._walk(root).cost

    def find_excess(self) -> str | None:
        """Return why the selector is refused; None if it is not."""
        if self.cost > LIMIT:
            amount = f"{self.cost:,} units" if self.cost < _UNBOUNDED // 100 else "more than can be told"
            return f"it may cost {amount}, and Kubernetes allows {LIMIT:,}"
        if self._steps > _MOST_STEPS:
            how = "loop over fewer elements, or use contains instead of a large regular expression"
            return f"it takes up to {self._steps:,} steps, and {_MOST_STEPS:,} are allowed: {how}"
        return None

    def _walk(self, node: Node) -> _Estimate:
        self._count(_STEPS_OF_A_CALL if node.kind in (Kind.CALL, Kind.SELECT) else 0)
        estimate = self._walk_fold(node) if node.kind is Kind.FOLD else self._walk_parts(node)
        size = estimate.size
        if size == _UNBOUNDED:
            is_scalar = node.type in ("bool", "double", "int", "uint")
            size = _SIZES.get(estimate.path, 1 if is_scalar else _UNBOUNDED)
        return estimate._replace(cost=_bound(estimate.cost), size=size)

    def _count(self, steps: int) -> None:
        self._steps = _bound(self._steps + self._repeated * steps)

    def _walk_parts(self, node: Node) -> _Estimate:
        parts = [self._walk(part) for part in node.parts]
        cost, sizes = sum(part.cost for part in parts), [part.size for part in parts]
        match node.kind:
            case Kind.CONSTANT:
                return _Estimate(0, len(node.value) if isinstance(node.value, str) else 1)
            case Kind.NAME if variables := self._variables.get(node.name):
                return variables[-1]._replace(cost=1)
            case Kind.NAME:
                return _Estimate(2 if node.name in FIELDS else 1, path=(node.name,))
            case Kind.SELECT:
                is_read = node.parts[0].type == "map" and not node.flag
                return _Estimate(cost + is_read, path=() if node.flag else (*parts[0].path, "."))
            case Kind.LIST:
                self._count(len(parts))
                return _Estimate(_LIST + cost, len(parts), max(sizes, default=0))
        return self._call(node, parts, cost, sizes)

    def _walk_fold(self, node: Node) -> _Estimate:
        items, initial = map(self._walk, node.parts[:2])
        element = _Estimate(1, items.element, path=(*items.path, "[]"))
        self._variables.setdefault(node.accumulator, []).append(initial)
        self._variables.setdefault(node.name, []).append(element)
        before, self._repeated = self._repeated, _bound(self._repeated * items.size)
        turn = sum(self._walk(part).cost for part in node.parts[2:4])
        self._repeated = before
        self._variables[node.name].pop()
        result = self._walk(node.parts[4])
        self._variables[node.accumulator].pop()
        return _Estimate(items.cost + initial.cost + result.cost + _bound(items.size * turn), 1)

    def _call(self, node: Node, parts: list[_Estimate], cost: int, sizes: list[int]) -> _Estimate:
        if not node.overloads:
            return _Estimate(0)
        # Of several overloads the dearest; one has a price by its own name, or by its function's.
        prices = (_OVERLOADS.get(overload) or _FUNCTIONS.get(node.name) for overload in node.overloads)
        own = max(price(sizes) if price else 1 for price in prices)
        match node.name:
            case "_?_:_":
                cost = parts[0].cost + max(part.cost for part in parts[1:])
                return _Estimate(cost, max(sizes[1:]), max(part.element for part in parts[1:]))
            case "_[_]":
                return _Estimate(cost + own, parts[0].element, path=(*parts[0].path, "[]"))
            case "_==_" if all(part.type == SEMVER for part in node.parts):
                return _Estimate(cost + 1)
            case "lowerAscii" | "upperAscii":
                return _Estimate(cost + own, sizes[0])
            case "matches":
                # The library compiles a regular expression for each match.
                pattern, steps = node.parts[1].value, _STEPS_OF_ANY_PATTERN
                if isinstance(pattern, str):
                    steps = len(pattern) + 1_000 * pattern.count("{") + 10_000 * len(_LARGE.findall(pattern))
                self._count(steps * (1 + sizes[0] // 64))
        return _Estimate(cost + own)


def _bound(value: float) -> int:
    return _UNBOUNDED if value >= _UNBOUNDED else math.ceil(value)


def _price(place: int, factor: float = _TEXT) -> Callable[[list[int]], int]:
    """Return the price of going through one argument."""
    return lambda sizes: _bound(sizes[place] * factor)


def _price_comparison(sizes: list[int]) -> int:
    return _bound(min(sizes) * _TEXT)


_ORDERS: Final = ("less", "less_equals", "greater", "greater_equals")
_FUNCTIONS: Final[dict[str, Callable[[list[int]], int]]] = {
    **dict.fromkeys(("lowerAscii", "upperAscii", "quantity", "isQuantity", "semver", "isSemver"), _price(0)),
    **dict.fromkeys(("_==_", "_!=_"), _price_comparison),
}
_OVERLOADS: Final[dict[str, Callable[[list[int]], int]]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _price(1)),
    **dict.fromkeys(
        ("matches", "matches_string"),
        lambda sizes: _bound((sizes[0] + 1) * _TEXT) * _bound(sizes[1] * _PATTERN),
    ),
    **{f"{order}_{kind}": _price_comparison for order in _ORDERS for kind in ("string", "bytes")},
    "contains_string": lambda sizes: _bound(sizes[0] * _TEXT) * _bound(sizes[1] * _TEXT),
    "in_list": _price(1, 1),
    **dict.fromkeys(("logical_and", "logical_or"), lambda _: 0),
}

"""Functions over lists: Kubernetes' own (`sum`, `min`, `indexOf`), CEL's lists extension, and sets.

Sources: k8s.io/apiserver v0.35 `pkg/cel/library/lists.go`; cel-go v0.26 `ext/lists.go` (version 3) and
`ext/sets.go`.
"""

import functools
import itertools
from typing import Any, Final

from modelplane.cel.errors import EvaluationError
from modelplane.cel.functions.operators import order, plus
from modelplane.cel.functions.overload import ANY, Overload, overload
from modelplane.cel.value_types import optional, values
from modelplane.cel.value_types.moments import Duration
from modelplane.cel.value_types.numbers import Unsigned
from modelplane.cel.value_types.optional import Optional

_SUMMABLE: Final = {"int": 0, "uint": Unsigned(0), "double": 0.0, "duration": Duration(0)}
_COMPARABLE: Final = (*_SUMMABLE, "bool", "timestamp", "string", "bytes")
_LIST: Final = f"list<{ANY}>"
_OPTIONALS: Final = f"list<optional<{ANY}>>"
_MAX_RANGE: Final = 500_000  # Kubernetes: 1,000,000

_List = list[Any]


def _is_sorted(items: _List) -> bool:
    return all(order(left, right) <= 0 for left, right in itertools.pairwise(items))


def _sum(items: _List) -> Any:
    if not items:
        return 0
    total = items[0]
    for item in items[1:]:
        total = plus(total, item)
    return total


def _extreme(name: str, sign: int) -> Any:
    def extreme(items: _List) -> Any:
        if not items:
            raise EvaluationError(f"{name} of an empty list")
        best = items[0]
        for item in items[1:]:
            if order(item, best) == sign:
                best = item
        return best

    return extreme


def _index_of(items: _List, wanted: Any) -> int:
    if values.is_computed(wanted):
        return -1
    return next((place for place, item in enumerate(items) if values.equal(item, wanted)), -1)


def _last_index_of(items: _List, wanted: Any) -> int:
    backwards = _index_of(items[::-1], wanted)
    return -1 if backwards < 0 else len(items) - 1 - backwards


def _slice(items: _List, start: int, end: int) -> _List:
    if not 0 <= start <= end <= len(items):
        raise EvaluationError(f"a list of {len(items)} has no slice from {start} to {end}")
    return items[start:end]


def _flatten(items: _List, depth: int = 1) -> _List:
    if depth < 0:
        raise EvaluationError("a list is flattened to a depth that is negative")
    found: _List = []
    for item in items:
        if depth and isinstance(item, list):
            found.extend(_flatten(item, depth - 1))
        else:
            found.append(item)
    return found


def _sort(items: _List) -> _List:
    return _sort_by(items, items)


def _sort_by(items: _List, by: _List) -> _List:
    if len({type(item) for item in by}) > 1:
        raise EvaluationError("a list of mixed types cannot be sorted")

    def compare(left: int, right: int) -> int:
        return order(by[left], by[right])

    places = sorted(range(len(by)), key=functools.cmp_to_key(compare))
    return [items[place] for place in places]


def _range(count: int) -> list[int]:
    if count > _MAX_RANGE:
        raise EvaluationError(f"a range of {count} is beyond {_MAX_RANGE:,}")
    return list(range(count))


def _distinct(items: _List) -> _List:
    found: _List = []
    for item in items:
        if not any(values.equal(item, known) for known in found):
            found.append(item)
    return found


def _holds(items: _List, wanted: Any) -> bool:
    return any(values.equal(item, wanted) for item in items)


def _contains_all(items: _List, wanted: _List) -> bool:
    return all(_holds(items, item) for item in wanted)


def _unwrapped(items: _List) -> _List:
    return [item.value for item in map(values.as_optional, items) if item.present]


def _at(place: int) -> Any:
    def at(items: _List) -> Optional:
        return optional.of(items[place]) if items else optional.ABSENT

    return at


# Overloads over plain types; the compiler merges them with functions that it has under the same name.
MERGED: Final[tuple[Overload, ...]] = (
    *(
        overload("isSorted", (f"list<{t}>",), _is_sorted, "bool", f"list_{t}_is_sorted_bool", member=True)
        for t in _COMPARABLE
    ),
    *(overload("sum", (f"list<{t}>",), _sum, t, f"list_{t}_sum_{t}", member=True) for t in _SUMMABLE),
    *(
        overload("max", (f"list<{t}>",), _extreme("max", 1), t, f"list_{t}_max_{t}", member=True)
        for t in _COMPARABLE
    ),
    *(
        overload("min", (f"list<{t}>",), _extreme("min", -1), t, f"list_{t}_min_{t}", member=True)
        for t in _COMPARABLE
    ),
    overload("indexOf", (_LIST, ANY), _index_of, "int", "list_a_index_of_int", member=True),
    overload("lastIndexOf", (_LIST, ANY), _last_index_of, "int", "list_a_last_index_of_int", member=True),
    overload("optional.unwrap", (_OPTIONALS,), _unwrapped, _LIST, "optional_unwrap"),
    overload("unwrapOpt", (_OPTIONALS,), _unwrapped, _LIST, "optional_unwrapOpt", member=True),
)

OVERLOADS: Final[tuple[Overload, ...]] = (
    overload("first", (_LIST,), _at(0)),
    overload("last", (_LIST,), _at(-1)),
    overload("slice", (_LIST, "int", "int"), _slice),
    overload("flatten", (_LIST,), _flatten),
    overload("flatten", (_LIST, "int"), _flatten),
    overload("sort", (_LIST,), _sort),
    overload("@sortByAssociatedKeys", (_LIST, _LIST), _sort_by),
    overload("lists.range", ("int",), _range),
    overload("reverse", (_LIST,), lambda items: items[::-1]),
    overload("distinct", (_LIST,), _distinct),
    overload("sets.contains", (_LIST, _LIST), _contains_all),
    overload("sets.equivalent", (_LIST, _LIST), lambda a, b: _contains_all(a, b) and _contains_all(b, a)),
    overload("sets.intersects", (_LIST, _LIST), lambda a, b: any(_holds(b, element) for element in a)),
)

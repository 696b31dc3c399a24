"""Functions and operators that a selector can use, and what to write instead of the others.

Selectors compare what devices publish. The rest of CEL is refused by name, because Kubernetes' extension
libraries are not part of selectors.
"""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.cel.errors import find_nearest

FUNCTIONS: Final = frozenset(
    (
        *("has", "size", "startsWith", "endsWith", "contains", "matches", "lowerAscii", "upperAscii"),
        *("exists", "all"),
        # Optional access.
        *("orValue", "or", "hasValue", "value"),
        # Quantities and versions.
        *("quantity", "isQuantity", "add", "sub", "sign", "isInteger", "asInteger", "asApproximateFloat"),
        *("semver", "isSemver", "major", "minor", "patch"),
        *("compareTo", "isGreaterThan", "isLessThan"),
    )
)
OPERATORS: Final = frozenset(
    (
        *("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "_?_:_", "@in"),
        *("_[_]", "_[?_]", "_?._", "@not_strictly_false"),
    )
)
MACROS: Final = ("all", "exists", "has")

_REMEDIES: Final = {
    name: remedy
    for remedy, names in {
        "use startsWith, endsWith, contains or matches": (
            "charAt find findAll format indexOf join lastIndexOf quote replace reverse split strings.quote "
            "substring trim ip isIP cidr isCIDR url isURL validate"
        ),
        "compare a value with one of its own type": "bool bytes double dyn int string type uint",
        "devices publish no times": "duration timestamp",
        "write the value in each place": "cel.bind",
        "use exists": "exists_one existsOne",
        "write the condition in exists or all": (
            "filter map transformList transformMap transformMapEntry distinct flatten lists.range slice sort "
            "sortBy isSorted max min sum first last"
        ),
        "use in, exists or all": "sets.contains sets.equivalent sets.intersects",
        "use .?name.orValue(default)": (
            "optMap optFlatMap optional.none optional.of optional.ofNonZeroValue optional.unwrap unwrapOpt"
        ),
        "compare with each value": "math.greatest math.least",
        "write the sum, or add(...) of a quantity": "_+_",
        "write the difference, or sub(...) of a quantity": "_-_",
        "write the result": "_*_ _/_ _%_",
        "write a negative number": "-_",
    }.items()
    for name in names.split()
}
_NAMESPACES: Final = {name.partition(".")[0] for name in _REMEDIES if "." in name} | {
    "base64",
    "format",
    "regex",
}
# What is written in other languages -> what CEL has.
_ELSEWHERE: Final = {
    **dict.fromkeys(("len", "length", "count"), "size"),
    "toLower": "lowerAscii",
    "toUpper": "upperAscii",
}
_CALL: Final = re.compile(
    r"(?:\b(?P<namespace>[A-Za-z_]\w*)\s*\.\s*)?\b(?P<name>[A-Za-z_]\w*)\s*\(", re.ASCII
)


def find_refused(shown: str) -> Iterator[tuple[str, int]]:
    """Yield the functions that cannot be used, with their places, in an expression without its texts.

    The compiler expands macros before it checks anything, so their names are found only in the text.
    """
    for call in _CALL.finditer(shown):
        if call["namespace"] in _NAMESPACES:
            yield f"{call['namespace']}.{call['name']}", call.start()
        elif call["name"] not in FUNCTIONS and call["name"] != "in":
            yield call["name"], call.start("name")


def explain(name: str) -> str:
    """Return why a function or operator cannot be used, and what to write instead."""
    if remedy := _REMEDIES.get(name) or _REMEDIES.get(name.partition(".")[2]):
        word = "operator" if name.endswith("_") else "function"
        return f"selectors have no {word} {name.strip('_')}: {remedy}"
    if near := _ELSEWHERE.get(name) or find_nearest(name, FUNCTIONS):
        return f'unknown name "{name}", did you mean {near}?'
    return f"selectors have no function {name}"

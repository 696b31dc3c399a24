"""Text of a selector: its limits, its functions, and its form for the compiler.

The compiler reads `device.driver` as one variable with a dot in its name, which has no presence test. So
`has(device.driver)` becomes `(!false)`, which is as true and costs as much. A replacement keeps the length,
so that every position in the text stays valid.

Selectors compare what devices publish. The rest of CEL is refused by name, because Kubernetes' extension
libraries are not part of selectors.
"""

import re
from collections.abc import Iterator
from typing import Final

from modelplane.cel.errors import SelectorError, find_nearest

FUNCTIONS: Final = frozenset({
    "has", "size", "startsWith", "endsWith", "contains", "matches", "lowerAscii", "upperAscii",
    "exists", "all", "orValue", "or", "hasValue", "value",
    "quantity", "isQuantity", "add", "sub", "sign", "isInteger", "asInteger", "asApproximateFloat",
    "semver", "isSemver", "major", "minor", "patch", "compareTo", "isGreaterThan", "isLessThan",
})  # fmt: skip
OPERATORS: Final = frozenset({
    "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "_?_:_", "@in",
    "_[_]", "_[?_]", "_?._", "@not_strictly_false",
})  # fmt: skip
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
_NAMESPACES: Final = {name.partition(".")[0] for name in _REMEDIES if "." in name}
_NAMESPACES.update(("base64", "format", "regex"))
# What is written in other languages -> what CEL has.
_ELSEWHERE: Final = {
    "len": "size", "length": "size", "count": "size", "toLower": "lowerAscii", "toUpper": "upperAscii",
}  # fmt: skip
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


MAX_LENGTH: Final = 10_240  # bytes; k8s.io/api resource/v1, CELSelectorExpressionMaxLength
_DEEPEST: Final = 30  # brackets; the library's parser ends at 32 levels of any kind

_TEXTS: Final = re.compile(
    r"""
      [bB]?[rR][bB]?(?:\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|"[^"\n]*"?|'[^'\n]*'?)
    | [bB]?(?:\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)|'''(?:\\.|[^\\])*?(?:'''|\Z))
    | [bB]?(?:"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
    | //[^\n]*
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_PRESENCE: Final = re.compile(
    r"(?<![.\w])has\s*\(\s*device\s*\.\s*(?:attributes|capacity|driver)\s*\)", re.ASCII
)
_SIGNS: Final = re.compile(r"(?:\b(?P<loop>exists|all)\s*)?(?P<opens>[(\[{])|[)\]}]|,|`", re.ASCII)


def prepare(expression: str) -> str:
    """Return the text for the compiler. Raises SelectorError for a text that must not reach it."""
    try:
        size = len(expression.encode())
    except UnicodeEncodeError as error:
        raise SelectorError(expression, "it is not valid Unicode") from error
    if size > MAX_LENGTH:
        raise SelectorError(expression, f"it is longer than {MAX_LENGTH:,} bytes")
    if not expression.strip():
        raise SelectorError(expression, "it is empty")
    shown = blank(expression)
    for name, position in find_refused(shown):
        raise SelectorError.at(expression, explain(name), position)
    _check_signs(expression, shown)
    for presence in _PRESENCE.finditer(shown):
        lines = presence[0].count("\n")
        always = "(!false)".ljust(len(presence[0]) - lines) + "\n" * lines
        expression = expression[: presence.start()] + always + expression[presence.end() :]
    return expression


def _check_signs(expression: str, shown: str) -> None:
    """Bound the depth of brackets; refuse loops with two variables, and names in quotes."""
    outer: list[tuple[re.Match[str], int]] = []
    for sign in _SIGNS.finditer(shown):
        if sign[0] == "`":
            raise SelectorError.at(expression, "a name cannot be quoted with `", sign.start())
        if sign["opens"]:
            outer.append((sign, 0))
            if len(outer) > _DEEPEST:
                raise SelectorError(expression, "it is nested too deeply")
        elif outer and (last := outer.pop()) and sign[0] == ",":
            opening, commas = last
            if commas and (loop := opening["loop"]):
                problem = f"{loop} has one variable: write {loop}(x, condition)"
                raise SelectorError.at(expression, problem, opening.start())
            outer.append((opening, commas + 1))


def blank(expression: str) -> str:
    """Return an expression with blanks in place of texts and comments."""
    return _TEXTS.sub(lambda text: re.sub(r"[^\n]", " ", text[0]), expression)

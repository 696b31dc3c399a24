"""Explanations of the compiler's errors for the author of a selector.

An explanation is one sentence with the position of the wrong word, and its replacement if there is one.
"""

import re
from typing import Final

from modelplane.cel import environment, restrictions
from modelplane.cel.errors import SelectorError, nearest
from modelplane.cel.functions import NAMES, unsupported
from modelplane.cel.value_types.type_names import QUANTITY, SEMVER

_ISSUE: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_STATUS: Final = re.compile("^[A-Z_]+: ")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_TOKEN: Final = re.compile(r"token recognition error at: '(.*)'", re.DOTALL)
_UNEXPECTED: Final = re.compile(r"(?:mismatched|extraneous) input '(.*?)'(?: expecting .*)?$")
_MACROS: Final = ("all", "exists", "exists_one", "filter", "map", "has", "optMap", "optFlatMap", "sortBy")
_ORDER: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_SHOWN: Final = {QUANTITY: "quantity", SEMVER: "version", "dyn": "an attribute"}

# What is written in other languages -> what CEL has.
_WORDS: Final = {
    "and": "&&",
    "or": "||",
    "not": "!",
    "is": "==",
    "if": "... ? ... : ...",
    "&": "&&",
    "|": "||",
    "=": "==",
}
_FUNCTIONS: Final = {
    "len": "size",
    "length": "size",
    "count": "size",
    "toLower": "lowerAscii",
    "toUpper": "upperAscii",
}
_TEXT: Final = "a text is written in quotes"


def explained(expression: str, output: str) -> SelectorError:
    """Return the error for the compiler's output."""
    issue = _ISSUE.search(output)
    if "recursion" in output or "nesting" in output:
        return SelectorError(expression, "it is nested too deeply")
    if issue is None:
        return SelectorError(expression, _STATUS.sub("", " ".join(output.partition(" [")[0].split())))
    line, column, problem = int(issue[1]), int(issue[2]), issue[3].partition(" [INVALID")[0]
    if line < 1:
        return SelectorError(expression, problem)
    text = expression.split("\n")[line - 1]
    before, called = text[: column - 1], text[column - 1 : column] == "("
    undeclared, overload = _UNDECLARED.search(problem), _OVERLOAD.search(problem)
    written = ""  # what the compiler's place is behind, and ours is before
    if undeclared:
        name = undeclared[1]
        problem = unsupported.reason(name) or _unknown(name, called=called)
        if not name.startswith("device."):
            written = name if called else name.rpartition(".")[0]
    elif overload:
        written = overload[1]
        problem = _inapplicable(written, overload[2].split(", "))
    elif before.rstrip().endswith("not"):
        written, problem = before[before.rindex("not") :], '"not" is not an operator, write !'
    else:
        problem = _malformed(problem.removeprefix("Syntax error: "))
    return SelectorError(
        expression, problem, line, max(column, 1) - (len(written) if before.endswith(written) else 0)
    )


def _malformed(problem: str) -> str:  # noqa: PLR0911  (a table of mistakes)
    token, unexpected = _TOKEN.search(problem), _UNEXPECTED.search(problem)
    if token and token[1][:1] in ("'", '"'):
        return "a text is not closed"
    found = token[1].strip()[:1] if token else unexpected[1] if unexpected else ""
    if found == "<EOF>":
        return "it breaks off"
    if found in _WORDS:
        return f'"{found}" is not an operator, write {_WORDS[found]}'
    if found == ",":
        return 'unexpected ",": a list is written in [ ]'
    if found:
        return f"unexpected {found}" if found[0] in "\"'" else f'unexpected "{found}"'
    if problem.startswith("has() argument"):
        return 'has takes a name behind a dot; of a domain, ask "domain" in device.attributes'
    return problem.partition(" expecting {")[0].replace("'<EOF>'", "the end")


def _inapplicable(function: str, kinds: list[str]) -> str:
    symbol = function.strip("_@").replace("_", " ") or function
    shown = " and ".join(_SHOWN.get(kind, kind) for kind in kinds)
    problem = f"{symbol} cannot be applied to {shown or 'nothing'}"
    if function in _ORDER:
        for kind, names in ((QUANTITY, "quantities"), (SEMVER, "versions")):
            if kind in kinds:
                return f"{names} have no order of their own, write a.compareTo(b) {symbol} 0"
    if function in ("compareTo", "isGreaterThan", "isLessThan") and kinds[1:] == ["string"]:
        maker = "quantity" if kinds[0] == QUANTITY else "semver"
        return f"{problem}, write {maker}(...) around the text"
    return problem


def _unknown(name: str, *, called: bool) -> str:
    if name.startswith("device."):
        return restrictions.unknown_field(name.removeprefix("device."))
    if called and name in _FUNCTIONS:
        return f'unknown name "{name}", did you mean {_FUNCTIONS[name]}?'
    if called and name in _MACROS:
        return f"{name} is not called so, write list.{name}(x, ...) with a variable and what is done with it"
    known = (*NAMES, *_MACROS) if called else (*environment.FIELDS, *restrictions.FIELDS)
    if near := nearest(name, known):
        meant = f"device.{near}" if near in restrictions.FIELDS else near
        return f'unknown name "{name}", did you mean {meant}?'
    if called:
        return f'unknown function "{name}"'
    return f'unknown name "{name}", a selector reads {restrictions.LISTED}; {_TEXT}'

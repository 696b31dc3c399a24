"""Explanations of the compiler's errors for the author of a selector.

An explanation is one sentence with the position of the wrong word, and its replacement if there is one.
"""

import re
from typing import Final

from modelplane.cel import checks, function_list
from modelplane.cel.environment import FIELDS
from modelplane.cel.errors import SelectorError, find_nearest
from modelplane.cel.functions import QUANTITY, SEMVER

_ISSUE: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (?:Syntax error: )?(.*)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_TOKEN: Final = re.compile(r"token recognition error at: '(.*)'", re.DOTALL)
_UNEXPECTED: Final = re.compile(r"(?:mismatched|extraneous) input '(.*?)'(?: expecting .*)?$")
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


def explain(expression: str, output: str) -> SelectorError:
    """Return the error for the compiler's output."""
    issue = _ISSUE.search(output)
    if "recursion" in output:
        return SelectorError(expression, "it is nested too deeply")
    if issue is None or int(issue[1]) < 1:
        problem = issue[3] if issue else " ".join(output.partition(": ")[2].split())
        return SelectorError(expression, problem.partition(" [")[0])
    line, column, problem = int(issue[1]), int(issue[2]), issue[3].partition(" [INVALID")[0]
    text = expression.split("\n")[line - 1]
    before, called = text[: column - 1], text[column - 1 : column] == "("
    written = ""  # what the compiler's place is behind, and ours is before
    if undeclared := _UNDECLARED.search(problem):
        name = undeclared[1]
        problem = _explain_name(name, called=called)
        if not name.startswith("device."):
            written = name if called else name.rpartition(".")[0]
    elif overload := _OVERLOAD.search(problem):
        written = overload[1]
        problem = _explain_overload(written, overload[2].split(", "))
    elif before.rstrip().endswith("not"):
        written, problem = before[before.rindex("not") :], '"not" is not an operator, write !'
    else:
        problem = _explain_syntax(problem)
    start = max(column, 1) - (len(written) if before.endswith(written) else 0)
    return SelectorError(expression, problem, line, start)


def _explain_syntax(problem: str) -> str:
    token, unexpected = _TOKEN.search(problem), _UNEXPECTED.search(problem)
    if token and token[1][:1] in ("'", '"'):
        return "a text is not closed"
    word = token[1].strip()[:1] if token else unexpected[1] if unexpected else ""
    if word in _WORDS:
        return f'"{word}" is not an operator, write {_WORDS[word]}'
    if word:
        known = {"<EOF>": "it breaks off", ",": 'unexpected ",": a list is written in [ ]'}
        return known.get(word) or (f"unexpected {word}" if word[0] in "\"'" else f'unexpected "{word}"')
    if problem.startswith("has() argument"):
        return 'has takes a name behind a dot; of a domain, ask "domain" in device.attributes'
    return problem.partition(" expecting {")[0].replace("'<EOF>'", "the end")


def _explain_overload(function: str, kinds: list[str]) -> str:
    symbol = function.strip("_@").replace("_", " ") or function
    shown = " and ".join(_SHOWN.get(kind, kind) for kind in kinds)
    if function in ("_<_", "_<=_", "_>_", "_>=_"):
        for kind, names in ((QUANTITY, "quantities"), (SEMVER, "versions")):
            if kind in kinds:
                return f"{names} have no order of their own, write a.compareTo(b) {symbol} 0"
    problem = f"{symbol} cannot be applied to {shown or 'nothing'}"
    if function in ("compareTo", "isGreaterThan", "isLessThan") and kinds[1:] == ["string"]:
        return f"{problem}, write {'quantity' if kinds[0] == QUANTITY else 'semver'}(...) around the text"
    return problem


def _explain_name(name: str, *, called: bool) -> str:
    if name.startswith("device."):
        return checks.explain_field(name.removeprefix("device."))
    if called and name in function_list.MACROS:
        return f"{name} is not called so, write list.{name}(x, ...) with a variable and what is done with it"
    if called:
        return function_list.explain(name)
    if near := find_nearest(name, (*FIELDS, *checks.NAMES)):
        return f'unknown name "{name}", did you mean device.{near.removeprefix("device.")}?'
    return f'unknown name "{name}", a selector reads {checks.LISTED}; a text is written in quotes'

"""From the text of a selector to what evaluates it.

One rule: each step refuses what it can tell: text, compiler, restrictions, estimate, program.

This is a module of its own because all that it needs is only read when a first selector is compiled.
"""

import difflib
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from modelplane.cel import checked, cost, environment, estimate, restrictions, source
from modelplane.cel.bindings import Bindings
from modelplane.cel.errors import EvaluationError, SelectorError
from modelplane.cel.evaluate import Frame, Program, build
from modelplane.cel.functions import NAMES

MAX_LENGTH: Final = 10_240  # bytes; k8s.io/api resource/v1, CELSelectorExpressionMaxLength

# What a selector gives for a device, or why it fails, and what that cost.
Run: TypeAlias = Callable[[Bindings], tuple[Any, int]]


def compiled(expression: str) -> tuple[int, Run]:
    """Return the most that a selector can cost, and what evaluates it. Raises SelectorError."""
    try:
        size = len(expression.encode())
    except UnicodeEncodeError as error:
        raise SelectorError(expression, "it is not valid Unicode") from error
    if size > MAX_LENGTH:
        raise SelectorError(expression, f"it is longer than {MAX_LENGTH:,} bytes")
    if not expression.strip():
        raise SelectorError(expression, "it is empty")
    text = source.prepared(expression)
    try:
        result = environment.compiler().compile(text)
    except RuntimeError as error:
        raise _explained(expression, str(error)) from error
    kind = result.return_type().name()
    if kind not in ("BOOL", "DYN"):
        raise SelectorError(expression, f"it gives {kind.lower()}, but a selector gives true or false")
    tree = checked.Tree(result.serialize())
    try:
        tree.read()
        restrictions.check(tree)
        most = estimate.most(tree)
        program = build(tree.root)
    except checked.Unsupported as error:
        raise SelectorError.at(expression, str(error), tree.offset(error.identity)) from error
    if most > cost.LIMIT:
        raise SelectorError(expression, _expensive(most))
    return most, _run(program)


def _run(program: Program) -> Run:
    def run(bindings: Bindings) -> tuple[Any, int]:
        frame = Frame(bindings)
        try:
            result = program(frame)
            frame.check()
        except EvaluationError as error:
            return error, frame.cost
        return result, frame.cost

    return run


def _expensive(most: int) -> str:
    amount = f"{most:,} units" if most < estimate.UNBOUNDED // 100 else "more than can be told"
    return f"it may cost {amount}, and Kubernetes allows {cost.LIMIT:,}"


_ISSUE: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD: Final = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_MACROS: Final = ("all", "exists", "exists_one", "filter", "map", "has", "optMap", "optFlatMap", "sortBy")


def _explained(expression: str, output: str) -> SelectorError:
    issue = _ISSUE.search(output)
    if "recursion" in output or "nesting" in output:
        return SelectorError(expression, "it is nested too deeply")
    if issue is None:
        return SelectorError(expression, " ".join(output.partition(" [")[0].split()))
    line, column, problem = int(issue[1]), int(issue[2]), issue[3].partition(" [INVALID")[0]
    undeclared, overload = _UNDECLARED.search(problem), _OVERLOAD.search(problem)
    if undeclared:
        problem = _unknown(undeclared[1])
    elif overload:
        symbol = overload[1].strip("_@").replace("_", " ") or overload[1]
        arguments = overload[2].replace(", ", " and ")
        problem = f"{symbol} cannot be applied to {arguments or 'nothing'}"
    problem = problem.removeprefix("Syntax error: ").partition(" expecting {")[0].replace("'<EOF>'", "end")
    return SelectorError(expression, problem, max(line, 0), max(column, 1))


def _unknown(name: str) -> str:
    if name.startswith("device."):
        return restrictions.unknown_field(name.removeprefix("device."))
    nearest = difflib.get_close_matches(name, (*NAMES, *_MACROS), n=1, cutoff=0.6)
    if nearest:
        return f'unknown name "{name}", did you mean {nearest[0]}?'
    return f'unknown name "{name}", a selector reads {_listed(environment.FIELDS)}'


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"

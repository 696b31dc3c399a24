"""A selector: a CEL expression that is true or false for one device.

One rule: a text is compiled once, and a device's `NoMatch` always says why.
"""

import difflib
import functools
import re
from dataclasses import dataclass, field
from typing import Final

from modelplane.cel import checked, environment
from modelplane.cel.bindings import Read, bind
from modelplane.cel.device import PublishedDevice
from modelplane.cel.errors import EvaluationError, SelectorError
from modelplane.cel.evaluate import Frame, Program, build

MAX_LENGTH: Final = 10_240  # KEP-4381: CELSelectorExpressionMaxLength


@dataclass(frozen=True, slots=True)
class Match:
    """The device is selected."""


@dataclass(frozen=True, slots=True)
class NoMatch:
    """The device is not selected. `failed` tells an error on this device from an expression that is false.

    `reads` are the values looked at, in the order in which they were first read.
    """

    reason: str
    failed: bool = False
    reads: tuple[Read, ...] = ()


MATCH: Final = Match()


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression."""

    expression: str
    _program: Program = field(repr=False, compare=False)

    def evaluate(self, device: PublishedDevice) -> Match | NoMatch:
        """Apply the selector to a device."""
        try:
            bindings = bind(device)
        except EvaluationError as error:
            return NoMatch(str(error), failed=True)
        try:
            result = self._program(Frame(bindings))
        except EvaluationError as error:
            return NoMatch(str(error), failed=True, reads=tuple(bindings.reads.values()))
        reads = tuple(bindings.reads.values())
        if result is True:
            return MATCH
        if result is False:
            return NoMatch(_seen(reads, device.driver), reads=reads)
        return NoMatch("it gives neither true nor false for this device", failed=True, reads=reads)


@functools.lru_cache(maxsize=4096)
def compile(expression: str) -> Selector:  # noqa: A001  (the field's own word)
    """Return the selector of an expression. Raises SelectorError."""
    if len(expression) > MAX_LENGTH:
        raise SelectorError(expression, f"it is longer than {MAX_LENGTH:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in expression):
        raise SelectorError(expression, "it is not valid Unicode")
    compiler = environment.compiler()
    try:
        compiled = compiler.compile(expression)
    except RuntimeError as error:
        raise _explained(expression, str(error)) from error
    kind = compiled.return_type().name()
    if kind not in ("BOOL", "DYN"):
        raise SelectorError(expression, f"it gives {kind.lower()}, but a selector gives true or false")
    try:
        return Selector(expression, build(checked.decode(compiled.serialize())))
    except ValueError as error:
        raise SelectorError(expression, f"it uses {error}, which selectors cannot") from error


_ISSUE: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_STANDARD: Final = (
    *("all", "exists", "exists_one", "filter", "map", "has", "size", "matches", "contains", "startsWith"),
    *("endsWith", "lowerAscii", "upperAscii", "split", "join", "replace", "substring", "trim", "indexOf"),
    *("int", "uint", "double", "string", "bool", "orValue", "hasValue"),
)
_FIELD_NAMES: Final = tuple(name.removeprefix("device.") for name in environment.FIELDS)


def _explained(expression: str, output: str) -> SelectorError:
    issue = _ISSUE.search(output)
    if issue is None:
        limit = "it is nested too deeply" if "recursion" in output else output.partition(" [")[0]
        return SelectorError(expression, limit)
    line, column, problem = int(issue[1]), int(issue[2]), issue[3].partition(" [INVALID")[0]
    if "recursion" in problem:
        return SelectorError(expression, "it is nested too deeply")
    undeclared = _UNDECLARED.search(problem)
    if undeclared:
        problem = _unknown(undeclared[1])
    elif problem.startswith("found no matching overload"):
        problem = problem.removeprefix("found ")
    problem = problem.removeprefix("Syntax error: ").partition(" expecting {")[0].replace("'<EOF>'", "end")
    return SelectorError(expression, problem, max(line, 0), max(column, 1))


def _unknown(name: str) -> str:
    if name == "device":
        return f"device is read through {_listed(environment.FIELDS)}"
    prefix, known = ("device.", _FIELD_NAMES) if "." in name else ("", (*environment.FUNCTIONS, *_STANDARD))
    nearest = [
        prefix + found for found in difflib.get_close_matches(name.rpartition(".")[2], known, n=1, cutoff=0.6)
    ]
    if nearest:
        return f'unknown name "{name}", did you mean {nearest[0]}?'
    return f'unknown name "{name}", a selector reads {_listed(environment.FIELDS)}'


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _seen(reads: tuple[Read, ...], driver: str) -> str:
    return ", ".join(str(read) for read in reads[:3]) or f'the driver is "{driver}"'

"""Compilation of a selector: text, compiler, restrictions, estimate, program.

Each step refuses what it can detect. The module is separate so that its imports are loaded only when the
first selector is compiled.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from modelplane.cel import (
    checked,
    environment,
    estimate,
    evaluation_cost,
    expansion,
    explanation,
    restrictions,
    source,
)
from modelplane.cel.bindings import Bindings
from modelplane.cel.errors import EvaluationError, SelectorError, TooMuchWork
from modelplane.cel.evaluate import Frame, Program, build

MAX_LENGTH: Final = 10_240  # bytes; k8s.io/api resource/v1, CELSelectorExpressionMaxLength

# The result for a device, or the error, and the cost.
Run: TypeAlias = Callable[[Bindings], tuple[Any, int]]


def compile_selector(expression: str) -> tuple[int, Run]:
    """Return the highest possible cost of a selector, and its evaluator. Raises SelectorError."""
    try:
        size = len(expression.encode())
    except UnicodeEncodeError as error:
        raise SelectorError(expression, "it is not valid Unicode") from error
    if size > MAX_LENGTH:
        raise SelectorError(expression, f"it is longer than {MAX_LENGTH:,} bytes")
    if not expression.strip():
        raise SelectorError(expression, "it is empty")
    text = source.prepared(expression)
    if problem := expansion.excess(text):
        raise SelectorError(expression, problem)
    try:
        result = environment.compiler().compile(text)
        kind = result.return_type().name()
    except RuntimeError as error:
        raise explanation.explained(expression, str(error)) from error
    if kind not in ("BOOL", "DYN"):
        hint = ": compare it, as in `... >= 0`" if kind == "INT" else ""
        raise SelectorError(expression, f"it gives {kind.lower()}, but a selector gives true or false{hint}")
    tree = checked.Tree(result.serialize())
    try:
        tree.read()
        restrictions.check(tree)
        most = estimate.most(tree)
        program = build(tree.root)
    except checked.Unsupported as error:
        raise SelectorError.at(expression, str(error), tree.offset(error.identity)) from error
    if most > evaluation_cost.LIMIT:
        raise SelectorError(expression, _expensive(most))
    return most, _run(program)


def _run(program: Program) -> Run:
    def run(bindings: Bindings) -> tuple[Any, int]:
        frame = Frame(bindings)
        try:
            result = program(frame)
            frame.check()
        except TooMuchWork as error:
            return EvaluationError(str(error)), frame.cost
        except EvaluationError as error:
            return error, frame.cost
        return result, frame.cost

    return run


def _expensive(most: int) -> str:
    amount = f"{most:,} units" if most < estimate.UNBOUNDED // 100 else "more than can be told"
    return f"it may cost {amount}, and Kubernetes allows {evaluation_cost.LIMIT:,}"

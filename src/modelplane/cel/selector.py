"""Selector: a CEL expression that is true or false for one device.

A text is compiled once, and a device's `NoMatch` always has a reason.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from modelplane.api.listing import in_order
from modelplane.cel import bindings
from modelplane.cel.bindings import Bindings, ObservedValue, PublishedDevice
from modelplane.cel.errors import EvaluationError, TooCostly, one_line


class Match(msgspec.Struct, frozen=True):
    """The device is selected."""


class NoMatch(msgspec.Struct, frozen=True):
    """The device is not selected. `failed`: an error on this device, not an expression that is false.

    `reads` are the values that were read, in the order in which they were first read.
    """

    reason: str
    failed: bool = False
    reads: tuple[ObservedValue, ...] = ()


LIMIT: Final = 1_000_000
"""The most that a selector may cost; k8s.io/api v0.35 `resource/v1`, CELSelectorExpressionMaxCost."""

# A device as selectors read it, or why none can.
Bound: TypeAlias = Bindings | NoMatch


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression. `estimate` is the most that it can cost, in Kubernetes' units."""

    expression: str
    estimate: int
    _run: Callable[[Bindings], Any] = field(repr=False, compare=False)

    def evaluate(self, device: PublishedDevice | Bound) -> Match | NoMatch:
        """Apply the selector to a device."""
        bound = device if isinstance(device, (Bindings, NoMatch)) else bind(device)
        if isinstance(bound, NoMatch):
            return bound
        bound.reads.clear()
        result = self._run(bound)
        if result is True:
            return Match()
        reads = tuple(bound.reads.values())
        if result is False:
            if not reads:
                return _refuse_driver(bound.driver)
            return NoMatch(one_line(in_order([str(read) for read in reads])), reads=reads)
        if isinstance(result, EvaluationError):
            return NoMatch(one_line(str(result)), failed=True, reads=reads)
        return NoMatch("it gives neither true nor false for this device", failed=True, reads=reads)


@functools.lru_cache(maxsize=256)
def _refuse_driver(driver: str) -> NoMatch:
    return NoMatch(one_line(f'the driver is "{driver}"'))


def bind(device: PublishedDevice) -> Bound:
    """Read a device once for many selectors. A malformed one is refused by each."""
    try:
        return bindings.bind(device)
    except EvaluationError as error:
        return NoMatch(one_line(str(error)), failed=True)


@functools.lru_cache(maxsize=4096)
def compile(expression: str) -> Selector:  # noqa: A001  (the field's own word)
    """Return the selector of an expression. Raises SelectorError."""
    # Read when it is first needed: most commands compile no selector.
    from modelplane.cel.program import compile_selector  # noqa: PLC0415  (a tenth of a second is saved)

    return Selector(expression, *compile_selector(expression))


def compile_all(expressions: Iterable[str]) -> dict[str, Selector]:
    """Return the selectors of one deployment, by expression.

    Raises SelectorError if one does not compile, and TooCostly if on one device they may together cost more
    than Kubernetes allows a single selector.
    """
    selectors = {expression: compile(expression) for expression in expressions}
    most = sum(selector.estimate for selector in selectors.values())
    if most > LIMIT:
        raise TooCostly(
            f"its {len(selectors)} different device selectors may together cost {most:,} units for one "
            f"device: simplify them, because a deployment is allowed {LIMIT:,}"
        )
    return selectors

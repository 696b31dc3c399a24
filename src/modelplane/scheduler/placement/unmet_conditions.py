"""Unmet conditions: those of a request that keep every device from it.

Each condition is evaluated alone on every refused device. This distinguishes a condition that no device can
meet from one that these devices do not meet, and both from conditions that exclude each other.

A device meets a selector if and only if it meets every condition, so a condition that it does not meet
explains the refusal.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from modelplane.api.rejected import Rejected
from modelplane.cel import NoMatch, source
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.placement.pool_rejections import Excluded, PoolRejections
from modelplane.scheduler.rejection_reasons import NoDevice
from modelplane.scheduler.search.identity_map import IdentityMap
from modelplane.scheduler.types import Cluster, Device, DeviceRequest, Pool

_MOST_CONDITIONS: Final = 16
_SIGNS: Final = re.compile(r"&&|\|\||[()\[\]{}]|(?<![.\[])\?")
_DEVICE: Final = re.compile(r"\bdevice\b")
_PATH: Final = re.compile(r"""device(\s*\.\s*\w+(\s*\[[^\]]*\](\s*(\.\s*\??\s*\w+|\[[^\]]*\]))?)?)?""")


def conditions(expression: str) -> tuple[str, ...]:
    """Return the conditions of a selector that compiles; the selector itself if it joins none."""
    pieces = _split(expression)
    return pieces if len(pieces) <= _MOST_CONDITIONS else (expression.strip(),)


def _split(expression: str) -> tuple[str, ...]:
    shown = source.blank(expression)
    depth, start, pieces = 0, 0, []
    for sign in _SIGNS.finditer(shown):
        if sign[0] in "([{":
            depth += 1
        elif sign[0] in ")]}":
            depth -= 1
        elif depth == 0 and sign[0] == "&&":
            pieces.append(expression[start : sign.start()])
            start = sign.end()
        elif depth == 0:
            # What || and ? : join is one condition, whatever && is within.
            return (expression.strip(),)
    if not pieces:
        return _unwrapped(expression.strip())
    return tuple(text for piece in (*pieces, expression[start:]) for text in _split(piece.strip()))


def _unwrapped(expression: str) -> tuple[str, ...]:
    """Return the conditions of an expression, which may be in parentheses."""
    if not (expression.startswith("(") and expression.endswith(")")):
        return (expression,)
    depth = 0
    for sign in re.finditer(r"[()]", source.blank(expression)):
        depth += 1 if sign[0] == "(" else -1
        if depth == 0 and sign.end() < len(expression):
            return (expression,)
    inner = _split(expression[1:-1].strip())
    return inner if len(inner) > 1 else (expression,)


def reads(condition: str) -> frozenset[str]:
    """Return the parts of a device that a condition reads, such as ``device.driver``, as written there."""
    places = (found.start() for found in _DEVICE.finditer(source.blank(condition)))
    paths = (found for place in places if (found := _PATH.match(condition, place)))
    return frozenset("".join(found[0].split()) for found in paths)


_LONGEST_CONDITION: Final = 120


class Unmet(msgspec.Struct, frozen=True):
    """The fault of a request's conditions; `condition` is empty if no single one is at fault."""

    condition: str = ""
    impossible: bool = False
    """True if it reads nothing of a device, so that no device can meet it."""
    opposed: bool = False
    """True if another condition reads the same value."""
    failed: bool = False
    """True if a selector fails on a device; its error says more than the condition."""

    @property
    def telling(self) -> bool:
        """True if the compared values do not show the fault."""
        return self.impossible or self.opposed or not self.condition

    @property
    def elsewhere(self) -> bool:
        """True if the device's own text shows the fault: its driver, or the selector's error on it."""
        of_driver = not self.opposed and reads(self.condition) == {"device.driver"}
        return self.failed or of_driver

    def __str__(self) -> str:
        if not self.condition:
            return "each condition matches some device, but no device matches all conditions"
        shown = " ".join(self.condition.split())
        shown = shown if len(shown) <= _LONGEST_CONDITION else f"{shown[: _LONGEST_CONDITION - 3]}..."
        return f"`{shown}` is false for every device" if self.impossible else f"no device matches `{shown}`"


def find_unmet(excluded: Iterable[Excluded], selection: Selection) -> dict[str, Unmet]:
    """Return the cause that keeps the devices of all pools from a request, by the request's name."""
    offered: dict[tuple[str, tuple[str, ...]], dict[int, Device]] = {}
    # What refused one pool is one value with what refused all others of the same hardware.
    seen: set[int] = set()
    for cluster, why in excluded:
        if not isinstance(why, PoolRejections):
            continue
        for name, rejected in why.pools:
            if id(rejected) not in seen and isinstance(rejected, NoDevice):
                seen.add(id(rejected))
                devices = offered.setdefault((rejected.subject, rejected.selectors), {})
                for device in _named(cluster, name).devices:
                    devices.setdefault(selection.identity(device), device)
    names = [name for name, _ in offered]
    return {
        name: _unmet(selectors, devices.values(), selection)
        for (name, selectors), devices in offered.items()
        # Of two requests of one name, what is wrong with one would be taken for what is wrong with both.
        if names.count(name) == 1
    }


class Details:
    """Causes by pool and request, if the compared values do not show them."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._completed: IdentityMap[Rejected, Rejected] = IdentityMap()

    def complete(self, rejected: Rejected, cluster: Cluster, pool: str) -> Rejected:
        """Return a pool's rejection with the cause as its detail, if the compared values do not show it."""
        if not isinstance(rejected, NoDevice) or rejected.reads:
            return rejected
        completed = self._completed.get(rejected)
        if completed is None:
            cause = _unmet(rejected.selectors, _named(cluster, pool).devices, self._selection)
            completed = rejected if cause.elsewhere else replace(rejected, detail=str(cause))
            self._completed.setdefault(rejected, completed)
        return completed


def _named(cluster: Cluster, pool: str) -> Pool:
    return next(candidate for candidate in cluster.pools if candidate.name == pool)


def _unmet(selectors: tuple[str, ...], devices: Collection[Device], selection: Selection) -> Unmet:
    """Return the cause that keeps devices from selectors."""
    asked = [condition for selector in selectors for condition in conditions(selector)]
    failing = [
        condition
        for condition in asked
        if not any(selection.is_accepted((condition,), device) for device in devices)
    ]
    if impossible := next((condition for condition in failing if not reads(condition)), ""):
        return Unmet(impossible, impossible=True)
    refusals = (selection.find_refusal(DeviceRequest("", 1, selectors), device) for device in devices)
    failed = any(isinstance(refusal, NoMatch) and refusal.failed for refusal in refusals)
    if not failing:
        return Unmet(failed=failed)
    opposed = sum(bool(reads(other) & reads(failing[0])) for other in asked) > 1
    return Unmet(failing[0], opposed=opposed, failed=failed)

"""Selection: the devices that each request's selectors accept, evaluated once per distinct device.

Device entries with the same driver, attributes and capacities are one device here, on all clusters. The cost
of all evaluations is bounded, because the selectors are a tenant's.
"""

from collections.abc import Iterable
from typing import Final

from modelplane import cel
from modelplane.scheduler.search.identity_map import number_by_value
from modelplane.scheduler.search.search_budget import SELECTOR_UNITS, SearchBudget
from modelplane.scheduler.types import Deployment, Device, DeviceRequest


class Selection:
    """The compiled selectors of one deployment, and their verdicts so far."""

    def __init__(self, budget: SearchBudget, deployment: Deployment | None = None) -> None:
        """Compile every selector. Raises SelectorError."""
        self._budget = budget
        self._selectors = cel.compile_all(
            expression
            for engine in (() if deployment is None else deployment.engines)
            for member in engine.members
            for request in member.requests
            for expression in request.selectors
        )
        self._verdicts: dict[tuple[str, int], cel.Match | cel.NoMatch] = {}
        self._bound: dict[int, cel.Bound] = {}
        self.identity: Final = number_by_value(collect_traits)
        """Returns the same number for devices that no selector can distinguish."""

    def is_match(self, request: DeviceRequest, device: Device) -> bool:
        """Tell whether all selectors of a request accept the device. Raises TooCostly."""
        return isinstance(self.find_refusal(request, device), cel.Match)

    def is_accepted(self, selectors: Iterable[str], device: Device) -> bool:
        """Tell whether selectors, of any deployment, all accept the device.

        Those that are not valid do, and those for which the budget of existing claims has no units left.
        """
        identity = self.identity(device)
        return all(
            not isinstance(self._verdict(selector, device, identity), cel.NoMatch) for selector in selectors
        )

    def find_refusal(self, request: DeviceRequest, device: Device) -> cel.Match | cel.NoMatch:
        """Return the first selector's refusal of the device, or a match."""
        identity = self.identity(device)
        for expression in request.selectors:
            verdict = self._verdict(expression, device, identity)
            if isinstance(verdict, cel.NoMatch):
                return verdict
        return cel.Match()

    def _verdict(self, expression: str, device: Device, identity: int) -> cel.Match | cel.NoMatch:
        verdict = self._verdicts.get((expression, identity))
        if verdict is None:
            selector = self._selectors.get(expression) or _compiled(expression)
            if identity not in self._bound:
                self._bound[identity] = cel.bind(device)
            verdict = cel.Match() if selector is None else self._evaluated(selector, self._bound[identity])
            self._verdicts[expression, identity] = verdict
        return verdict

    def _evaluated(self, selector: cel.Selector, device: cel.Bound) -> cel.Match | cel.NoMatch:
        own = selector.expression in self._selectors
        if self._budget.may_evaluate(own=own):
            self._budget.charge(selector.estimate, own=own)
            return selector.evaluate(device)
        if own:
            raise cel.TooCostly(
                f"the device selectors cost more than {SELECTOR_UNITS:,} units for {len(self._bound)} "
                "kinds of devices in the fleet: simplify the selectors"
            )
        return cel.Match()


def _compiled(expression: str) -> cel.Selector | None:
    try:
        return cel.compile(expression)
    except cel.SelectorError:
        return None


def collect_traits(device: Device) -> tuple[object, ...]:
    """Return every property of a device that selectors can read, as a value."""
    attributes = device.attributes
    # True equals 1 in Python, not in CEL: the types are part of the value. So is the order of the keys,
    # which is quicker to build; at worst one device is looked at twice.
    return (device.driver, *attributes.items(), *map(type, attributes.values()), *device.capacity.items())

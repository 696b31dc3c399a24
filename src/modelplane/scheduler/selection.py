"""Which devices each request's selectors accept, worked out once per distinct device.

One rule: two device entries with the same driver, attributes and capacities are one device here, on whatever
cluster they are.
"""

from modelplane import cel
from modelplane.scheduler.deployment import Deployment, DeviceRequest
from modelplane.scheduler.device import Device


class Selection:
    """The compiled selectors of one deployment, and their verdicts so far."""

    def __init__(self, deployment: Deployment) -> None:
        """Compile every selector. Raises SelectorError."""
        self._selectors = {
            expression: cel.compile(expression)
            for engine in deployment.engines
            for member in engine.members
            for request in member.requests
            for expression in request.selectors
        }
        self._verdicts: dict[tuple[str, int], cel.Match | cel.NoMatch] = {}
        self._known: dict[int, tuple[Device, int]] = {}
        self._numbers: dict[object, int] = {}

    def matches(self, request: DeviceRequest, device: Device) -> bool:
        """Tell whether all selectors of a request accept the device."""
        return isinstance(self.first_refusal(request, device), cel.Match)

    def first_refusal(self, request: DeviceRequest, device: Device) -> cel.Match | cel.NoMatch:
        """Return the first selector's refusal of the device, or a match."""
        identity = self.identity(device)
        for expression in request.selectors:
            verdict = self._verdicts.get((expression, identity))
            if verdict is None:
                verdict = self._verdicts[expression, identity] = self._selectors[expression].evaluate(device)
            if isinstance(verdict, cel.NoMatch):
                return verdict
        return cel.Match()

    def identity(self, device: Device) -> int:
        """Return a number that is the same for devices which no selector can tell apart."""
        known = self._known.get(id(device))
        if known is not None:
            return known[1]
        value = traits(device)
        number = self._numbers.setdefault(value, len(self._numbers))
        # The device is kept beside its number, so that its id is not used again while it is a key.
        self._known[id(device)] = (device, number)
        return number


def traits(device: Device) -> tuple[object, ...]:
    """Return all that selectors can tell of a device, as a value."""
    attributes = device.attributes
    # True equals 1 in Python, not in CEL: the types are part of the value. So is the order of the keys,
    # which is quicker to build; at worst one device is looked at twice.
    return (
        device.driver,
        *attributes.items(),
        *map(type, attributes.values()),
        *device.capacity.items(),
    )

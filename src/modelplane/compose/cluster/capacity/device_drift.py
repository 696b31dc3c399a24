"""Drift: differences between the devices that a class declares and those that drivers publish."""

from collections.abc import Iterator, Sequence

from modelplane.api.fields.cluster.devices import Device, DeviceAttribute
from modelplane.api.values import quantity
from modelplane.api.values.quantity import QuantityError
from modelplane.compose.cluster.capacity.capacity_facts import DeviceFacts


def assign(facts: DeviceFacts, devices: Sequence[Device], entries: Sequence[int]) -> int:
    """Return the entry of a device's driver that differs least from it."""
    if len(entries) == 1:
        return entries[0]
    return min(entries, key=lambda at: (len(list(_differences(devices[at], facts))), at))


def drift(device: Device, published: Sequence[DeviceFacts]) -> list[str]:
    """Return the differences of a node from an entry of its class, each once."""
    texts = {text for facts in published for text in _differences(device, facts)}
    if published and len(published) != device.count:
        texts.add(f"{len(published)} {device.name} published, {device.count} declared")
    return sorted(texts)


def _differences(device: Device, facts: DeviceFacts) -> Iterator[str]:
    values = dict(facts.kind.values)
    for name, attribute in sorted(device.attributes.items()):
        key, declared = name.removeprefix(f"{device.driver}/"), _text(attribute)
        if values.get(key, "") != declared:
            yield _difference(device, key, values.get(key, ""), declared)
    for name, capacity in sorted(device.capacity.items()):
        key = name.removeprefix(f"{device.driver}/")
        if not _is_equal(values.get(key, ""), capacity.value):
            yield _difference(device, key, values.get(key, ""), capacity.value)


def _difference(device: Device, key: str, published: str, declared: str) -> str:
    return f"{device.name} {key} is {published or 'not published'}, {declared} declared"


def _text(attribute: DeviceAttribute) -> str:
    for value in (attribute.string, attribute.version, attribute.boolean, attribute.integer):
        if value is not None:
            return str(value)
    return ""


def _is_equal(published: str, declared: str) -> bool:
    try:
        return quantity.parse(published) == quantity.parse(declared)
    except QuantityError:
        return published == declared

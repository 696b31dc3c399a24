"""Facts of Nodes, devices, claims and taint rules from which capacity is computed, without the rest.

A copy of a whole Node has some 20 KB, its facts some 100 bytes. A cluster is not trusted: a value that does
not have the form that Kubernetes gives it is left out, and texts and lists are bounded.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.api.schema.untyped import get_list, get_map, get_value
from modelplane.compose.cluster.eviction_signs import NodeNotice, notice

FACTS: Final = "facts"
"""Key of the facts in a projected object."""

EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that keep pods away; unknown effects keep none (KEP-5055)."""

_MOST_TAINTS: Final = 64
_MOST_DEVICES: Final = 128
"""Of one ResourceSlice (Kubernetes API, ``ResourceSliceMaxDevices``)."""
_MOST_RESULTS: Final = 128
_MOST_VALUES: Final = 64
_LONGEST_NAME: Final = 253

Taint = tuple[str, str, str]
"""Key, value and effect."""


class Facts(msgspec.Struct, frozen=True, gc=False):
    """Facts of one object."""


class NodeFacts(Facts, frozen=True, gc=False):
    """A node: whether pods may be put on it."""

    name: str
    pool: str
    is_ready: bool
    is_unschedulable: bool
    taints: tuple[Taint, ...] = ()
    notice: NodeNotice | None = None


class DeviceKind(msgspec.Struct, frozen=True, gc=False):
    """Attributes and capacity of equal devices, as sorted pairs; the values are text.

    A name of the driver's own domain is bare.
    """

    values: tuple[tuple[str, str], ...]


class DeviceFacts(msgspec.Struct, frozen=True, gc=False):
    """A device as its driver publishes it."""

    name: str
    kind: DeviceKind
    taints: tuple[Taint, ...] = ()


class SliceFacts(Facts, frozen=True, gc=False):
    """A ResourceSlice. ``is_divided``: its devices share hardware, so that they cannot be counted."""

    driver: str
    node: str
    pool: str
    generation: int
    slices: int
    devices: tuple[DeviceFacts, ...] = ()
    is_divided: bool = False


class ClaimFacts(Facts, frozen=True, gc=False):
    """A ResourceClaim: the pod that it is reserved for, and its devices as driver, pool and name."""

    namespace: str
    holder: str = ""
    devices: tuple[tuple[str, str, str], ...] = ()


class RuleFacts(Facts, frozen=True, gc=False):
    """A DeviceTaintRule: the devices that it taints. A part of the selector that is None matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    taints: tuple[Taint, ...] = ()
    """The taint; none if its effect keeps no pod away, as that of a dry run."""

    def matches(self, driver: str, pool: str, device: str) -> bool:
        """Return True if the rule taints a device."""
        return self.driver in (None, driver) and self.pool in (None, pool) and self.device in (None, device)


def project(item: Object) -> dict[str, Any]:
    """Return an object of one of these kinds with its facts only."""
    metadata = item["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata}
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": kept,
        FACTS: _READERS[item["kind"]](item),
    }


def _node(item: Object) -> NodeFacts:
    return NodeFacts(
        str(item["metadata"]["name"]),
        _text(get_value(item, "metadata", "labels", labels.POOL)),
        any(
            get_value(condition, "type") == "Ready" and get_value(condition, "status") == "True"
            for condition in get_list(get_value(item, "status", "conditions"))
        ),
        get_value(item, "spec", "unschedulable") is True,
        _taints(get_value(item, "spec", "taints")),
        notice(item),
    )


def _slice(item: Object) -> SliceFacts:
    driver = _text(get_value(item, "spec", "driver"))
    devices = [entry for entry in get_list(get_value(item, "spec", "devices")) if isinstance(entry, Mapping)]
    return SliceFacts(
        driver,
        _text(get_value(item, "spec", "nodeName")),
        _text(get_value(item, "spec", "pool", "name")),
        _number(get_value(item, "spec", "pool", "generation")),
        _number(get_value(item, "spec", "pool", "resourceSliceCount")),
        tuple(_device(driver, device) for device in devices[:_MOST_DEVICES]),
        bool(get_value(item, "spec", "sharedCounters"))
        or any(
            device.get("consumesCounters") or device.get("allowMultipleAllocations") for device in devices
        ),
    )


def _device(driver: str, item: Mapping[str, Any]) -> DeviceFacts:
    values = {
        key.removeprefix(f"{driver}/"): text
        for field in ("attributes", "capacity")
        for key, value in list(get_map(item.get(field)).items())[:_MOST_VALUES]
        if (text := _value(value)) and not key.lower().endswith(_OWN)
    }
    return DeviceFacts(
        _text(item.get("name")), _kind(tuple(sorted(values.items()))), _taints(item.get("taints"))
    )


_OWN: Final = ("uuid", "busid", "root", "numa", "index", "addr", "minor", "moduleid", "numanode")
"""Ends of the names of attributes that differ from device to device, which no class declares."""

_kind: Final = lru_cache(maxsize=4096)(DeviceKind)
"""Returns the same kind for the same values: the devices of a fleet are of few kinds."""


def _claim(item: Object) -> ClaimFacts:
    namespace = _text(get_value(item, "metadata", "namespace"))
    reserved = get_list(get_value(item, "status", "reservedFor"))
    if not reserved:
        # Kubernetes takes the devices back from a claim that no pod uses.
        return ClaimFacts(namespace)
    results = get_list(get_value(item, "status", "allocation", "devices", "results"))[:_MOST_RESULTS]
    return ClaimFacts(
        namespace,
        _text(get_value(reserved[0], "name")),
        tuple(
            (
                _text(get_value(result, "driver")),
                _text(get_value(result, "pool")),
                _text(get_value(result, "device")),
            )
            for result in results
            if get_value(result, "adminAccess") is not True
        ),
    )


def _rule(item: Object) -> RuleFacts:
    # Without a selector, the scheduler of Kubernetes 1.35 taints every device (resourceslice/tracker).
    selector = get_map(get_value(item, "spec", "deviceSelector"))
    # A malformed part of one is empty, which is the name of no device.
    given = (selector.get(key) for key in ("driver", "pool", "device"))
    driver, pool, device = (None if part is None else _text(part) for part in given)
    return RuleFacts(driver, pool, device, _taints([get_value(item, "spec", "taint")]))


_READERS: Final = {"Node": _node, "ResourceSlice": _slice, "ResourceClaim": _claim, "DeviceTaintRule": _rule}


def _taints(items: object) -> tuple[Taint, ...]:
    found = (
        (_text(get_value(item, "key")), _text(get_value(item, "value")), _text(get_value(item, "effect")))
        for item in get_list(items)[:_MOST_TAINTS]
    )
    return tuple(row for row in found if row[2] in EFFECTS)


def _value(item: object) -> str | None:
    """Return an attribute or a capacity as text; None for one that is malformed."""
    for field in ("string", "version", "value"):
        if isinstance(text := get_value(item, field), str):
            return text[:_LONGEST_NAME]
    for field in ("bool", "int"):
        if isinstance(value := get_value(item, field), int):
            return str(value)
    return None


def _text(value: object) -> str:
    return _shared(value[:_LONGEST_NAME]) if isinstance(value, str) else ""


_shared: Final = lru_cache(maxsize=4096)(str)
"""Returns the same object for equal texts: names of devices and drivers repeat in every node."""


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def facts_of(items: Iterable[Object]) -> tuple[Any, ...]:
    """Return the facts of objects, projected or whole."""
    return tuple(item[FACTS] if FACTS in item else project(item)[FACTS] for item in items)

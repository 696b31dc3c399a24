"""A cluster as it was looked at: its nodes, their devices and its gateway.

A cluster's answers are not trusted: a value that does not have the form that Kubernetes gives it is left out
and counted, and every list is bounded.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from modelplane.api import labels
from modelplane.api.fields.cluster.devices import DeviceAttribute
from modelplane.api.fields.cluster.node_pools import NodeTaint, NodeTaintEffect
from modelplane.api.meta import Object
from modelplane.api.schema.fields import (
    DNS_SUBDOMAIN,
    DRIVER_NAME,
    LABEL_VALUE,
    QUALIFIED_NAME,
    QUANTITY,
    SEMVER,
)
from modelplane.api.schema.untyped import get_list, get_map, get_value
from modelplane.cel import AttributeValue, Version

MOST_NODES: Final = 5000
"""As many as Kubernetes supports in a cluster (Considerations for large clusters)."""
MOST_SLICES: Final = 20_000
MOST_CLASSES: Final = 256
"""DeviceClasses, and GatewayClasses."""
_MOST_DEVICES: Final = 1024
"""Devices of a node."""
_MOST_ATTRIBUTES: Final = 32
"""Attributes and capacities of a device: as many as a ResourceSlice can have."""
_LONGEST_VALUE: Final = 253
_MOST_LISTENERS: Final = 64
"""As many as a Gateway can have."""

_ATTRIBUTE = re.compile(r"([a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}")
_VERSION = re.compile(r"v?[0-9]{1,4}\.[0-9]{1,4}[0-9A-Za-z.+-]{0,50}")
_UID = re.compile(r"[0-9A-Za-z-]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_PRINTABLE = re.compile(r"[ -~]*")
_TOLERATED = "nvidia.com/gpu"
"""Pods tolerate this taint without an entry in the node pool."""
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that Kubernetes sets and removes by itself."""

_NAME, _DRIVER, _LABEL = (re.compile(pattern) for pattern in (DNS_SUBDOMAIN, DRIVER_NAME, LABEL_VALUE))
_KEY, _QUANTITY, _SEMVER = (re.compile(pattern) for pattern in (QUALIFIED_NAME, QUANTITY, SEMVER))


def is_name(text: object) -> bool:
    """Return True for the name of an object."""
    return isinstance(text, str) and len(text) <= _LONGEST_VALUE and bool(_NAME.fullmatch(text))


def parse_version(text: object) -> str:
    """Return a version of Kubernetes; empty for what is none."""
    return text if isinstance(text, str) and _VERSION.fullmatch(text) else ""


def read_uid(item: Object | None) -> str:
    """Return the uid of an object; empty if it has none."""
    uid = get_value(item, "metadata", "uid")
    return uid if isinstance(uid, str) and _UID.fullmatch(uid) else ""


def is_staying(item: Object) -> bool:
    """Return True unless an object is being deleted."""
    return get_value(item, "metadata", "deletionTimestamp") is None


@dataclass(frozen=True, slots=True)
class Published:
    """A device as its driver publishes it. Keys without a domain belong to the driver."""

    driver: str
    attributes: Mapping[str, AttributeValue]
    capacity: Mapping[str, str]

    def read_text(self, name: str) -> str:
        """Return a string attribute; empty if the device has none."""
        value = self.attributes.get(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class through which pods claim devices."""

    name: str
    selectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A node, with what its labels and its devices say of its hardware."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    extended: Mapping[str, int] = field(default_factory=dict)
    """Allocatable GPUs as device plugins count them, by resource, such as ``nvidia.com/gpu``."""
    taints: tuple[NodeTaint, ...] = ()
    """Taints that pods need a toleration for."""
    is_ready: bool = True
    devices: tuple[Published, ...] = ()

    @property
    def pool(self) -> str:
        """The node pool that the node is labeled with; empty if it is in none."""
        return self.labels.get(labels.POOL, "")

    @property
    def machine_type(self) -> str:
        """The cloud's name of the machine; empty if it has none."""
        return self.labels.get("node.kubernetes.io/instance-type", "")

    @property
    def region(self) -> str:
        """The region; empty if it is not known."""
        return self.labels.get("topology.kubernetes.io/region", "")

    def read_number(self, label: str) -> int:
        """Return a number in a label; 0 if there is none."""
        text = self.labels.get(label, "")
        return int(text) if _NUMBER.fullmatch(text) else 0


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener of a Gateway, with the routes that it admits."""

    protocol: str
    namespaces: str
    """``All``, ``Same`` or ``Selector``."""
    match_labels: Mapping[str, str]
    """The labels of the namespaces that a selector admits; empty for another kind of selector."""
    kinds: tuple[str, ...]
    """The kinds of routes; empty for those of its protocol."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A Gateway, with its listeners in order."""

    has_address: bool
    listeners: tuple[Listener, ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """A cluster as registration sees it."""

    uid: str = ""
    """The uid of its namespace kube-system, by which clusters are told apart."""
    version: str = ""
    nodes: tuple[Node, ...] = ()
    device_classes: tuple[DeviceClass, ...] = ()
    dra_versions: tuple[str, ...] = ()
    """The served versions of resource.k8s.io."""
    definitions: frozenset[str] = frozenset()
    """The names of the CustomResourceDefinitions that were looked for and are there."""
    gateway: Gateway | None = None
    """The Gateway that replicas' routes attach to."""
    other_gateways: tuple[str, ...] = ()
    """Further Gateways, as ``namespace/name``."""
    gateway_controllers: frozenset[str] = frozenset()
    """The controllers that GatewayClasses name."""
    skipped: int = 0
    """Answers that were left out because they are malformed, or too many."""


def read_nodes(items: Sequence[Object], slices: Sequence[Object]) -> tuple[tuple[Node, ...], int]:
    """Return the nodes with the devices that drivers publish on them, and how much was left out."""
    skipped = max(len(items) - MOST_NODES, 0) + max(len(slices) - MOST_SLICES, 0)
    published, bad = _by_node(slices[:MOST_SLICES])
    nodes = []
    for item in items[:MOST_NODES]:
        name = get_value(item, "metadata", "name")
        if not is_name(name):
            skipped += 1
            continue
        nodes.append(_node(str(name), item, tuple(published.get(str(name), ()))))
    return tuple(sorted(nodes, key=lambda node: node.name)), skipped + bad


def read_device_classes(items: Sequence[Object]) -> tuple[DeviceClass, ...]:
    """Return the DeviceClasses, by name."""
    device_classes = []
    for item in items[:MOST_CLASSES]:
        name = get_value(item, "metadata", "name")
        selectors = [
            get_value(selector, "cel", "expression")
            for selector in get_list(get_value(item, "spec", "selectors"))
        ]
        if is_name(name) and all(isinstance(selector, str) for selector in selectors):
            device_classes.append(DeviceClass(str(name), tuple(map(str, selectors))))
    return tuple(sorted(device_classes, key=lambda device_class: device_class.name))


def read_gateway(item: Object) -> Gateway:
    """Return a Gateway."""
    addresses = (get_value(address, "value") for address in get_list(get_value(item, "status", "addresses")))
    listeners = get_list(get_value(item, "spec", "listeners"))[:_MOST_LISTENERS]
    return Gateway(any(isinstance(address, str) for address in addresses), tuple(map(_listener, listeners)))


def _listener(item: object) -> Listener:
    namespaces = get_value(item, "allowedRoutes", "namespaces")
    selector = get_map(get_value(namespaces, "selector"))
    match_labels = get_map(selector.get("matchLabels")) if not selector.get("matchExpressions") else {}
    kinds = (get_value(kind, "kind") for kind in get_list(get_value(item, "allowedRoutes", "kinds")))
    return Listener(
        str(get_value(item, "protocol")),
        str(get_value(namespaces, "from") or "Same"),
        {str(key): str(value) for key, value in match_labels.items()},
        tuple(map(str, kinds)),
    )


def list_gateways(items: Sequence[Object]) -> tuple[str, ...]:
    """Return the Gateways as ``namespace/name``."""
    named = (
        (get_value(item, "metadata", "namespace"), get_value(item, "metadata", "name"))
        for item in items[:MOST_NODES]
    )
    return tuple(sorted(f"{where}/{name}" for where, name in named if is_name(where) and is_name(name)))


def list_controllers(items: Sequence[Object]) -> frozenset[str]:
    """Return the controllers that GatewayClasses name."""
    named = (get_value(item, "spec", "controllerName") for item in items[:MOST_CLASSES])
    return frozenset(
        controller
        for controller in named
        if isinstance(controller, str) and len(controller) <= _LONGEST_VALUE
    )


def _node(name: str, item: Object, devices: tuple[Published, ...]) -> Node:
    node_labels = get_map(get_value(item, "metadata", "labels"))
    return Node(
        name,
        {
            key: str(value)
            for key, value in node_labels.items()
            if _is_label(value) and _KEY.fullmatch(str(key))
        },
        {
            key: int(value)
            for key, value in get_map(get_value(item, "status", "allocatable")).items()
            if key.startswith(("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu"))
            and _NUMBER.fullmatch(str(value))
            and int(value) > 0
        },
        tuple(_taints(get_list(get_value(item, "spec", "taints")))),
        any(
            get_value(condition, "type") == "Ready" and get_value(condition, "status") == "True"
            for condition in get_list(get_value(item, "status", "conditions"))
        ),
        devices,
    )


def _taints(items: Iterable[object]) -> Iterable[NodeTaint]:
    for item in items:
        key, value, effect = get_value(item, "key"), get_value(item, "value") or "", get_value(item, "effect")
        if not isinstance(key, str) or not _KEY.fullmatch(key) or not _is_label(value):
            continue
        if key == _TOLERATED or key.startswith(_PASSING) or effect not in set(NodeTaintEffect):
            continue
        yield NodeTaint(key=key, value=str(value), effect=NodeTaintEffect(str(effect)))


def _by_node(slices: Iterable[Object]) -> tuple[dict[str, list[Published]], int]:
    """Return the devices of each node, of the latest generation of each pool of devices."""
    latest: dict[tuple[str, str], int] = {}
    for item in slices:
        pool = _pool(item)
        latest[pool] = max(latest.get(pool, 0), _generation(item))
    by_node: dict[str, list[Published]] = {}
    skipped = 0
    for item in slices:
        node, driver = get_value(item, "spec", "nodeName"), get_value(item, "spec", "driver")
        if _generation(item) < latest[_pool(item)]:
            continue
        if not (is_name(node) and isinstance(driver, str) and _DRIVER.fullmatch(driver)):
            skipped += 1
            continue
        devices = by_node.setdefault(str(node), [])
        for published in get_list(get_value(item, "spec", "devices")):
            device = _device(driver, published)
            if device is None or len(devices) >= _MOST_DEVICES:
                skipped += 1
            else:
                devices.append(device)
    return by_node, skipped


def _pool(item: Object) -> tuple[str, str]:
    return str(get_value(item, "spec", "driver")), str(get_value(item, "spec", "pool", "name"))


def _generation(item: Object) -> int:
    value = get_value(item, "spec", "pool", "generation")
    return value if isinstance(value, int) else 0


def _device(driver: str, item: object) -> Published | None:
    """Return a device; None for a malformed one."""
    attributes = {
        _bare(driver, key): _value(attribute_value)
        for key, attribute_value in get_map(get_value(item, "attributes")).items()
    }
    capacity = {
        _bare(driver, key): get_value(quantity, "value")
        for key, quantity in get_map(get_value(item, "capacity")).items()
    }
    if len(attributes) > _MOST_ATTRIBUTES or len(capacity) > _MOST_ATTRIBUTES:
        return None
    amounts = {
        key: value
        for key, value in capacity.items()
        if isinstance(value, str) and len(value) <= 32 and _QUANTITY.fullmatch(value)
    }
    readable = {key: value for key, value in attributes.items() if value is not None}
    if not all(_ATTRIBUTE.fullmatch(key) for key in (*readable, *amounts)):
        return None
    return Published(driver, readable, amounts)


def _bare(driver: str, key: str) -> str:
    """Return a key without the domain, if that is the driver's own."""
    return key.removeprefix(f"{driver}/")


def _value(item: object) -> AttributeValue | None:
    """Return an attribute's value; None for one that is malformed, or of a type that classes do not have."""
    text, version = get_value(item, "string"), get_value(item, "version")
    if isinstance(text, str) and len(text) <= _LONGEST_VALUE and _PRINTABLE.fullmatch(text):
        return text
    if isinstance(version, str) and len(version) <= 32 and _SEMVER.fullmatch(version):
        return Version(version)
    for kind in ("bool", "int"):
        value = get_value(item, kind)
        if isinstance(value, int) and isinstance(value, bool) == (kind == "bool") and abs(value) < 2**63:
            return value
    return None


def convert_attribute(value: AttributeValue) -> DeviceAttribute:
    """Return a published value as a class declares it."""
    match value:
        case Version():
            return DeviceAttribute(version=value.text)
        case bool():
            return DeviceAttribute(boolean=value)
        case int():
            return DeviceAttribute(integer=value)
        case _:
            return DeviceAttribute(string=value)


def _is_label(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 63 and bool(_LABEL.fullmatch(value))

"""InferenceClasses of existing nodes: their devices, and the catalogue classes whose figures agree.

A class is taken only if the nodes have everything that it declares. A card that publishes less than the
catalogue says gets a class of its own.

Only what every device of an entry publishes is declared, and nothing that is a device's own, such as a uuid.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from modelplane import cel
from modelplane.api.fields.cluster.devices import Claim, Device, DeviceAttribute, DeviceCapacity
from modelplane.api.inference_class import InferenceClass
from modelplane.api.values import quantity
from modelplane.api.values.quantity import QuantityError
from modelplane.catalogue.descriptions import find_memory_mi
from modelplane.catalogue.entries import Card, Catalogue, Machine
from modelplane.catalogue.inference_classes import build_class
from modelplane.cel import AttributeValue
from modelplane.install.registration.observed import DeviceClass, Node, Published, convert_attribute

MOST_KINDS: Final = 16
"""Kinds of devices of a class."""
MOST_OF_A_KIND: Final = 64

_NOT_CLAIMED: Final = frozenset({"compute-domain.nvidia.com"})
"""Drivers whose devices pods claim by other means than a device request."""
_NETWORKS: Final = frozenset({"dra.net"})
"""Drivers of network cards, which a node without GPUs has too."""
_IDENTIFYING: Final = ("type", "productName", "profile", "model")
"""Attributes by which devices of one driver differ in kind."""
_OWN: Final = frozenset(
    {
        *("uuid", "UUID", "parentUUID", "serial", "index", "minor", "parentIndex", "parentMinor"),
        *("pciBusID", "pcieRoot", "pciAddr", "pciAddress", "numaNode", "cardIndex", "renderIndex"),
        *("driverVersion", "cudaDriverVersion", "driverSrcVersion"),
    }
)
"""Attributes of one device, or of the driver that is installed at present."""
_STANDARD_DOMAIN: Final = "resource.kubernetes.io/"
"""Attributes that Kubernetes standardizes: where in its node a device is."""

_PREFERRED: Final[Mapping[tuple[str, str], str]] = {
    ("gpu.nvidia.com", "mig"): "mig.nvidia.com",
    ("gpu.nvidia.com", "vfio"): "vfio.gpu.nvidia.com",
}
'""The DeviceClass that a driver\'s chart installs for a type of its devices; else it is named as the '
'driver.""'


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """Properties that devices share if they can be claimed instead of one another."""

    driver: str
    device_class: str
    """Empty if no DeviceClass of the cluster selects the devices."""
    identity: tuple[tuple[str, str], ...]
    capacity: tuple[tuple[str, str], ...]

    @property
    def words(self) -> str:
        """The kind as names have it: product or model, and profile."""
        named = dict(self.identity)
        product = (
            named.get("productName") or named.get("model") or named.get("type") or self.driver.split(".")[0]
        )
        return " ".join(filter(None, (product, named.get("profile", ""))))


Signature = tuple[tuple[Kind, int], ...]
"""The devices of a node: each kind, with the number of such devices."""


def is_accelerator(driver: str) -> bool:
    """Return True unless nodes without GPUs have devices of the driver too."""
    return driver not in _NETWORKS | _NOT_CLAIMED


DeviceClassOf = Callable[[Published], str]
"""Returns the DeviceClass to claim a device through; empty if none of the cluster selects it."""


def match_kinds(node: Node, class_of: DeviceClassOf) -> list[tuple[Kind, Published]]:
    """Return the devices of a node that a class declares, each with its kind."""
    matches = []
    for device in node.devices:
        if device.driver in _NOT_CLAIMED:
            continue
        if device.driver in _NETWORKS and device.attributes.get("rdma") is not True:
            continue
        matches.append((Kind(device.driver, class_of(device), *_likeness(device)), device))
    return matches


def _likeness(device: Published) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return what tells the kinds of devices of a driver apart."""
    identity = tuple((name, text) for name in _IDENTIFYING if (text := device.read_text(name)))
    return identity, tuple(sorted(device.capacity.items()))


def compute_signature(kinds: Iterable[Kind]) -> Signature:
    """Return how many devices of each kind a node has; none if it has no accelerator."""
    counted = Counter(kinds)
    if not any(is_accelerator(kind.driver) for kind in counted):
        return ()
    return tuple(sorted(counted.items()))[:MOST_KINDS]


def build_entries(counted: Signature, devices: Iterable[tuple[Kind, Published]]) -> tuple[Device, ...]:
    """Return the entries of a class, with the attributes that all devices of a kind share."""
    by_kind: dict[Kind, list[Published]] = {kind: [] for kind, _ in counted}
    for kind, device in devices:
        if kind in by_kind:
            by_kind[kind].append(device)
    names: set[str] = set()
    built = []
    for kind, count in counted:
        name = _name(kind, names)
        names.add(name)
        built.append(
            Device(
                name=name,
                driver=kind.driver,
                device_class_name=kind.device_class or kind.driver.lower(),
                count=min(count, MOST_OF_A_KIND),
                attributes={
                    key: convert_attribute(value) for key, value in find_shared(by_kind[kind]).items()
                },
                capacity={key: DeviceCapacity(value=value) for key, value in kind.capacity},
            )
        )
    return tuple(built)


def find_shared(devices: Sequence[Published]) -> dict[str, AttributeValue]:
    """Return the attributes that all devices have with the same value, without those of a device's own."""
    first, *others = devices
    return {
        key: value
        for key, value in sorted(first.attributes.items())
        if key.rpartition("/")[2] not in _OWN
        and not key.startswith(_STANDARD_DOMAIN)
        and all(key in other.attributes and other.attributes[key] == value for other in others)
    }


def _name(kind: Kind, taken: set[str]) -> str:
    profile = dict(kind.identity).get("profile", "")
    name = format_slug(f"mig-{profile}" if profile else kind.driver.partition(".")[0], 50)
    places = (f"{name}-{place}" for place in range(1, MOST_KINDS + 1))
    return name if name not in taken else next(candidate for candidate in places if candidate not in taken)


def format_slug(text: str, longest: int) -> str:
    """Return a text as a DNS label: lower-case letters, digits and hyphens."""
    plain = "".join(
        character if character.isascii() and character.isalnum() else "-" for character in text.lower()
    )
    return "-".join(filter(None, plain.split("-")))[:longest].strip("-") or "devices"


def choose_device_class(classes: Iterable[DeviceClass]) -> DeviceClassOf:
    """Return the choice of a DeviceClass among those of a cluster, which is made once for each kind."""
    selectors = {device_class.name: _compiled(device_class.selectors) for device_class in classes}
    choices: dict[object, str] = {}

    def choose(device: Published) -> str:
        key = (device.driver, *_likeness(device))
        if key not in choices:
            fitting = {
                name: chosen
                for name, chosen in selectors.items()
                if chosen is not None
                and all(isinstance(selector.evaluate(device), cel.Match) for selector in chosen)
            }
            choices[key] = _chosen(device, fitting)
        return choices[key]

    return choose


def _chosen(device: Published, fitting: Mapping[str, tuple[cel.Selector, ...]]) -> str:
    preferred = _PREFERRED.get((device.driver, device.read_text("type")), device.driver)
    if preferred in fitting:
        return preferred
    # One without selectors selects every device.
    return min(fitting, key=lambda name: (not fitting[name], name), default="")


def _compiled(selectors: Iterable[str]) -> tuple[cel.Selector, ...] | None:
    """Return the selectors of a class; None if one cannot be read."""
    try:
        return tuple(map(cel.compile, selectors))
    except cel.SelectorError:
        return None


_NVIDIA: Final = "nvidia.com"
_MIG: Final = "-MIG-"
"""Between the product and the profile in the label of a node whose GPUs are all divided alike."""


@dataclass(frozen=True, slots=True, order=True)
class Labeled:
    """GPUs of a node without DRA, as the labels of GPU feature discovery describe them."""

    vendor: str
    product: str
    """With hyphens for spaces, as labels have it."""
    profile: str
    count: int
    memory_mi: int
    """0 if no label says it."""


class CatalogueClasses:
    """The classes of the catalogue, to find those of nodes among them."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._classes = [
            (machine, build_class(catalogue, machine)) for machine in catalogue.machines.values()
        ]

    def find_by_devices(
        self, node: Node, counted: Signature, devices: Sequence[tuple[Kind, Published]]
    ) -> InferenceClass | None:
        """Return the class whose devices a node publishes; None if there is none."""
        by_kind: dict[Kind, list[Published]] = {kind: [] for kind, _ in counted}
        for kind, device in devices:
            if kind in by_kind:
                by_kind[kind].append(device)
        published = [(kind, count, find_shared(by_kind[kind])) for kind, count in counted]
        return self._best(
            node, (pair for pair in self._classes if _declares(pair[1].spec.devices, published))
        )

    def find_by_labels(self, node: Node, gpus: Labeled) -> InferenceClass | None:
        """Return the class that a node's labels tell; None if there is none."""
        fitting = (
            (machine, described_class)
            for machine, described_class in self._classes
            if self._is_labeled(machine, gpus)
            and not 0 < gpus.memory_mi < find_memory_mi(self._catalogue, machine)
        )
        return self._best(node, fitting)

    def find_card(self, gpus: Labeled) -> Card | None:
        """Return the card that labels name; None for one that is not in the catalogue."""
        return next((card for card in self._catalogue.cards.values() if _product(card) == gpus.product), None)

    def _is_labeled(self, machine: Machine, gpus: Labeled) -> bool:
        card, partition = self._catalogue.find_card(machine), self._catalogue.find_partition(machine)
        count = machine.count * (partition.per_card if partition else 1)
        shown = (_product(card), machine.partition or "", count)
        return card.product is not None and shown == (gpus.product, gpus.profile, gpus.count)

    def _best(self, node: Node, fitting: Iterable[tuple[Machine, InferenceClass]]) -> InferenceClass | None:
        """Return the class of the node's own machine type, else that of nodes that exist already."""
        candidates = list(fitting)
        of_type = [
            candidate
            for machine, candidate in candidates
            if machine.type and machine.type == node.machine_type
        ]
        # Nothing on a node tells its InfiniBand cards.
        own = [
            candidate
            for machine, candidate in candidates
            if machine.cloud is None and machine.infiniband is None
        ]
        return next(iter((*of_type, *own)), None)


def _product(card: Card) -> str:
    return (card.product or "").replace(" ", "-")


def _declares(
    declared: Iterable[Device], published: Sequence[tuple[Kind, int, Mapping[str, AttributeValue]]]
) -> bool:
    """Return True if devices are declared that a node publishes, each of them and no others."""
    claimed = [device for device in declared if device.claim is Claim.DRA]
    return len(claimed) == len(published) and all(
        any(_agree(device, kind, count, attributes) for kind, count, attributes in published)
        for device in claimed
    )


def _agree(declared: Device, kind: Kind, count: int, attributes: Mapping[str, AttributeValue]) -> bool:
    converted = {key: convert_attribute(value) for key, value in attributes.items()}
    capacity = dict(kind.capacity)
    return (
        (declared.driver, declared.count) == (kind.driver, count)
        and kind.device_class in ("", declared.device_class_name)
        and all(converted.get(key) == value for key, value in declared.attributes.items())
        and all(_at_least(capacity.get(key, "0"), amount.value) for key, amount in declared.capacity.items())
    )


def _at_least(published: str, declared: str) -> bool:
    try:
        return quantity.parse(published).nano >= quantity.parse(declared).nano
    except QuantityError:
        return False


def count_labeled(node: Node) -> Labeled | None:
    """Return the GPUs that device plugins count on a node; None if it has none, or different ones."""
    if amd := node.extended.get("amd.com/gpu"):
        return Labeled("AMD", node.labels.get("amd.com/gpu.product-name", ""), "", amd, 0)
    if not node.extended:
        return None
    product = node.labels.get(f"{_NVIDIA}/gpu.product", "").removesuffix("-SHARED")
    product, _, profile = product.partition(_MIG)
    memory = node.read_number(f"{_NVIDIA}/gpu.memory")
    count = node.read_number(f"{_NVIDIA}/gpu.count") or node.extended.get(f"{_NVIDIA}/gpu", 0)
    if profile:
        return Labeled("NVIDIA", product, profile, node.extended.get(f"{_NVIDIA}/gpu", 0), memory)
    divided = {key: count for key, count in node.extended.items() if key.startswith(f"{_NVIDIA}/mig-")}
    if not divided:
        return Labeled("NVIDIA", product, "", count, memory)
    if len(divided) > 1 or node.extended.get(f"{_NVIDIA}/gpu"):
        return None
    [(resource, count)] = divided.items()
    profile = resource.removeprefix(f"{_NVIDIA}/mig-")
    return Labeled("NVIDIA", product, profile, count, node.read_number(f"{resource}.memory"))


def describe_labeled(gpus: Labeled, card: Card | None, capability: str) -> Device | None:
    """Return GPUs as their driver will publish them; None if labels do not say how much memory they have."""
    if gpus.vendor != "NVIDIA" or not (gpus.memory_mi and gpus.count):
        return None
    texts = {"type": "mig" if gpus.profile else "gpu", "profile": gpus.profile}
    if card is not None:
        texts |= {"productName": card.product or "", "architecture": card.architecture}
        capability = card.capability or capability
    attributes = {key: DeviceAttribute(string=text) for key, text in texts.items() if text}
    if capability:
        attributes["cudaComputeCapability"] = DeviceAttribute(version=capability)
    return Device(
        name=format_slug(f"mig-{gpus.profile}", 50) if gpus.profile else "gpu",
        driver="gpu.nvidia.com",
        device_class_name="mig.nvidia.com" if gpus.profile else "gpu.nvidia.com",
        count=min(gpus.count, 64),
        attributes=attributes,
        capacity={"memory": DeviceCapacity(value=f"{gpus.memory_mi}Mi")},
    )

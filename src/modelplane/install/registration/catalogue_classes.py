"""Catalogue classes for nodes that exist: those whose figures agree with what the nodes show.

A class is taken only if the nodes have everything that it declares. A card that publishes less than the
catalogue says gets a class of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from modelplane.api.fields.cluster.devices import Claim, Device, DeviceAttribute, DeviceCapacity
from modelplane.api.inference_class import InferenceClass
from modelplane.catalogue.descriptions import find_memory_mi
from modelplane.catalogue.entries import Card, Catalogue, Machine
from modelplane.catalogue.inference_classes import build_class
from modelplane.cel import AttributeValue, QuantityError
from modelplane.cel.value_types import quantity
from modelplane.install.registration.node_devices import Kind, Signature, find_shared, format_slug
from modelplane.install.registration.observed import Node, Published, convert_attribute

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
        cards = self._catalogue.cards.values()
        return next((card for card in cards if _product(card) == gpus.product), None)

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

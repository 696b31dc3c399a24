"""Entries of the catalogue: the schema of its files.

An entry states only figures that have a source. A figure that was never confirmed is named in
``unverified``; a figure that is unknown is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.cloud_settings import DiskSizeGb
from modelplane.api.fields.cluster.node_pools import NodeTaint
from modelplane.api.inference_class import AcceleratorType, DriversPreset
from modelplane.api.schema.fields import DNS_LABEL, SEMVER

Name = Annotated[str, Meta(max_length=63, pattern=DNS_LABEL)]
Text = Annotated[str, Meta(min_length=1, max_length=253)]
Count = Annotated[int, Meta(ge=1, le=64)]
Mebibytes = Annotated[int, Meta(ge=1, le=2**20)]
SourceName = Annotated[str, Meta(pattern="^[A-Z]$")]

UNVERIFIED: Final = "U"
"""The source of figures that were never confirmed."""


class Figure(StrEnum):
    """A figure that can be unverified."""

    ACCELERATOR = "accelerator"
    COUNT = "count"
    FABRIC = "fabric"
    MEMORY = "memory"
    PRODUCT = "productName"
    TYPE = "machineType"


class Entry(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Part of a file; an unknown field is an error."""


class Source(Entry, frozen=True, kw_only=True):
    """The origin of figures."""

    text: Text
    date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")] = ""
    """Date of the version that was read; empty if it has none."""


class Partition(Entry, frozen=True, kw_only=True):
    """A MIG profile of a card."""

    profile: Annotated[str, Meta(pattern=r"^[1-7]g\.[0-9]+gb$")]
    per_card: Annotated[int, Meta(ge=1, le=7)]
    memory_mi: Mebibytes
    """The least that driver versions publish."""
    sources: Annotated[tuple[SourceName, ...], Meta(min_length=1)]
    unverified: tuple[Figure, ...] = ()


class Card(Entry, frozen=True, kw_only=True):
    """A GPU, as its DRA driver publishes it."""

    name: Name
    title: Text
    vendor: Literal["NVIDIA", "AMD"]
    product: Text | None = None
    """Attribute ``productName``; absent if the full name is unknown."""
    memory_mi: Mebibytes
    """Capacity ``memory``, the highest of several."""
    nominal_gi: Annotated[tuple[Annotated[int, Meta(ge=1, le=1024)], ...], Meta(min_length=1)]
    """The sizes by which the card is sold and its memory is asked for."""
    architecture: Text
    """Attribute ``architecture`` of NVIDIA's driver; AMD's has none."""
    capability: Annotated[str, Meta(pattern=SEMVER)] | None = None
    """Attribute ``cudaComputeCapability``."""
    attributes: dict[Text, Text] = {}
    """Further attributes of its driver, each a string."""
    capacity: dict[Text, Text] = {}
    """Further capacities of its driver."""
    nvlink: Literal["node"] | Annotated[int, Meta(ge=2, le=576)] | None = None
    """The GPUs that NVLink joins: all of a node, or this number across nodes. No driver publishes it."""
    cpu: Literal["amd64", "arm64"] = "amd64"
    """Architecture of the processor, if the card is one module with it."""
    partitions: tuple[Partition, ...] = ()
    note: Text | None = None
    sources: Annotated[tuple[SourceName, ...], Meta(min_length=1)]
    unverified: tuple[Figure, ...] = ()


class InfiniBand(Entry, frozen=True, kw_only=True):
    """The InfiniBand cards of a machine."""

    count: Count
    speed_gbps: Annotated[int, Meta(ge=1)]


class Machine(Entry, frozen=True, kw_only=True):
    """A type of node: the cards in it and its network, and its name in a cloud."""

    name: Name
    """Name of the InferenceClass."""
    cloud: Cloud | None = None
    """Absent for nodes that exist already."""
    type: Text | None = None
    """Machine type, instance type, VM size, platform or plan, as the cloud calls it."""
    preset: Text | None = None
    """Shape within the platform (Nebius)."""
    drivers_preset: DriversPreset = "cuda13.0"
    accelerator: AcceleratorType | None = None
    disk_size_gb: DiskSizeGb = 100
    card: Name
    count: Annotated[int, Meta(ge=1, le=16)]
    partition: Text | None = None
    """MIG profile that every card is divided into."""
    efa: Count | None = None
    """EFA devices."""
    infiniband: InfiniBand | None = None
    taints: tuple[NodeTaint, ...] = ()
    """Taints of the nodes beside those of its cloud."""
    note: Text | None = None
    sources: Annotated[tuple[SourceName, ...], Meta(min_length=1)]
    unverified: tuple[Figure, ...] = ()


class Cards(Entry, frozen=True, kw_only=True):
    """The file ``cards.yaml``."""

    sources: dict[SourceName, Source]
    cards: tuple[Card, ...]


class Machines(Entry, frozen=True, kw_only=True):
    """The file ``machines.yaml``."""

    taints: dict[Cloud, tuple[NodeTaint, ...]]
    """Taints of the GPU nodes of each cloud."""
    machines: tuple[Machine, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The content of the files, by name."""

    sources: Mapping[str, Source]
    cards: Mapping[str, Card]
    machines: Mapping[str, Machine]
    taints: Mapping[Cloud, tuple[NodeTaint, ...]]
    """Taints of the GPU nodes of each cloud."""

    def find_card(self, machine: Machine) -> Card:
        """Return the card of a machine."""
        return self.cards[machine.card]

    def find_partition(self, machine: Machine) -> Partition | None:
        """Return the MIG profile of a machine's cards; None if they are whole."""
        if machine.partition is None:
            return None
        return next(
            partition
            for partition in self.find_card(machine).partitions
            if partition.profile == machine.partition
        )

"""Descriptions of catalogue entries, for people: summaries, sources and taints."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from modelplane.api.fields.cluster.node_pools import NodeTaint
from modelplane.api.report_tables import Columns
from modelplane.catalogue.cards import MI_PER_GI
from modelplane.catalogue.entries import UNVERIFIED, Catalogue, Figure, Machine

_TOLERATED = "nvidia.com/gpu"
"""Pods tolerate this taint without an entry in the node pool."""

OWN = "own"
"""The cloud of nodes that exist already, in tables and filters."""


def name_machine(machine: Machine) -> str:
    """Return the cloud's name of a machine; empty for nodes that exist already."""
    return " ".join(filter(None, (machine.type, machine.preset)))


def describe_devices(catalogue: Catalogue, machine: Machine) -> str:
    """Return the number of devices of a node, and what they are."""
    card, partition = catalogue.find_card(machine), catalogue.find_partition(machine)
    if partition is None:
        return f"{machine.count} {card.title}"
    return f"{machine.count * partition.per_card} {card.title} MIG {partition.profile}"


def find_memory_mi(catalogue: Catalogue, machine: Machine) -> int:
    """Return the memory of each device."""
    partition = catalogue.find_partition(machine)
    return catalogue.find_card(machine).memory_mi if partition is None else partition.memory_mi


def count_nvlink_gpus(catalogue: Catalogue, machine: Machine) -> int:
    """Return the number of GPUs that NVLink joins; 1 if it joins none."""
    card = catalogue.find_card(machine)
    if card.nvlink is None or machine.partition is not None:
        return 1
    return machine.count if card.nvlink == "node" else card.nvlink


def describe_fabric(catalogue: Catalogue, machine: Machine) -> str:
    """Return the networks between GPUs and between nodes; empty if none is known."""
    joined, infiniband = count_nvlink_gpus(catalogue, machine), machine.infiniband
    networks = (
        f"NVLink {joined}" if joined > 1 else "",
        f"EFA {machine.efa}" if machine.efa else "",
        f"InfiniBand {infiniband.count}x{infiniband.speed_gbps}" if infiniband else "",
    )
    return ", ".join(filter(None, networks))


def describe_machine(catalogue: Catalogue, machine: Machine) -> str:
    """Return a machine in one line."""
    named = f"{machine.cloud} {name_machine(machine)}" if machine.cloud else ""
    return ", ".join(
        filter(None, (describe_devices(catalogue, machine), describe_fabric(catalogue, machine), named))
    )


def list_unverified(catalogue: Catalogue, machine: Machine) -> tuple[Figure, ...]:
    """Return the figures of a class that were never confirmed."""
    partition = catalogue.find_partition(machine)
    entries = (machine, catalogue.find_card(machine)) if partition is None else (machine, partition)
    return tuple(sorted({figure for entry in entries for figure in entry.unverified}))


def list_sources(catalogue: Catalogue, machine: Machine) -> tuple[str, ...]:
    """Return the sources of an entry's figures."""
    entries = (machine, catalogue.find_card(machine), catalogue.find_partition(machine))
    return tuple(sorted({source for entry in entries if entry is not None for source in entry.sources}))


def list_taints(catalogue: Catalogue, machine: Machine) -> tuple[NodeTaint, ...]:
    """Return the taints of a machine's nodes."""
    return (*(catalogue.taints.get(machine.cloud, ()) if machine.cloud else ()), *machine.taints)


class Listed(Struct, frozen=True, kw_only=True, rename="camel"):
    """A class as ``modelplane classes list`` shows it."""

    name: str
    cloud: str
    machine: str
    card: str
    devices: str
    memory_each: str
    fabric: str
    taints: tuple[str, ...]
    sources: tuple[str, ...]
    unverified: tuple[Figure, ...]

    @property
    def source(self) -> str:
        """The letters of the sources, and the unverified figures."""
        letters = [letter for letter in self.sources if letter != UNVERIFIED]
        doubts = [f"{UNVERIFIED}: {', '.join(self.unverified)}"] if self.unverified else []
        return "; ".join(filter(None, (" ".join(letters), *doubts)))


CLASSES: Final = Columns[Listed](
    ("NAME", lambda listed: listed.name),
    ("CLOUD", lambda listed: listed.cloud),
    ("MACHINE", lambda listed: listed.machine or "-"),
    ("DEVICES", lambda listed: listed.devices),
    ("MEMORY EACH", lambda listed: listed.memory_each),
    ("FABRIC", lambda listed: listed.fabric or "-"),
    ("SOURCE", lambda listed: listed.source or "-"),
)


def join_cells(listed: Listed) -> str:
    """Return the texts of the row of a class, to search in."""
    return " ".join(cell for row in CLASSES.tabulate("", [listed]).rows for cell in row)


def describe_class(catalogue: Catalogue, machine: Machine) -> Listed:
    """Return a class for a list."""
    return Listed(
        name=machine.name,
        cloud=OWN if machine.cloud is None else str(machine.cloud),
        machine=name_machine(machine),
        card=catalogue.find_card(machine).title,
        devices=describe_devices(catalogue, machine),
        memory_each=f"{find_memory_mi(catalogue, machine)}Mi",
        fabric=describe_fabric(catalogue, machine),
        taints=tuple(map(format_taint, list_taints(catalogue, machine))),
        sources=list_sources(catalogue, machine),
        unverified=list_unverified(catalogue, machine),
    )


def list_comments(catalogue: Catalogue, machine: Machine) -> Iterator[str]:
    """Yield what a class cannot hold: its sources, doubts, taints and notes."""
    memory = find_memory_mi(catalogue, machine)
    yield f"Memory: the driver publishes {memory}Mi, so selectors ask for at most {memory // MI_PER_GI}Gi."
    for name in list_sources(catalogue, machine):
        source = catalogue.sources[name]
        yield f"Source {name}: {source.text}{f' ({source.date})' if source.date else ''}."
    if doubts := list_unverified(catalogue, machine):
        yield f"Unverified: {', '.join(doubts)}. Compare with `kubectl get resourceslices -o yaml` of a node."
    card = catalogue.find_card(machine)
    if card.cpu != "amd64":
        yield f"Nodes are {card.cpu}: images must support it."
    for taint in list_taints(catalogue, machine):
        remedy = "Pods tolerate it" if taint.key == _TOLERATED else "List it in the taints of the node pool"
        yield f"Taint of the nodes: {format_taint(taint)}. {remedy}."
    yield from (entry.note for entry in (card, machine) if entry.note is not None)


def format_taint(taint: NodeTaint) -> str:
    """Return a taint as kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"

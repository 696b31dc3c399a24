"""Hardware of a cluster: the InferenceClasses of its GPU nodes, and the node pools."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from modelplane.api import labels
from modelplane.api.fields.cluster.devices import Device
from modelplane.api.fields.cluster.node_pools import NodePool
from modelplane.api.inference_class import InferenceClass, InferenceClassSpec
from modelplane.api.listing import count_noun, listing
from modelplane.api.meta import ObjectMeta
from modelplane.catalogue.entries import Catalogue
from modelplane.install.registration import node_classes, node_classes as device_kinds
from modelplane.install.registration.node_classes import (
    CatalogueClasses,
    Kind,
    Labeled,
    Signature,
    format_slug,
)
from modelplane.install.registration.observed import Node, Observed, Published

MOST_POOLS: Final = 8
_MOST_TAINTS: Final = 16
_LONGEST_POOL: Final = 40
_LONGEST_CLASS: Final = 63


@dataclass(frozen=True, slots=True)
class Pool:
    """A node pool and the nodes of it."""

    name: str
    class_name: str
    nodes: tuple[Node, ...]

    @property
    def unlabeled(self) -> tuple[str, ...]:
        """The nodes that do not have the label of the pool yet."""
        return tuple(node.name for node in self.nodes if node.pool != self.name)

    def __str__(self) -> str:
        """The pool as a line for people."""
        nodes = count_noun(len(self.nodes), "node")
        return f'pool "{self.name}": {nodes} of InferenceClass "{self.class_name}"'

    def build_spec(self) -> NodePool:
        """Return the pool as an InferenceCluster lists it."""
        taints = {taint: None for node in self.nodes for taint in node.taints}
        by_key = {(declared.key, declared.effect): declared for declared in taints}
        return NodePool(
            name=self.name,
            class_name=self.class_name,
            node_count=len(self.nodes),
            taints=tuple(sorted(by_key.values(), key=lambda taint: (taint.key, str(taint.effect))))[
                :_MOST_TAINTS
            ],
        )


@dataclass(frozen=True, slots=True)
class Hardware:
    """The classes and pools of a cluster, and what was noticed."""

    classes: tuple[InferenceClass, ...] = ()
    pools: tuple[Pool, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons for which the cluster cannot be registered."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A GPU node with the class that it belongs to."""

    node: Node
    catalogue_class: InferenceClass | None
    counted: Signature = ()
    devices: tuple[tuple[Kind, Published], ...] = ()
    labeled: Labeled | None = None

    @property
    def likeness(self) -> object:
        """Equal for nodes of one class."""
        return self.catalogue_class.metadata.name if self.catalogue_class else (self.counted, self.labeled)


@dataclass(slots=True)
class _Group:
    """Nodes of one pool."""

    members: list[_Member] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The label that its nodes have already."""
        return self.members[0].node.pool


def describe_hardware(cluster: str, observed: Observed, catalogue: Catalogue) -> Hardware:
    """Return the classes and pools that describe a cluster's GPU nodes."""
    of_catalogue = CatalogueClasses(catalogue)
    members, notes = _members(observed, of_catalogue)
    if not members:
        return Hardware(notes=tuple(notes), problems=(_no_gpus(observed),))
    groups, problems = _groups(members)
    if len(groups) > MOST_POOLS:
        left_out = groups[MOST_POOLS:]
        count = sum(len(group.members) for group in left_out)
        left = listing(member.node.name for group in left_out for member in group.members)
        notes.append(
            f"the nodes are of {len(groups)} kinds, and a cluster can have at most {MOST_POOLS} pools: "
            f"{count} nodes are left out, {left}"
        )
    classes: dict[str, InferenceClass] = {}
    names: dict[object, str] = {}
    pools: list[Pool] = []
    taken = {group.label for group in groups}
    for group in groups[:MOST_POOLS]:
        likeness = group.members[0].likeness
        if likeness not in names:
            alike = [member for other in groups for member in other.members if member.likeness == likeness]
            made = _class(cluster, alike, of_catalogue, set(classes))
            names[likeness] = made.metadata.name
            classes[made.metadata.name] = made
            notes += _doubts(made, alike)
        # The name of a class may begin with the name of the cluster.
        name = group.label or _free(
            names[likeness].removeprefix(f"{format_slug(cluster, _LONGEST_CLASS)}-"), taken, _LONGEST_POOL
        )
        taken.add(name)
        pools.append(Pool(name, names[likeness], tuple(member.node for member in group.members)))
    return Hardware(tuple(classes.values()), tuple(pools), tuple(notes), tuple(problems))


def _members(observed: Observed, of_catalogue: CatalogueClasses) -> tuple[list[_Member], list[str]]:
    class_of = device_kinds.choose_device_class(observed.device_classes)
    members: list[_Member] = []
    unknown: list[str] = []
    for node in observed.nodes:
        devices = tuple(device_kinds.match_kinds(node, class_of))
        counted = device_kinds.compute_signature(kind for kind, _ in devices)
        if counted:
            of_devices = of_catalogue.find_by_devices(node, counted, devices)
            members.append(_Member(node, of_devices, counted, devices))
        elif node.extended:
            gpus = node_classes.count_labeled(node)
            of_labels = of_catalogue.find_by_labels(node, gpus) if gpus else None
            if of_labels or (gpus and node_classes.describe_labeled(gpus, None, "")):
                members.append(_Member(node, of_labels, labeled=gpus))
            else:
                unknown.append(node.name)
    if not unknown:
        return members, []
    note = (
        f"no driver publishes the GPUs of {count_noun(len(unknown), 'node')}, and no label describes the "
        f"GPUs, so these nodes are left out: {listing(unknown)}: install the GPUs' DRA driver, and "
        "register the cluster again"
    )
    return members, [note]


def _groups(members: Iterable[_Member]) -> tuple[list[_Group], list[str]]:
    """Return the nodes by pool, the largest first, and why some cannot be one."""
    by_key: dict[object, _Group] = {}
    pools: dict[object, object] = {}
    # Those in a pool first: the others join it.
    for member in sorted(members, key=lambda member: not member.node.pool):
        alike, pool = (member.likeness, member.node.taints), member.node.pool
        joined = pools.setdefault(alike, pool or alike)
        by_key.setdefault(pool or joined, _Group()).members.append(member)
    problems = []
    for group in by_key.values():
        first = group.members[0]
        others = [other.node.name for other in group.members if other.likeness != first.likeness]
        if others:
            problems.append(
                f'nodes with label {labels.POOL}={group.label} have different devices: "{first.node.name}" '
                f'and "{others[0]}": give one of them another pool, with `kubectl label node {others[0]} '
                f"{labels.POOL}=NAME --overwrite`"
            )
        if len(group.label) > _LONGEST_POOL:
            problems.append(
                f'node "{first.node.name}" has label {labels.POOL}={group.label}, and a pool name can have '
                f"at most {_LONGEST_POOL} characters: choose a shorter name"
            )
    ordered = sorted(by_key.values(), key=lambda group: (-len(group.members), group.members[0].node.name))
    return ordered, problems


def _class(
    cluster: str, alike: Sequence[_Member], of_catalogue: CatalogueClasses, taken: set[str]
) -> InferenceClass:
    """Return the class of nodes that are alike: of the catalogue, or of their own figures."""
    first = alike[0]
    if first.catalogue_class is not None:
        return first.catalogue_class
    if first.labeled is not None:
        node, gpus = first.node, first.labeled
        major, minor = (node.read_number(f"nvidia.com/gpu.compute.{part}") for part in ("major", "minor"))
        device = node_classes.describe_labeled(
            gpus, of_catalogue.find_card(gpus), f"{major}.{minor}.0" if major else ""
        )
        entries: tuple[Device, ...] = (device,) if device else ()
        words, count, source = f"{gpus.product} {gpus.profile}", gpus.count, "the labels of nodes"
    else:
        entries = device_kinds.build_entries(
            first.counted, (pair for member in alike for pair in member.devices)
        )
        kind, count = next(pair for pair in first.counted if device_kinds.is_accelerator(pair[0].driver))
        words, source = kind.words, "the ResourceSlices"
    name = _free(f"{format_slug(f'{cluster}-{words}', _LONGEST_CLASS - 8)}-{count}x", taken, _LONGEST_CLASS)
    return InferenceClass(
        metadata=ObjectMeta(name=name),
        spec=InferenceClassSpec(
            description=f'{count} {words.strip()}, from {source} of cluster "{cluster}"', devices=entries
        ),
    )


def _doubts(made: InferenceClass, alike: Sequence[_Member]) -> list[str]:
    """Return what a reader of a class should compare."""
    name, first = made.metadata.name, alike[0]
    notes = []
    if first.labeled is not None:
        notes.append(
            f'InferenceClass "{name}" was created from labels, because no driver publishes the devices '
            "yet: once the DRA driver is running, compare the class with `kubectl get resourceslices -o "
            "yaml`"
        )
    if missing := sorted({kind.driver for kind, _ in first.counted if not kind.device_class}):
        notes.append(
            f"no DeviceClass on the cluster selects the devices of driver {listing(missing)}, so pods "
            f'can\'t claim them: create the DeviceClass that InferenceClass "{name}" names'
        )
    if any(count > device_kinds.MOST_OF_A_KIND for _, count in first.counted):
        notes.append(
            f'InferenceClass "{name}" declares {device_kinds.MOST_OF_A_KIND} devices of a kind, the '
            "maximum, and the nodes have more"
        )
    if first.counted and any(member.node.extended for member in alike):
        notes.append(
            "a device plugin also offers the nodes' GPUs, so two pods can receive the same GPU: remove the "
            "device plugin from these nodes, or don't run pods there that request nvidia.com/gpu or "
            "amd.com/gpu"
        )
    return notes


def _no_gpus(observed: Observed) -> str:
    return (
        f"none of {count_noun(len(observed.nodes), 'node')} publishes devices that models can claim, or has "
        "nvidia.com/gpu or amd.com/gpu with labels that describe the GPU: install your GPUs' driver and "
        "DRA driver, and register the cluster again"
    )


def _free(name: str, taken: set[str], longest: int) -> str:
    names = (name, *(f"{name[: longest - 4]}-{place}" for place in range(2, 1000)))
    return next(name for name in (text[:longest].strip("-") for text in names) if name not in taken)

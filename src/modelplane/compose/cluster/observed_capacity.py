"""Observed capacity: what new replicas may use of a declared pool, from the nodes and devices of its cluster.

A node counts if it has the label of the pool, is Ready and schedulable, and has no taint that the pods of the
pool do not tolerate. Its devices are those of the newest complete generation of its ResourceSlices, without
those that are tainted, by their slice or by a DeviceTaintRule, that the pod of a replica reports as
unhealthy, or that other pods than those of replicas hold.

No label tells the pods of replicas from others, because a tenant of the cluster could forge it. Devices that
are held in a namespace count as held by its replicas, up to the number that its replicas on the cluster were
given; what is beyond is held by others.

What cannot be counted is ``Blocked``, never zero: no node with the label in a pool that does not grow, no
ResourceSlice of a driver on any node, or an incomplete generation.

A report has an ID: driver, pool and name of the device, or an ID of the Container Device Interface, which a
driver may choose freely. A report counts only for a device that the pod itself holds. One whose ID names none
of these counts for one of them: the number is right then, though the device may be another.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from modelplane.api import labels
from modelplane.api.fields.cluster.devices import Claim, Device
from modelplane.api.fields.cluster.node_pools import NodePool, NodeTaintEffect
from modelplane.api.fields.cluster.usable_capacity import NODES, Loss
from modelplane.api.listing import count_noun
from modelplane.api.values import quantity
from modelplane.api.values.quantity import QuantityError
from modelplane.compose.cluster.capacity_facts import (
    ClaimFacts,
    DeviceFacts,
    NodeFacts,
    RuleFacts,
    SliceFacts,
)
from modelplane.compose.composition import Blocked
from modelplane.compose.replica.backends.engine_pods import GPU_TAINT

Name: TypeAlias = tuple[str, str, str]
"""Driver, pool of devices and name."""

Reports: TypeAlias = Mapping[tuple[str, str], Sequence[str]]
"""IDs of unhealthy devices, by namespace and name of the pod."""


def unhealthy(reports: Reports, claims: Iterable[ClaimFacts]) -> frozenset[Name]:
    """Return the devices that reports are about."""
    held: dict[tuple[str, str], list[Name]] = defaultdict(list)
    for claim in claims:
        if (claim.namespace, claim.holder) in reports:
            held[claim.namespace, claim.holder] += claim.devices
    return frozenset(name for pod, ids in reports.items() for name in _of_pod(ids, held.get(pod, ())))


def _of_pod(ids: Sequence[str], devices: Sequence[Name]) -> set[Name]:
    left, found = sorted(set(devices)), set[Name]()
    unnamed = []
    for text in ids:
        # In full, or at the end of an ID of another form.
        end = text.rpartition("=")[2]
        named = next(
            (
                name
                for name in left
                if text == "/".join(name) or end == name[2] or end.endswith(f"-{name[2]}")
            ),
            None,
        )
        if named is None:
            unnamed.append(text)
            continue
        left.remove(named)
        found.add(named)
    for text in unnamed:
        vendor = text.partition("/")[0]
        likely = next((name for name in left if vendor.endswith(name[0])), None) or next(iter(left), None)
        if likely is not None:
            left.remove(likely)
            found.add(likely)
    return found


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
        values_of = (attribute.string, attribute.version, attribute.boolean, attribute.integer)
        declared = next((str(value) for value in values_of if value is not None), "")
        key = name.removeprefix(f"{device.driver}/")
        if values.get(key, "") != declared:
            yield _difference(device, key, values.get(key, ""), declared)
    for name, capacity in sorted(device.capacity.items()):
        key = name.removeprefix(f"{device.driver}/")
        if not _is_equal(values.get(key, ""), capacity.value):
            yield _difference(device, key, values.get(key, ""), capacity.value)


def _difference(device: Device, key: str, published: str, declared: str) -> str:
    return f"{device.name} {key} is {published or 'not published'}, {declared} declared"


def _is_equal(published: str, declared: str) -> bool:
    try:
        return quantity.parse(published) == quantity.parse(declared)
    except QuantityError:
        return published == declared


_Terms: TypeAlias = Counter[tuple[Loss, str, str]]
"""Losses by cause, name and detail."""

Held: TypeAlias = Mapping[tuple[str, str, str], ClaimFacts]
"""The claim that holds a device, by driver, pool of devices and name."""


class Observation(msgspec.Struct, frozen=True):
    """Part of a pool that new replicas may use, and the rest by cause.

    ``missing`` has, for each usable node that exists, the devices that it lacks, by entry of the class.
    ``terms`` counts what is lost by cause, name and detail. ``drift`` are differences from the declaration.
    """

    nodes: int
    growth: int = 0
    missing: tuple[tuple[int, ...], ...] = ()
    terms: Mapping[tuple[Loss, str, str], int] = {}
    drift: tuple[str, ...] = ()


class Cluster(msgspec.Struct, frozen=True):
    """Facts of a cluster, and the devices that replicas were given there, by pool and namespace."""

    nodes: Sequence[NodeFacts]
    slices: Sequence[SliceFacts]
    claims: Sequence[ClaimFacts]
    given: Mapping[tuple[str, str], int]
    rules: Sequence[RuleFacts] = ()
    reports: Reports = {}
    """Unhealthy devices of the pods of replicas."""


def observe(pool: NodePool, devices: Sequence[Device], cluster: Cluster) -> Observation | Blocked:
    """Return what new replicas may use of a pool of a class."""
    declared = pool.max_node_count or pool.node_count
    nodes = sorted((node for node in cluster.nodes if node.pool == pool.name), key=lambda node: node.name)
    if not nodes and pool.max_node_count is None and declared:
        return Blocked(f"no node has the label {labels.POOL}={pool.name}")
    published = _published(devices, nodes, cluster)
    if isinstance(published, Blocked):
        return published
    terms: _Terms = Counter()
    growth = max(declared - len(nodes), 0)
    if pool.max_node_count is None:
        if growth:
            terms[Loss.NODE_ABSENT, NODES, ""] = growth
        growth = 0
    causes = {node.name: _find_exclusion(node, pool) for node in nodes}
    terms.update(filter(None, causes.values()))
    counted = [node for node in nodes if causes[node.name] is None]
    lost = _Lost(
        _foreign(pool.name, nodes, counted, published, cluster), unhealthy(cluster.reports, cluster.claims)
    )
    # The devices that each node lacks, by entry, and by cause. Entries without a count lack none.
    lacking: list[tuple[tuple[int, ...], _Terms]] = []
    for node in counted:
        on_node, causes_there = published[node.name], _Terms()
        vector = tuple(
            _missing(device, on_node[at], lost, causes_there) if at in on_node else 0
            for at, device in enumerate(devices)
        )
        lacking.append((vector, causes_there))
    # Pods that are on further nodes take nothing of those that are counted.
    lacking = sorted(lacking, key=lambda row: (sum(row[0]), row[0]))[: declared - growth]
    for _, causes_of_node in lacking:
        terms += causes_of_node
    differences = Counter(
        text
        for node in counted
        for at, found in published[node.name].items()
        for text in drift(devices[at], [facts for _, facts in found])
    )
    return Observation(
        len(lacking) + growth,
        growth,
        tuple(vector for vector, _ in lacking),
        dict(terms),
        tuple(f"{text} on {count_noun(count, 'node')}" for text, count in sorted(differences.items())),
    )


def _find_exclusion(node: NodeFacts, pool: NodePool) -> tuple[Loss, str, str] | None:
    """Return the first cause for which no pod may be put on a node; None if pods may."""
    tolerated = {(taint.key, str(taint.effect), taint.value) for taint in pool.list_tolerated()}
    if not node.is_ready:
        return Loss.NODE_NOT_READY, NODES, ""
    if node.is_unschedulable:
        return Loss.NODE_UNSCHEDULABLE, NODES, ""
    if node.notice:
        return Loss.NODE_EVICTED, NODES, ""
    for key, value, effect in node.taints:
        is_for_gpus = (key, effect) == (GPU_TAINT, NodeTaintEffect.NO_SCHEDULE)
        if not is_for_gpus and (key, effect, value) not in tolerated:
            return Loss.NODE_TAINTED, NODES, key
    return None


_Found: TypeAlias = list[tuple[tuple[str, str, str], DeviceFacts]]
"""Devices of one entry on one node, with driver, pool of devices and name."""

_Published: TypeAlias = dict[str, dict[int, _Found]]
"""Devices by node and by entry of the class. An entry that cannot be counted is absent."""


def _published(
    devices: Sequence[Device], nodes: Sequence[NodeFacts], cluster: Cluster
) -> _Published | Blocked:
    """Return the devices of each node, by entry of the class, with the taints of rules."""
    entries: dict[str, list[int]] = defaultdict(list)
    for at, device in enumerate(devices):
        if device.claim is Claim.DRA:
            entries[device.driver].append(at)
    found: _Published = {node.name: {at: [] for entry in entries.values() for at in entry} for node in nodes}
    pools: dict[tuple[str, str, str], list[SliceFacts]] = defaultdict(list)
    for slice_ in cluster.slices:
        if slice_.driver in entries and slice_.node in found:
            pools[slice_.driver, slice_.pool, slice_.node].append(slice_)
    silent = sorted(entries.keys() - {driver for driver, _, _ in pools})
    if nodes and silent:
        return Blocked(f'no node publishes devices of driver "{silent[0]}"')
    # The rules that taint, by the pool of devices that they select; None for those of all.
    rules: defaultdict[str | None, list[RuleFacts]] = defaultdict(list)
    for rule in (rule for rule in cluster.rules if rule.taints):
        rules[rule.pool].append(rule)
    for (driver, pool, node), parts in sorted(pools.items()):
        newest = max(part.generation for part in parts)
        present = [part for part in parts if part.generation == newest]
        if len(present) != present[0].slices:
            counted = f"{len(present)} of {present[0].slices} ResourceSlices"
            return Blocked(f'node "{node}" has {counted} of driver "{driver}"')
        for at, facts in _by_entry(devices, entries[driver], present):
            if facts is None:
                found[node].pop(at, None)
            elif at in found[node]:
                name = (driver, pool, facts.name)
                found[node][at].append((name, _taint_device(name, facts, (*rules[pool], *rules[None]))))
    return found


def _taint_device(name: tuple[str, str, str], facts: DeviceFacts, rules: Iterable[RuleFacts]) -> DeviceFacts:
    """Return a device with the taints of the rules that match it, as kube-scheduler sees it."""
    added = tuple(taint for rule in rules if rule.matches(*name) for taint in rule.taints)
    return msgspec.structs.replace(facts, taints=(*facts.taints, *added)) if added else facts


def _by_entry(
    devices: Sequence[Device], entries: Sequence[int], slices: Sequence[SliceFacts]
) -> Iterator[tuple[int, DeviceFacts | None]]:
    """Yield the devices of a complete generation with their entries; None for entries without a count."""
    if any(slice_.is_divided for slice_ in slices):
        yield from ((at, None) for at in entries)
        return
    for slice_ in slices:
        yield from ((assign(facts, devices, entries), facts) for facts in slice_.devices)


def _foreign(
    pool: str,
    nodes: Sequence[NodeFacts],
    counted: Sequence[NodeFacts],
    published: _Published,
    cluster: Cluster,
) -> Held:
    """Return the devices of a pool that others than replicas hold, with their claims."""
    held = {device: claim for claim in cluster.claims for device in claim.devices}
    usable = {node.name for node in counted}
    # By namespace: the devices that are held on each node.
    by_namespace: dict[str, dict[str, list[tuple[str, str, str]]]] = defaultdict(lambda: defaultdict(list))
    for node in nodes:
        for found in published[node.name].values():
            for device, _ in found:
                if device in held:
                    by_namespace[held[device].namespace][node.name].append(device)
    foreign: dict[tuple[str, str, str], ClaimFacts] = {}
    for namespace, by_node in by_namespace.items():
        left = cluster.given.get((pool, namespace), 0)
        # Where it is not known which devices are the replicas', the others' are taken to be scattered.
        for _, devices in sorted(by_node.items(), key=lambda row: (row[0] in usable, -len(row[1]), row[0])):
            ours, left = min(left, len(devices)), max(left - len(devices), 0)
            foreign |= {device: held[device] for device in sorted(devices)[ours:]}
    return foreign


class _Lost(msgspec.Struct, frozen=True):
    """Devices that new replicas may not use although they are published without a taint."""

    foreign: Held
    unhealthy: frozenset[tuple[str, str, str]]


def _missing(device: Device, found: _Found, lost: _Lost, terms: _Terms) -> int:
    """Return how many devices of an entry a node lacks, and count them by cause."""
    causes = []
    for name, facts in found:
        if facts.taints:
            causes.append((Loss.DEVICE_TAINTED, device.name, facts.taints[0][0]))
        elif name in lost.unhealthy:
            causes.append((Loss.DEVICE_UNHEALTHY, device.name, ""))
        elif name in lost.foreign:
            claim = lost.foreign[name]
            causes.append((Loss.HELD_BY_OTHERS, device.name, f"{claim.namespace}/{claim.holder}"))
    missing = max(device.count - (len(found) - len(causes)), 0)
    absent = min(max(device.count - len(found), 0), missing)
    if absent:
        terms[Loss.DEVICE_ABSENT, device.name, ""] += absent
    terms.update(causes[: missing - absent])
    return missing

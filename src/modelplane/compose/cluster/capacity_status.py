"""Usable capacity in the status of an InferenceCluster.

Capacity that is lost counts as lost at once. Capacity that returns counts again once it has been there for
``SETTLES_S``, without a fall in between: until then the worse of what is published and what is observed is
published. So capacity that comes and goes is not used.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from modelplane.api.fields.cluster.node_pools import Accounting
from modelplane.api.fields.cluster.usable_capacity import (
    MAX_TERMS,
    NODES,
    CapacityTerm,
    DeviceCount,
    Loss,
    MissingDevices,
    UsableCapacity,
)
from modelplane.api.inference_cluster import GPUPool
from modelplane.api.listing import count_noun, in_order
from modelplane.compose.cluster.observed_capacity import Observation

SETTLES_S: Final = 60
"""Seconds after which returned capacity counts."""

_PHRASES: Final[Mapping[Loss, str]] = {
    Loss.NODE_ABSENT: "absent",
    Loss.NODE_NOT_READY: "not ready",
    Loss.NODE_UNSCHEDULABLE: "unschedulable",
    Loss.NODE_EVICTED: "about to be reclaimed",
    Loss.NODE_TAINTED: "tainted",
    Loss.DEVICE_ABSENT: "not published",
    Loss.DEVICE_TAINTED: "tainted",
    Loss.DEVICE_UNHEALTHY: "unhealthy",
    Loss.HELD_BY_OTHERS: "held by",
    Loss.RECOVERING: f"ready for less than {SETTLES_S} s",
}
_OTHERS: Final = "others"
_SHOWN: Final = 6
"""Causes in a sentence."""

_Vector: TypeAlias = tuple[int, ...]
_Nodes: TypeAlias = list[_Vector]
"""Devices that each usable node of a pool lacks, by entry; nodes that lack least come first."""


def published(pool: GPUPool, observed: Observation, known: UsableCapacity | None, now: int) -> UsableCapacity:
    """Return the capacity to publish of a pool, of which another one was published before.

    ``now`` is in seconds since 1970.
    """
    # What its usable nodes lack: whole nodes if the pool counts nodes.
    lacking = (
        vector for vector in observed.missing if not any(vector) or pool.accounting is Accounting.DEVICES
    )
    fresh = _sorted([(0,) * len(pool.devices)] * observed.growth + list(lacking))
    terms = [
        CapacityTerm(reason=loss, name=name, count=count, detail=detail)
        for (loss, name, detail), count in observed.terms.items()
    ]
    if known is None:
        return _usable(pool, fresh, observed.growth, terms)
    before = _nodes_in(pool, known)
    # Nodes that have place for no more than either.
    lower = _sorted(tuple(map(max, *pair)) for pair in zip(before, fresh, strict=False))
    if lower == fresh:
        return _usable(pool, fresh, observed.growth, terms)
    due = int(known.rises_at.timestamp()) if known.rises_at and lower == before else now + SETTLES_S
    if now >= due:
        return _usable(pool, fresh, observed.growth, terms)
    lost = _totals(pool, fresh) - _totals(pool, lower)
    terms += [CapacityTerm(reason=Loss.RECOVERING, name=name, count=count) for name, count in lost.items()]
    return _usable(pool, lower, observed.growth, terms, dt.datetime.fromtimestamp(due, dt.UTC))


def _nodes_in(pool: GPUPool, known: UsableCapacity) -> _Nodes:
    """Return what the nodes of a published capacity lack."""
    found: _Nodes = []
    for missing in known.missing:
        counts = {device.name: device.count for device in missing.devices}
        found += [tuple(counts.get(device.name, 0) for device in pool.devices)] * missing.nodes
    whole = (0,) * len(pool.devices)
    return _sorted([*[whole] * max(known.nodes - len(found), 0), *found])


def _sorted(nodes: Iterable[_Vector]) -> _Nodes:
    return sorted(nodes, key=lambda node: (sum(node), node))


def _totals(pool: GPUPool, nodes: _Nodes) -> Counter[str]:
    """Return the number of devices, or of nodes if these are counted."""
    if pool.accounting is Accounting.NODES:
        return Counter({NODES: len(nodes)})
    return Counter(
        {
            device.name: sum(device.count - vector[at] for vector in nodes)
            for at, device in enumerate(pool.devices)
        }
    )


def _usable(
    pool: GPUPool,
    nodes: _Nodes,
    growth: int,
    terms: Sequence[CapacityTerm],
    rises_at: dt.datetime | None = None,
) -> UsableCapacity:
    vectors = Counter(vector for vector in nodes if any(vector))
    groups = sorted(vectors.items(), key=lambda row: (-row[1], row[0]))
    if len(groups) > MAX_TERMS:
        rest = groups[MAX_TERMS - 1 :]
        worst = tuple(map(max, *(vector for vector, _ in rest)))
        groups = [*groups[: MAX_TERMS - 1], (worst, sum(count for _, count in rest))]
    return UsableCapacity(
        nodes=len(nodes),
        growth=min(growth, len(nodes)),
        missing=tuple(
            MissingDevices(
                nodes=count,
                devices=tuple(
                    DeviceCount(name=device.name, count=lacks)
                    for device, lacks in zip(pool.devices, vector, strict=True)
                    if lacks
                ),
            )
            for vector, count in groups
        ),
        terms=_bounded(terms),
        rises_at=rises_at,
    )


def _bounded(terms: Sequence[CapacityTerm]) -> tuple[CapacityTerm, ...]:
    """Return terms in order; if they are too many, without their details."""
    if len(terms) > MAX_TERMS:
        sums: Counter[tuple[Loss, str]] = Counter()
        for term in terms:
            sums[term.reason, term.name] += term.count
        terms = [CapacityTerm(reason=loss, name=name, count=count) for (loss, name), count in sums.items()]
    order = list(Loss)
    ordered = sorted(terms, key=lambda term: (order.index(term.reason), term.name, -term.count, term.detail))
    return tuple(ordered[:MAX_TERMS])


def summary(pool: GPUPool, usable: UsableCapacity) -> str:
    """Return a sentence about a pool with all details, for those who may read the cluster."""
    terms = _phrases(usable.terms, with_details=True)
    grows = f", {count_noun(usable.growth, 'node')} through autoscaling" if usable.growth else ""
    return f'pool "{pool.name}": {_amounts(pool, usable)}{grows}{f": {terms}" if terms else ""}'


def why(pool: GPUPool, usable: UsableCapacity) -> str:
    """Return the same without the names of other tenants' objects; empty if nothing is lost."""
    terms = _phrases(usable.terms, with_details=False)
    return f"{_amounts(pool, usable)}: {terms}" if terms else ""


def _amounts(pool: GPUPool, usable: UsableCapacity) -> str:
    if pool.accounting is Accounting.NODES:
        return f"{count_noun(pool.nodes, 'node')} declared, {usable.nodes} usable"
    totals = _totals(pool, _nodes_in(pool, usable))
    return ", ".join(
        f"{device.count * pool.nodes} {device.name} declared, {totals[device.name]} usable"
        for device in pool.devices
    )


def _phrases(terms: Sequence[CapacityTerm], *, with_details: bool) -> str:
    counts: Counter[tuple[str, str]] = Counter()
    for term in terms:
        others = _OTHERS if term.reason is Loss.HELD_BY_OTHERS else ""
        detail = term.detail if with_details and term.detail else others
        counts[term.name, f"{_PHRASES[term.reason]} {detail}".rstrip()] += term.count
    shown = [
        f"{count_noun(count, 'node') if name == NODES else f'{count} {name}'} {text}"
        for (name, text), count in counts.items()
    ]
    return in_order(shown, limit=_SHOWN)


def vectors(pool: GPUPool, usable: UsableCapacity) -> tuple[tuple[_Vector, int], ...]:
    """Return what usable nodes lack, by entry, and how many nodes lack it."""
    return tuple(sorted(Counter(row for row in _nodes_in(pool, usable) if any(row)).items()))

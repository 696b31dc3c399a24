"""Remedies: the smallest changes that would place one more replica.

A change is proposed only after the scheduler has placed a replica with it: on a copy of the deployment, or
with a larger pool.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from modelplane.api.listing import count_noun
from modelplane.api.model_deployment import TolerationOperator
from modelplane.api.rejected import Rejected
from modelplane.cel import ObservedValue, SelectorError
from modelplane.scheduler import rejection_reasons
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.diagnosis import Remedy
from modelplane.scheduler.existing.drain import describe_drain
from modelplane.scheduler.existing.retention import Leaving, find_pins
from modelplane.scheduler.filters import admit
from modelplane.scheduler.filters.region_rule import check_known_region
from modelplane.scheduler.filters.taints import list_untolerated
from modelplane.scheduler.free_capacity import FreeCapacity
from modelplane.scheduler.placement.capacity_type import CapacityType
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.placement.pool_choice import Pins, PoolChooser
from modelplane.scheduler.placement.pool_rejections import Excluded, PoolRejections
from modelplane.scheduler.rejection_reasons import NoDevice, Reason
from modelplane.scheduler.types import Cluster, Deployment, DeviceRequest, PlacedEngine, Toleration

_CAPACITY_REASONS: Final = frozenset(
    (Reason.TOO_FEW_NODES, Reason.NO_FREE_NODES, Reason.NO_FREE_DEVICES, Reason.ENGINES_COMPETE)
)
_CLUSTERS_ENLARGED: Final = 16
_MOST_NODES: Final = 1024
_TRIED: Final = 3
_QUANTITY: Final = re.compile(r"""quantity\(\s*(["'])([^"'\\]+)\1\s*\)""")
_Misfitting: TypeAlias = tuple[Cluster, PoolRejections, set[str]]
"""A cluster without a fitting choice of pools, and the reasons of its pools."""

_COMPARES: Final = r"\.\s*(?:compareTo|isGreaterThan|isLessThan)\(\s*"


def find_remedies(
    state: CycleState, excluded: Sequence[Excluded], leaving: Sequence[Leaving]
) -> tuple[Remedy, ...]:
    """Return the smallest change of each sort that helps: a quota, more nodes, then edits of the deployment.

    A change of capacity helps only as far as the quota allows another replica.
    """
    deployment = state.deployment
    # No change of capacity brings back a replica that leaves the regions, or that a drain moves.
    leaving = [
        decision
        for decision in leaving
        if not check_known_region(deployment, state.clusters[decision.replica.cluster])
        and not describe_drain(state.clusters[decision.replica.cluster], decision.replica)
        and not decision.replica.evicted
    ]
    misfits: list[_Misfitting] = [
        (cluster, why, {rejected.reason for _, rejected in why.pools})
        for cluster, why in excluded
        if isinstance(why, PoolRejections)
    ]
    remedies = [
        _more_quota(excluded),
        _more_nodes(state, misfits, leaving),
        _first_remedy(state, _relaxed(deployment, misfits), leaving),
        _first_remedy(state, _elsewhere(state, misfits), leaving),
        _first_remedy(state, _tolerating(deployment, excluded), leaving),
        _first_remedy(state, _selecting_less(deployment, excluded), leaving),
        _first_remedy(state, _with_plain_pods(deployment, excluded), leaving),
    ]
    return tuple(remedy for remedy in remedies if remedy is not None)


def _more_quota(excluded: Sequence[Excluded]) -> Remedy | None:
    """Return the larger quota with which the clusters that have room for a replica would take it."""
    changes: dict[str, list[str]] = {}
    for cluster, why in excluded:
        if isinstance(why, Rejected) and why.reason is Reason.OVER_QUOTA and why.remedy:
            changes.setdefault(why.remedy, []).append(cluster.name)
    if not changes:
        return None
    change = min(changes, key=lambda text: (-len(changes[text]), text))
    return Remedy(change, tuple(changes[change]))


def _more_nodes(
    state: CycleState, misfits: Sequence[_Misfitting], leaving: Sequence[Leaving]
) -> Remedy | None:
    """Return the fewest nodes that one pool would need more."""
    full = [cluster for cluster, _, reasons in misfits if not _CAPACITY_REASONS.isdisjoint(reasons)]
    trials: list[tuple[Cluster, Sequence[FreeCapacity], Pins | None]] = [
        (cluster, state.ledger.list_capacities(cluster), None) for cluster in full[:_CLUSTERS_ENLARGED]
    ]
    for decision in leaving[:_CLUSTERS_ENLARGED]:
        cluster = state.clusters[decision.replica.cluster]
        trials.append(
            (
                cluster,
                state.ledger.list_capacities(cluster, without=decision.replica.engines),
                find_pins(decision.replica),
            )
        )
    most, best = _MOST_NODES, None
    for cluster, capacities, pins in trials:
        for position, pool in enumerate(cluster.pools):
            if state.budget.spent:
                break
            nodes = _least(partial(_fits_with, state, cluster, capacities, pins, position), most)
            if nodes:
                more = count_noun(nodes, "node")
                change = f'add {more} to pool {pool.name} of InferenceCluster "{cluster.name}"'
                most, best = nodes - 1, Remedy(change, (cluster.name,))
    return best


def _fits_with(
    state: CycleState,
    cluster: Cluster,
    capacities: Sequence[FreeCapacity],
    pins: Pins | None,
    position: int,
    nodes: int,
) -> bool:
    """Return True if a replica fits when one pool has this many more nodes."""
    pool = cluster.pools[position]
    larger = (
        *cluster.pools[:position],
        replace(pool, nodes=pool.nodes + nodes),
        *cluster.pools[position + 1 :],
    )
    enlarged = [*capacities]
    enlarged[position] = capacities[position].add_nodes(nodes)
    return _admits(state, cluster, state.chooser.place(replace(cluster, pools=larger), enlarged, pins))


def _admits(state: CycleState, cluster: Cluster, placed: tuple[PlacedEngine, ...] | PoolRejections) -> bool:
    return not (isinstance(placed, PoolRejections) or state.quotas.check(cluster, placed))


def _least(fits: Callable[[int], bool], most: int) -> int:
    """Return the least number, up to `most`, from which a condition holds; 0 if there is none."""
    if most < 1 or not fits(most):
        return 0
    low, high = 0, 1
    while high < most and not fits(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


class _Edit(msgspec.Struct, frozen=True):
    """An edited deployment, the edit in words, and the clusters that it may help on."""

    change: str
    deployment: Deployment
    clusters: tuple[Cluster, ...]
    capacity_type: CapacityType | None = None
    """The pools that the edit opens; None: as before."""


def _first_remedy(state: CycleState, edits: Iterable[_Edit], leaving: Iterable[Leaving]) -> Remedy | None:
    """Return the first edit with which some cluster takes a replica, or keeps one that is to leave."""
    freed: dict[str, list[Sequence[PlacedEngine]]] = {}
    for decision in leaving:
        freed.setdefault(decision.replica.cluster, []).append(decision.replica.engines)
    for edit in edits:
        try:
            selection = Selection(state.budget, edit.deployment)
            capacity_type = edit.capacity_type or state.chooser.capacity_type
            chooser = PoolChooser(edit.deployment, selection, state.budget, capacity_type=capacity_type)
            opened = tuple(
                cluster.name
                for cluster in edit.clusters
                if not admit(edit.deployment, cluster)
                and any(
                    _admits(
                        state,
                        cluster,
                        chooser.place(cluster, state.ledger.list_capacities(cluster, engines)),
                    )
                    for engines in freed.get(cluster.name, [()])
                )
            )
        except SelectorError:
            continue
        if opened:
            return Remedy(edit.change, opened)
    return None


def _excluded_for(excluded: Sequence[Excluded], reason: Reason) -> tuple[Cluster, ...]:
    return tuple(cluster for cluster, why in excluded if isinstance(why, Rejected) and why.reason is reason)


def _relaxed(deployment: Deployment, misfits: Sequence[_Misfitting]) -> Iterator[_Edit]:
    """Yield the deployment with one requested amount lowered to an offered one, the largest first."""
    unmatched = [misfitting for misfitting in misfits if Reason.NO_MATCHING_DEVICE in misfitting[2]]
    offered: dict[str, set[ObservedValue]] = {}
    for _, why, _ in unmatched:
        for _, rejected in why.pools:
            if isinstance(rejected, NoDevice):
                offered.setdefault(rejected.subject, set()).update(rejected.reads)
    clusters = tuple(cluster for cluster, _, _ in unmatched)
    for name in sorted(offered):
        offers = ((read.quantity, read) for read in offered[name] if read.quantity is not None)
        ordered = sorted(offers, key=lambda item: (item[0], item[1].name, item[1].text), reverse=True)
        for _, read in ordered[:_TRIED]:
            yield from _relaxed_to(deployment, name, read, clusters)


def _relaxed_to(
    deployment: Deployment, request: str, read: ObservedValue, clusters: tuple[Cluster, ...]
) -> Iterator[_Edit]:
    asked = sorted(
        {
            match.group(2)
            for engine in deployment.engines
            for member in engine.members
            for device_request in member.requests
            if device_request.name == request
            for selector in device_request.selectors
            for match in _quantities(selector, read.name)
        }
    )
    for text in asked:
        if text != read.text:
            edited = _edited(deployment, request, text, read)
            asked_for = rejection_reasons.describe_request(text, read.text)
            what = f'relax {read.name} from {asked_for} to {read.text} in request "{request}"'
            yield _Edit(what, edited, clusters)


def _edited(deployment: Deployment, request: str, text: str, read: ObservedValue) -> Deployment:
    def relax(device_request: DeviceRequest) -> DeviceRequest:
        if device_request.name != request:
            return device_request
        return replace(
            device_request,
            selectors=tuple(_relax(selector, text, read) for selector in device_request.selectors),
        )

    engines = tuple(
        replace(
            engine,
            members=tuple(
                replace(member, requests=tuple(map(relax, member.requests))) for member in engine.members
            ),
        )
        for engine in deployment.engines
    )
    return replace(deployment, engines=engines)


def _relax(selector: str, text: str, read: ObservedValue) -> str:
    parts, end = [], 0
    for match in _quantities(selector, read.name):
        if match.group(2) == text:
            parts += [selector[end : match.start()], f'quantity("{read.text}")']
            end = match.end()
    return "".join((*parts, selector[end:]))


def _quantities(selector: str, name: str) -> Iterator[re.Match[str]]:
    """Yield the quantities that a selector compares with an attribute or a capacity."""
    read = rf"""\b{re.escape(name)}\s*(?:["']\s*\]\s*)?"""
    before, after = re.compile(rf"{read}{_COMPARES}$"), re.compile(rf"\s*{_COMPARES}[^()]*{read}\)")
    end = 0
    for match in _QUANTITY.finditer(selector):
        # From the last one on: to look through all of it again for each would take long for thousands.
        if before.search(selector, end, match.start()) or after.match(selector, match.end()):
            yield match
        end = match.end()


def _elsewhere(state: CycleState, misfits: Sequence[_Misfitting]) -> Iterator[_Edit]:
    """Yield the deployment with the pools that its placement on spot pools leaves out."""
    deployment = state.deployment
    spot = tuple(cluster for cluster, _, reasons in misfits if Reason.NOT_ON_SPOT in reasons)
    others = tuple(cluster for cluster, _, reasons in misfits if Reason.NOT_ON_DEMAND in reasons)
    if spot and deployment.spot is None:
        yield _Edit("allow spot pools with spec.placement.spot", deployment, spot, CapacityType.ANY)
    elif spot:
        yield _Edit("lower spec.placement.spot.baseOnDemand", deployment, spot, CapacityType.ANY)
    if others:
        yield _Edit("set spec.placement.spot.fallback to OnDemand", deployment, others, CapacityType.ANY)


def _tolerating(deployment: Deployment, excluded: Sequence[Excluded]) -> Iterator[_Edit]:
    """Yield the deployment with a toleration more, for the taints that keep it from most clusters."""
    tainted = _excluded_for(excluded, Reason.UNTOLERATED_TAINT)
    repelling = {cluster.name: list_untolerated(deployment, cluster) for cluster in tainted}
    alone = Counter(taints[0] for taints in repelling.values() if len(taints) == 1)
    for taint in sorted(alone, key=lambda taint: (-alone[taint], str(taint)))[:_TRIED]:
        toleration = Toleration(taint.key, TolerationOperator.EQUAL, taint.value, taint.effect)
        tolerant = replace(deployment, tolerations=(*deployment.tolerations, toleration))
        where = tuple(cluster for cluster in tainted if repelling[cluster.name] == [taint])
        yield _Edit(f"tolerate taint {taint}", tolerant, where)


def _selecting_less(deployment: Deployment, excluded: Sequence[Excluded]) -> Iterator[_Edit]:
    """Yield the deployment with one label fewer in its clusterSelector."""
    outside = _excluded_for(excluded, Reason.CLUSTER_SELECTOR)
    if not outside:
        return
    for key in sorted(deployment.cluster_selector)[:_TRIED]:
        left = {name: value for name, value in deployment.cluster_selector.items() if name != key}
        change = f"remove {key}={deployment.cluster_selector[key]} from the clusterSelector"
        yield _Edit(change, replace(deployment, cluster_selector=left), outside)


def _with_plain_pods(deployment: Deployment, excluded: Sequence[Excluded]) -> Iterator[_Edit]:
    """Yield the deployment without the labels, annotations and variables that most clusters refuse."""
    where: dict[str, list[Cluster]] = {}
    for cluster, why in excluded:
        if isinstance(why, Rejected) and why.reason is Reason.PODS_NOT_ACCEPTED:
            where.setdefault(why.detail, []).append(cluster)
    for parts in sorted(where, key=lambda text: (-len(where[text]), text))[:_TRIED]:
        plain = replace(deployment, pod_parts=())
        yield _Edit(f"remove {parts} from the template", plain, tuple(where[parts]))

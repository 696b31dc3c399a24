"""Preemption: the deployments that come first, what is reserved for them, and which replicas leave for them.

Where priorities are in use, a new replica is placed only on what is left when every deployment that comes
first has what it waits for: those of higher priority, and of equal priority the older ones with a
PriorityClass. What does not fit anywhere reserves nothing, unless replicas of lower priority are displaced
for it. Nothing of this is stored: each placement derives it again, in the same order.

Candidates for displacement are in the namespaces of the preemptor's quota or cohort, on clusters that are
ready, and of deployments of lower priority: first those that are leaving already, then those of quotas that
borrow, the lowest priority first, the newest first. They are taken in this order until the replica fits, and
then as many as possible are given back, the last one first. The last replica of a deployment that serves is
never taken, nor the last that answers until an edit restarts it, nor its last replica at all. A replica that
would borrow displaces none.

A replica that leaves holds its devices until it is gone; the preemptor is placed then. As those that leave
already come first, the same ones are found again in the meantime.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec.structs import replace

from modelplane.api.rejected import Rejected
from modelplane.cel import SelectorError
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.placement.cluster_choice import Filled, Indices, choose_clusters
from modelplane.scheduler.placement.pool_choice import Offer
from modelplane.scheduler.quota_ledger import Reservation
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Cluster, Deployment, Fleet, PlacedEngine, Replica

_MOST_RESERVING: Final = 16
"""Deployments for which capacity is reserved in one placement, so that many cost no other much time."""

_SEARCH_PART: Final = 4
"""Their search may take this part, a quarter, of the steps of the placement itself."""

_MOST_DISPLACING: Final = 4
"""Deployments for which replicas are being displaced at a time, each for one replica."""

_MOST_CLUSTERS: Final = 16
"""Clusters that are searched for replicas to displace."""

_MOST_CANDIDATES: Final = 64
"""Replicas that are tried for one cluster, beside those that leave already."""


class Precedence(msgspec.Struct, frozen=True):
    """Reservations of the deployments that come first, and the replicas that leave for them, with the reason.

    `may_displace` is false while as many displace others as may at a time.
    """

    reservations: tuple[Reservation, ...] = ()
    displaced: Mapping[tuple[str, str], str] = {}
    may_displace: bool = True

    def describe(self) -> str:
        """Return how many replicas come first, as part of a diagnosis; empty if none does."""
        count = len(self.reservations)
        if not count:
            return ""
        noun = "1 replica of a deployment" if count == 1 else f"{count} replicas of deployments"
        verb = "comes" if count == 1 else "come"
        return f"{noun} of higher priority, or of equal priority and older, {verb} first"


class Displacement(msgspec.Struct, frozen=True):
    """The place of a replica once others are gone. `replicas` has also those that leave anyway."""

    cluster: str
    engines: tuple[PlacedEngine, ...]
    replicas: tuple[Replica, ...]

    @property
    def remaining(self) -> tuple[Replica, ...]:
        """The replicas that are not leaving yet."""
        return tuple(replica for replica in self.replicas if not replica.withdrawn)

    @property
    def present(self) -> tuple[Replica, ...]:
        """The replicas that nothing deletes yet.

        One that was withdrawn already may have been withdrawn for another reason: its deployment must hear.
        """
        return tuple(replica for replica in self.replicas if not replica.deleting)


def find_precedence(fleet: Fleet, deployment: Deployment) -> Precedence:
    """Return what comes before a deployment; nothing where no priorities are in use."""
    first = _list_first(fleet, deployment)
    if not first:
        return Precedence()
    everyone = replace(fleet, others=(*fleet.others, deployment))
    budget = SearchBudget(_SEARCH_PART)
    reservations: list[Reservation] = []
    displaced: dict[tuple[str, str], str] = {}
    displacing = 0
    for earlier in first[:_MOST_RESERVING]:
        if budget.spent:
            break
        try:
            state = CycleState.begin(everyone, earlier, reservations, budget)
            reservations += _reserve_awaited(state, everyone, displacing < _MOST_DISPLACING)
        except SelectorError:
            continue  # its own conditions say so; it takes nothing
        last = reservations[-1] if reservations else None
        if last and last.deployment.uid == earlier.uid and last.instead_of:
            displacing += 1
            displaced |= {(who.namespace, who.name): _reason(earlier) for who in last.instead_of}
    return Precedence(tuple(reservations), displaced, displacing < _MOST_DISPLACING)


def _list_first(fleet: Fleet, deployment: Deployment) -> list[Deployment]:
    """Return the deployments that wait for replicas and come first, in order."""
    priority = deployment.priority
    higher = [
        other
        for other in fleet.others
        if not other.priority.problem
        and (
            other.priority.value > priority.value
            or (
                other.priority.value == priority.value
                and other.priority.class_name
                and priority.class_name
                and other.order < deployment.order
            )
        )
    ]
    if not higher:
        return []
    present = Counter(replica.deployment_uid for replica in fleet.replicas if not replica.deleting)
    waiting = (
        other
        for other in higher
        if present[other.uid] < other.replicas and (other.cache is None or other.cache.known)
    )
    return sorted(waiting, key=lambda other: (-other.priority.value, other.order))


def _reserve_awaited(state: CycleState, fleet: Fleet, may_displace: bool) -> Iterable[Reservation]:
    """Return the places of the missing replicas of a deployment that comes first."""
    if state.quotas.problem:
        return ()
    deployment = state.deployment
    replicas = [replica for replica in fleet.replicas if replica.deployment_uid == deployment.uid]
    staying = [
        (replica.cluster, replica.engines)
        for replica in replicas
        if not replica.deleting and replica.cluster in state.clusters
    ]
    count = deployment.replicas - sum(not replica.deleting for replica in replicas)
    filled = choose_clusters(state, count, Indices(replicas), staying)
    places = [Reservation(deployment, place.cluster, place.engines) for place in filled.placed]
    if may_displace and (displacement := find_displacement(state, fleet, filled, count)):
        places.append(
            Reservation(deployment, displacement.cluster, displacement.engines, displacement.replicas)
        )
    return places


def _reason(deployment: Deployment) -> str:
    priority = deployment.priority
    return (
        f'ModelDeployment "{deployment.namespace}/{deployment.name}" of priority {priority.value} '
        f'(PriorityClass "{priority.class_name}") takes the replica\'s devices'
    )


def list_displaced(precedence: Precedence, replicas: Iterable[Replica]) -> dict[str, str]:
    """Return those of the replicas that leave, by name, and why. One that is being deleted is gone anyway."""
    return {
        replica.name: precedence.displaced[replica.namespace, replica.name]
        for replica in replicas
        if not replica.deleting and (replica.namespace, replica.name) in precedence.displaced
    }


def find_displacement(state: CycleState, fleet: Fleet, filled: Filled, count: int) -> Displacement | None:
    """Return the displacement for one of the missing replicas of a deployment; None if there is none."""
    if len(filled.placed) >= count or state.quotas.problem or not state.deployment.priority.preempts:
        return None
    return displace(state.limit_to(filled.capacity_type), fleet)


def displace(state: CycleState, fleet: Fleet) -> Displacement | None:
    """Return the smallest displacement that admits one more replica; None if there is none."""
    values = {other.uid: other.priority.value for other in fleet.others if not other.priority.problem}
    claimed = {
        (who.namespace, who.name) for reservation in state.reservations for who in reservation.instead_of
    }
    free = [replica for replica in fleet.replicas if (replica.namespace, replica.name) not in claimed]
    candidates = _list_candidates(state, free, values)
    # Those that are being deleted, and can be expected to go soon.
    ending = sorted(
        (
            replica
            for replica in free
            if replica.deleting and not (replica.deleted and replica.deleted < fleet.stuck_before)
        ),
        key=_name,
    )
    spare = _Spare(fleet.replicas)
    displacements = (
        _displace_on(state, cluster, ending, candidates, spare)
        for cluster in _list_targets(state, candidates)
    )
    return min(
        (displacement for displacement in displacements if displacement),
        key=lambda displacement: _harm(displacement, values),
        default=None,
    )


def _list_candidates(
    state: CycleState, replicas: Iterable[Replica], values: Mapping[str, int]
) -> list[Replica]:
    """Return the replicas that may be displaced, in the order in which they are taken."""
    priority = state.deployment.priority.value
    ranked = []
    for replica in replicas:
        value = values.get(replica.deployment_uid)
        cluster = state.clusters.get(replica.cluster)
        if value is None or value >= priority or replica.deleting or replica.unreachable:
            continue
        if cluster is None or not cluster.ready or state.quotas.find_quota(replica.namespace) is None:
            continue
        ranked.append((not replica.withdrawn, not state.quotas.is_borrower(replica), value, replica))
    # By creation, the newest first, which is not the order of the rest.
    ranked.sort(key=lambda item: (item[3].created, _name(item[3])), reverse=True)
    ranked.sort(key=lambda item: item[:3])
    return [candidate for *_, candidate in ranked]


def _list_targets(state: CycleState, candidates: Sequence[Replica]) -> list[Cluster]:
    """Return the clusters to try: those with capacity, for which only the quota has to be freed, first."""
    ranks: dict[str, int] = {}
    for rank, replica in enumerate(candidates):
        ranks.setdefault(replica.cluster, rank)
    tried = []
    for name, cluster in state.clusters.items():
        offer = state.find_offer(cluster)
        if isinstance(offer, Rejected) or not (isinstance(offer, Offer) or name in ranks):
            continue
        tried.append((not isinstance(offer, Offer), ranks.get(name, len(candidates)), name, cluster))
    return [cluster for *_, cluster in sorted(tried, key=lambda item: item[:3])[:_MOST_CLUSTERS]]


class _Spare:
    """Replicas that a deployment can lose: all but the last one, the last that serves, and that answers."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        remaining = [replica for replica in replicas if not replica.withdrawn]
        self._there = Counter(replica.deployment_uid for replica in remaining)
        self._serving = Counter(replica.deployment_uid for replica in remaining if replica.serves)
        # One that an edit will restart serves no longer for certain, but may be all that there is.
        self._answering = Counter(replica.deployment_uid for replica in remaining if replica.answers)

    def copy(self) -> "_Spare":
        """Return the same, to count on."""
        spare = _Spare(())
        spare._there, spare._serving = self._there.copy(), self._serving.copy()
        spare._answering = self._answering.copy()
        return spare

    def take(self, replica: Replica) -> bool:
        """Take a replica, if its deployment can lose it."""
        uid = replica.deployment_uid
        if replica.withdrawn:
            return True
        if self._there[uid] < 2 or (replica.serves and self._serving[uid] < 2):
            return False
        if replica.answers and self._answering[uid] < 2:
            return False
        self._there[uid] -= 1
        self._serving[uid] -= replica.serves
        self._answering[uid] -= replica.answers
        return True


def _displace_on(
    state: CycleState,
    cluster: Cluster,
    ending: Sequence[Replica],
    candidates: Sequence[Replica],
    spare: _Spare,
) -> Displacement | None:
    """Return the smallest displacement that makes a place on a cluster."""
    spare = spare.copy()
    # Where devices are free, any candidate that frees the quota will do; else those on the cluster first.
    lacks_devices = not isinstance(state.find_offer(cluster), Offer)
    ordered = sorted(candidates, key=lambda candidate: lacks_devices and candidate.cluster != cluster.name)
    taken: list[Replica] = []
    for replica in (*ending, *ordered[:_MOST_CANDIDATES]):
        if replica.deleting or spare.take(replica):
            taken.append(replica)
            if _fits(state, cluster, taken):
                break
    else:
        return None
    for replica in [candidate for candidate in reversed(taken) if not candidate.deleting]:
        fewer = [other for other in taken if other is not replica]
        if _fits(state, cluster, fewer):
            taken = fewer
    engines = _fits(state, cluster, taken)
    return Displacement(cluster.name, engines, tuple(taken)) if engines else None


def _fits(state: CycleState, cluster: Cluster, gone: Sequence[Replica]) -> tuple[PlacedEngine, ...]:
    """Return the place of a replica if others were gone; empty if it has none, or would have to borrow."""
    with _without(state, gone):
        offer = state.find_offer(cluster)
        if not isinstance(offer, Offer) or state.quotas.check(cluster, offer.engines):
            return ()
        return () if state.quotas.must_borrow(cluster, offer.engines) else offer.engines


@contextmanager
def _without(state: CycleState, gone: Sequence[Replica]) -> Iterator[None]:
    """Take replicas off the ledgers meanwhile."""
    for replica in gone:
        state.ledger.refund(replica.cluster, replica.engines)
        state.quotas.release(replica)
    try:
        yield
    finally:
        for replica in gone:
            state.ledger.charge(replica.cluster, replica.engines)
            state.quotas.release(replica, sign=1)


def _harm(displacement: Displacement, values: Mapping[str, int]) -> tuple[int, int, int, str]:
    remaining = displacement.remaining
    highest = max((values.get(replica.deployment_uid, 0) for replica in remaining), default=-(2**31))
    return sum(replica.serves for replica in remaining), len(remaining), highest, displacement.cluster


def _name(replica: Replica) -> tuple[str, str]:
    return replica.namespace, replica.name

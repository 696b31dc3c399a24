"""Displacement: replicas of lower priority that leave, so that a replica of higher priority has a place.

Candidates are in the namespaces of the preemptor's quota or cohort, on clusters that are ready, and of
deployments of lower priority: first those that are leaving already, then those of quotas that borrow, the
lowest priority first, the newest first. They are taken in this order until the replica fits, and then as many
as possible are given back, the last one first. The last replica of a deployment that serves is never taken,
nor the last that answers until an edit restarts it, nor its last replica at all. A replica that would borrow
displaces none.

A replica that leaves holds its devices until it is gone; the preemptor is placed then. As those that leave
already come first, the same ones are found again in the meantime.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from modelplane.api.rejected import Rejected
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.placement.placer import Offer
from modelplane.scheduler.types import Cluster, Fleet, PlacedEngine, Replica

_MOST_CLUSTERS: Final = 16
_MOST_CANDIDATES: Final = 64


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


def displace(state: CycleState, fleet: Fleet) -> Displacement | None:
    """Return the smallest displacement that admits one more replica; None if there is none."""
    values = {other.uid: other.priority.value for other in fleet.others if not other.priority.problem}
    claimed = {
        (who.namespace, who.name) for reservation in state.reservations for who in reservation.instead_of
    }
    free = [replica for replica in fleet.replicas if (replica.namespace, replica.name) not in claimed]
    candidates = _candidates(state, free, values)
    ending = sorted((replica for replica in free if _ends(replica, fleet.stuck_before)), key=_name)
    spare = _Spare(fleet.replicas)
    displacements = (
        _on(state, cluster, ending, candidates, spare) for cluster in _targets(state, candidates)
    )
    return min(
        (displacement for displacement in displacements if displacement),
        key=lambda displacement: _harm(displacement, values),
        default=None,
    )


def _harm(displacement: Displacement, values: Mapping[str, int]) -> tuple[int, int, int, str]:
    remaining = displacement.remaining
    highest = max((values.get(replica.deployment_uid, 0) for replica in remaining), default=-(2**31))
    return sum(replica.serves for replica in remaining), len(remaining), highest, displacement.cluster


def _ends(replica: Replica, stuck_before: str) -> bool:
    """Return True if a replica is being deleted and can be expected to go soon."""
    return replica.deleting and not (replica.deleted and replica.deleted < stuck_before)


def _candidates(state: CycleState, replicas: Iterable[Replica], values: Mapping[str, int]) -> list[Replica]:
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


def _targets(state: CycleState, candidates: Sequence[Replica]) -> list[Cluster]:
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


def _on(
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
    for replica in gone:
        state.ledger.refund(replica.cluster, replica.engines)
        state.quotas.release(replica)
    yield
    for replica in gone:
        state.ledger.charge(replica.cluster, replica.engines)
        state.quotas.release(replica, sign=1)


def _name(replica: Replica) -> tuple[str, str]:
    return replica.namespace, replica.name

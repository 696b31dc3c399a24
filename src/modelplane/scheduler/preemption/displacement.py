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

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.placement.placer import Offer
from modelplane.scheduler.types import Cluster, Fleet, PlacedEngine, Replica
from modelplane.scheduler.verdict import Rejected

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
        return tuple(each for each in self.replicas if not each.withdrawn)

    @property
    def present(self) -> tuple[Replica, ...]:
        """The replicas that nothing deletes yet.

        One that was withdrawn already may have been withdrawn for another reason: its deployment must hear.
        """
        return tuple(each for each in self.replicas if not each.deleting)


def displace(state: CycleState, fleet: Fleet) -> Displacement | None:
    """Return the smallest displacement that admits one more replica; None if there is none."""
    values = {each.uid: each.priority.value for each in fleet.others if not each.priority.problem}
    claimed = {(who.namespace, who.name) for each in state.reservations for who in each.instead_of}
    free = [each for each in fleet.replicas if (each.namespace, each.name) not in claimed]
    candidates = _candidates(state, free, values)
    ending = sorted((each for each in free if _ends(each, fleet.stuck_before)), key=_name)
    spare = _Spare(fleet.replicas)
    found = (_on(state, cluster, ending, candidates, spare) for cluster in _targets(state, candidates))
    return min((each for each in found if each), key=lambda each: _harm(each, values), default=None)


def _harm(displacement: Displacement, values: Mapping[str, int]) -> tuple[int, int, int, str]:
    remaining = displacement.remaining
    highest = max((values.get(each.deployment_uid, 0) for each in remaining), default=-(2**31))
    return sum(each.serves for each in remaining), len(remaining), highest, displacement.cluster


def _ends(replica: Replica, stuck_before: str) -> bool:
    """Return True if a replica is being deleted and can be expected to go soon."""
    return replica.deleting and not (replica.deleted and replica.deleted < stuck_before)


def _candidates(state: CycleState, replicas: Iterable[Replica], values: Mapping[str, int]) -> list[Replica]:
    """Return the replicas that may be displaced, in the order in which they are taken."""
    own = state.deployment.priority.value
    found = []
    for each in replicas:
        value = values.get(each.deployment_uid)
        cluster = state.clusters.get(each.cluster)
        if value is None or value >= own or each.deleting or each.unreachable:
            continue
        if cluster is None or not cluster.ready or state.quotas.quota_of(each.namespace) is None:
            continue
        found.append((not each.withdrawn, not state.quotas.is_borrower(each), value, each))
    # By creation, the newest first, which is not the order of the rest.
    found.sort(key=lambda item: (item[3].created, _name(item[3])), reverse=True)
    found.sort(key=lambda item: item[:3])
    return [each for *_, each in found]


def _targets(state: CycleState, candidates: Sequence[Replica]) -> list[Cluster]:
    """Return the clusters to try: those with capacity, for which only the quota has to be freed, first."""
    ranks: dict[str, int] = {}
    for rank, each in enumerate(candidates):
        ranks.setdefault(each.cluster, rank)
    tried = []
    for name, cluster in state.clusters.items():
        offer = state.offer(cluster)
        if isinstance(offer, Rejected) or not (isinstance(offer, Offer) or name in ranks):
            continue
        tried.append((not isinstance(offer, Offer), ranks.get(name, len(candidates)), name, cluster))
    return [cluster for *_, cluster in sorted(tried, key=lambda item: item[:3])[:_MOST_CLUSTERS]]


class _Spare:
    """Replicas that a deployment can lose: all but the last one, the last that serves, and that answers."""

    def __init__(self, replicas: Iterable[Replica]) -> None:
        there = [each for each in replicas if not each.withdrawn]
        self._there = Counter(each.deployment_uid for each in there)
        self._serving = Counter(each.deployment_uid for each in there if each.serves)
        # One that an edit will restart serves no longer for certain, but may be all that there is.
        self._answering = Counter(each.deployment_uid for each in there if each.answers)

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
    lacks_devices = not isinstance(state.offer(cluster), Offer)
    ordered = sorted(candidates, key=lambda each: lacks_devices and each.cluster != cluster.name)
    taken: list[Replica] = []
    for each in (*ending, *ordered[:_MOST_CANDIDATES]):
        if each.deleting or spare.take(each):
            taken.append(each)
            if _fits(state, cluster, taken):
                break
    else:
        return None
    for each in [each for each in reversed(taken) if not each.deleting]:
        fewer = [other for other in taken if other is not each]
        if _fits(state, cluster, fewer):
            taken = fewer
    engines = _fits(state, cluster, taken)
    return Displacement(cluster.name, engines, tuple(taken)) if engines else None


def _fits(state: CycleState, cluster: Cluster, gone: Sequence[Replica]) -> tuple[PlacedEngine, ...]:
    """Return the place of a replica if others were gone; empty if it has none, or would have to borrow."""
    with _without(state, gone):
        offer = state.offer(cluster)
        if not isinstance(offer, Offer) or state.quotas.refusal(cluster, offer.engines):
            return ()
        return () if state.quotas.borrows(cluster, offer.engines) else offer.engines


@contextmanager
def _without(state: CycleState, gone: Sequence[Replica]) -> Iterator[None]:
    for each in gone:
        state.ledger.refund(each.cluster, each.engines)
        state.quotas.release(each)
    yield
    for each in gone:
        state.ledger.charge(each.cluster, each.engines)
        state.quotas.release(each, sign=1)


def _name(replica: Replica) -> tuple[str, str]:
    return replica.namespace, replica.name

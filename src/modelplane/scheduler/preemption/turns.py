"""Turns: the deployments that come first, and the capacity that is reserved for them.

Where priorities are in use, a new replica is placed only on what is left when every deployment that comes
first has what it waits for: those of higher priority, and of equal priority the older ones with a
PriorityClass. What does not fit anywhere reserves nothing, unless replicas of lower priority are displaced
for it (`displacement`). Nothing of this is stored: each placement derives it anew, in the same order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from modelplane.cel import SelectorError
from modelplane.scheduler.capacity.indices import Indices
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.placement.fill import Filled, fill
from modelplane.scheduler.preemption.displacement import Displacement, displace
from modelplane.scheduler.preemption.reservation import Reservation
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Deployment, Fleet, Replica

_MOST: Final = 16
"""Deployments for which capacity is reserved in one placement, so that many cost no other much time."""

_PART: Final = 4
"""Their search may take this part of what the placement itself may take."""

_MOST_DISPLACING: Final = 4
"""Deployments for which replicas are being displaced at a time, each for one replica."""


class Turns(msgspec.Struct, frozen=True):
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


def find_turns(fleet: Fleet, deployment: Deployment) -> Turns:
    """Return what comes before a deployment; nothing where no priorities are in use."""
    first = _first(fleet, deployment)
    if not first:
        return Turns()
    everyone = replace(fleet, others=(*fleet.others, deployment))
    budget = SearchBudget(_PART)
    reservations: list[Reservation] = []
    displaced: dict[tuple[str, str], str] = {}
    displacing = 0
    for earlier in first[:_MOST]:
        if budget.spent:
            break
        try:
            state = CycleState.begin(everyone, earlier, reservations, budget)
            reservations += _waited_for(state, everyone, displacing < _MOST_DISPLACING)
        except SelectorError:
            continue  # its own conditions say so; it takes nothing
        last = reservations[-1] if reservations else None
        if last and last.deployment.uid == earlier.uid and last.instead_of:
            displacing += 1
            displaced |= {(who.namespace, who.name): _reason(earlier) for who in last.instead_of}
    return Turns(tuple(reservations), displaced, displacing < _MOST_DISPLACING)


def find_displacement(state: CycleState, fleet: Fleet, filled: Filled, count: int) -> Displacement | None:
    """Return the displacement for one of the missing replicas of a deployment; None if there is none."""
    if len(filled.placed) >= count or state.quotas.problem or not state.deployment.priority.preempts:
        return None
    return displace(state.limit_to(filled.market), fleet)


def _first(fleet: Fleet, deployment: Deployment) -> list[Deployment]:
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
    waiting = (other for other in higher if present[other.uid] < other.replicas and not _waits(other))
    return sorted(waiting, key=lambda other: (-other.priority.value, other.order))


def _waits(deployment: Deployment) -> bool:
    return deployment.cache is not None and not deployment.cache.known


def _waited_for(state: CycleState, fleet: Fleet, may_displace: bool) -> Iterable[Reservation]:
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
    filled = fill(state, count, Indices(replicas), staying)
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
        f'(PriorityClass "{priority.class_name}") takes its devices'
    )


def list_displaced(turns: Turns, replicas: Iterable[Replica]) -> dict[str, str]:
    """Return those of the replicas that leave, by name, and why. One that is being deleted is gone anyway."""
    return {
        replica.name: turns.displaced[replica.namespace, replica.name]
        for replica in replicas
        if not replica.deleting and (replica.namespace, replica.name) in turns.displaced
    }

"""Placement of one deployment on the fleet: keep, scale down, fill, diagnose.

Existing replicas are inputs: none is moved to improve a placement.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from modelplane.scheduler.capacity.indices import Indices
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.diagnose import add_turns, diagnose, find_block
from modelplane.scheduler.diagnosis import Block
from modelplane.scheduler.existing import failover
from modelplane.scheduler.existing.drain import drain
from modelplane.scheduler.existing.eviction import evict_noticed
from modelplane.scheduler.existing.retention import Gone, Kept, Leaving, give_way, hold, retain
from modelplane.scheduler.existing.scale_down import choose_victims
from modelplane.scheduler.placement.fill import Filled, fill
from modelplane.scheduler.placement.placement import Assignment, Dropped, Placement
from modelplane.scheduler.placement.spot import find_spot_pools
from modelplane.scheduler.preemption.turns import find_displacement, find_turns, list_displaced
from modelplane.scheduler.types import Deployment, Fleet, Replica


def schedule(fleet: Fleet, deployment: Deployment, *, together: bool = True) -> Placement:
    """Place every replica of the deployment.

    Without `together`, the places of fewer replicas are among those of more; with it, new replicas can be
    cheaper. The result is the same in any order of the fleet's clusters and replicas. Raises SelectorError if
    a selector does not compile or the selectors cost too much; the caller then keeps everything as it is.
    """
    ahead = find_turns(fleet, deployment)
    state = CycleState.begin(fleet, deployment, ahead.reservations)
    ours = [replica for replica in fleet.replicas if replica.deployment_uid == deployment.uid]
    displaced = list_displaced(ahead, ours)
    leaving_now = [replica for replica in ours if replica.name in displaced]

    decisions = retain(state, [replica for replica in ours if replica.name not in displaced])
    decisions = give_way(state, decisions, fleet.replicas)
    decisions = evict_noticed(state, decisions, fleet)
    decisions = drain(state, decisions, fleet)
    hold(decisions, state.ledger)
    kept = [decision for decision in decisions if isinstance(decision, Kept)]
    leaving = [decision for decision in decisions if isinstance(decision, Leaving)]
    gone = [decision for decision in decisions if isinstance(decision, Gone)]

    surplus = failover.find_surplus(state, [decision.replica for decision in kept])
    kept = [decision for decision in kept if decision.replica not in surplus]
    relieved = _relieved(state, kept, leaving)
    leaving = [decision for decision in leaving if decision.replica not in relieved]

    indices = Indices(ours)
    departing = [_leave(decision, indices) for decision in leaving]
    staying = [_stay(decision, indices) for decision in kept]
    shortfall = deployment.replicas - len(kept)
    waits = find_block(state)[0] is not Block.NONE
    filled = Filled() if waits else fill(state, shortfall, indices, kept, together=together)
    # Others see no replica missing while one that leaves is there, so they give up none for its replacement.
    absent = min(shortfall, deployment.replicas - sum(not replica.deleting for replica in ours))
    displacement = (
        find_displacement(state, fleet, filled, absent) if ahead.may_displace and not waits else None
    )
    new = [Assignment(place.cluster, place.index, place.engines) for place in filled.placed]
    assignments = [_priced(state, assignment) for assignment in (*departing, *staying, *new)]
    return Placement(
        tuple(
            sorted(
                assignments, key=lambda assignment: (assignment.cluster, assignment.index, assignment.replica)
            )
        ),
        _dropped(
            [*gone, *(Gone(replica, displaced[replica.name]) for replica in leaving_now)], surplus, relieved
        ),
        add_turns(diagnose(state, kept, leaving, filled), ahead, displaced, displacement),
        state.currency,
        displaces=displacement.present if displacement else (),
    )


def _priced(state: CycleState, assignment: Assignment) -> Assignment:
    cluster = state.clusters.get(assignment.cluster)
    if cluster is None:
        return assignment
    if spot := find_spot_pools(cluster, assignment.engines):
        assignment = replace(assignment, spot_pools=spot)
    if not state.currency:
        return assignment
    return replace(assignment, cost=state.ledger.measure_cost(cluster, assignment.engines, state.currency))


def _relieved(state: CycleState, kept: Sequence[Kept], leaving: Sequence[Leaving]) -> list[Replica]:
    """Return the leaving replicas that are not needed: enough others are known to serve.

    Those of them that serve stay longest, surge or not.
    """
    serving = sum(failover.is_serving(state, decision.replica) for decision in kept)
    needed = max(state.deployment.replicas - serving, 0)
    candidates = [decision.replica for decision in leaving if failover.is_known(state, decision.replica)]
    going = choose_victims(
        [replace(replica, surge=False) for replica in candidates], len(candidates) - needed
    )
    names = {replica.name for replica in going}
    return [replica for replica in candidates if replica.name in names]


def _stay(decision: Kept, indices: Indices) -> Assignment:
    replica = decision.replica
    return Assignment(
        replica.cluster,
        indices.keep(replica),
        decision.engines,
        replica.name,
        retained=True,
        waits=decision.waits,
        held=decision.held,
        reason=decision.reason,
    )


def _leave(decision: Leaving, indices: Indices) -> Assignment:
    replica = decision.replica
    return Assignment(
        replica.cluster,
        indices.keep(replica),
        replica.engines,
        replica.name,
        retained=True,
        leaving=True,
        reason=decision.reason,
    )


def _dropped(
    gone: Sequence[Gone], surplus: Sequence[Replica], relieved: Sequence[Replica]
) -> tuple[Dropped, ...]:
    dropped = [
        *((decision.replica, decision.reason) for decision in gone),
        *((replica, "scaled down") for replica in surplus),
        *((replica, "it no longer fits, and is no longer needed") for replica in relieved),
    ]
    return tuple(
        Dropped(replica.name, replica.cluster, replica.index, reason)
        for replica, reason in sorted(dropped, key=lambda pair: pair[0].name)
    )

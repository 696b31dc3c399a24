"""Evictions: replicas on nodes that a cloud takes back leave, all at once.

A replica whose node has a notice leaves: its replacement is asked for at once, and it serves until that one
does. Before the node is gone, it is withdrawn, so that no request is sent to it any more, if another one
serves. The last one that serves stays until the node is gone.
"""

from collections.abc import Sequence

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.existing import failover
from modelplane.scheduler.existing.retention import Gone, Kept, RetentionDecision, leave
from modelplane.scheduler.types import Fleet, Replica


def evicted(
    state: CycleState, decisions: Sequence[RetentionDecision], fleet: Fleet
) -> list[RetentionDecision]:
    """Let replicas leave whose node is taken back."""
    if not any(each.replica.evicted for each in decisions):
        return list(decisions)
    serves = any(
        isinstance(each, Kept) and not each.replica.evicted and failover.serves(state, each.replica)
        for each in decisions
    )
    return [_decided(state, each, fleet, serves=serves) for each in decisions]


def _decided(
    state: CycleState, decision: RetentionDecision, fleet: Fleet, *, serves: bool
) -> RetentionDecision:
    replica = decision.replica
    if isinstance(decision, Gone) or not replica.evicted:
        return decision
    if serves and _is_due(replica, fleet.evicted_before) and failover.is_known(state, replica):
        if isinstance(decision, Kept):
            leave(state, decision, replica.evicted)
        return Gone(replica, f"{replica.evicted}, and another replica serves")
    return leave(state, decision, replica.evicted) if isinstance(decision, Kept) else decision


def _is_due(replica: Replica, before: str) -> bool:
    return bool(replica.evicted_at) and replica.evicted_at < before

"""Evictions: replicas on nodes that a cloud takes back leave, all at once.

A replica whose node has a notice leaves: its replacement is asked for at once, and it serves until that one
does. Before the node is gone, it is withdrawn, so that no request is sent to it any more, if another one
serves. The last one that serves stays until the node is gone.
"""

from collections.abc import Sequence

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.departures import Cause
from modelplane.scheduler.existing import failover
from modelplane.scheduler.existing.retention import Gone, Kept, RetentionDecision, mark_leaving
from modelplane.scheduler.types import Fleet


def evict_noticed(
    state: CycleState, decisions: Sequence[RetentionDecision], fleet: Fleet
) -> list[RetentionDecision]:
    """Let replicas leave whose node is taken back."""
    if not any(decision.replica.evicted for decision in decisions):
        return list(decisions)
    serves = any(
        isinstance(decision, Kept)
        and not decision.replica.evicted
        and failover.is_serving(state, decision.replica)
        for decision in decisions
    )
    return [_decided(state, decision, fleet, serves=serves) for decision in decisions]


def _decided(
    state: CycleState, decision: RetentionDecision, fleet: Fleet, *, serves: bool
) -> RetentionDecision:
    replica = decision.replica
    if isinstance(decision, Gone) or not replica.evicted:
        return decision
    is_due = bool(replica.evicted_at) and replica.evicted_at < fleet.evicted_before
    if serves and is_due and failover.is_known(state, replica):
        if isinstance(decision, Kept):
            mark_leaving(state, decision, Cause.NODE_GOES, replica.evicted)
        return Gone(replica, Cause.NODE_GOES, f"{replica.evicted}, and another replica is serving")
    if isinstance(decision, Kept):
        return mark_leaving(state, decision, Cause.NODE_GOES, replica.evicted)
    return decision

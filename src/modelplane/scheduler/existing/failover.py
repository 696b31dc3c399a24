"""Failover: which replicas are counted on while clusters are lost.

For a deployment with failover a replica serves if it says so and its cluster is seen. One that is not seen is
never removed, because it may be the last that serves, and never counted on, because it may not serve. When
its cluster answers again there can be one replica too many. Then those that serve stay, and of two that
serve, that on the cluster which was not lost (``scale_down``). Which clusters are lost, and when their
replicas may be replaced, is decided in `deciders/cluster_health.py`.
"""

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.types import Replica


def is_known(state: CycleState, replica: Replica) -> bool:
    """Return True if the state of a replica is as it says; without failover, that is taken for granted."""
    cluster = state.clusters.get(replica.cluster)
    is_unseen = cluster is None or cluster.lost or cluster.doubt or replica.unreachable
    return not (state.deployment.failover and is_unseen)


def is_serving(state: CycleState, replica: Replica) -> bool:
    """Return True if a replica is known to serve, on a cluster that is ready."""
    return replica.serves and state.clusters[replica.cluster].ready and is_known(state, replica)

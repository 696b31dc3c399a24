"""Failover: what is counted on while clusters are lost, in doubt, or come back.

For a deployment with failover a replica serves if it says so and its cluster is seen. One that is not seen
is never removed, because it may be the last that serves, and never counted on, because it may not serve.
When its cluster answers again there can be one replica too many. Then those that serve stay, and of two that
serve, that on the cluster which was not lost.
"""

from collections.abc import Container, Sequence

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.existing.scale_down import choose_victims
from modelplane.scheduler.placement.spot import find_spared
from modelplane.scheduler.types import Cluster, Replica


def describe_removal(cluster: Cluster) -> str:
    """Return when a replica on a lost cluster is removed, as part of a sentence."""
    return f'InferenceCluster "{cluster.name}" answers again and a replacement serves, or is deleted'


def is_known(state: CycleState, replica: Replica) -> bool:
    """Return True if the state of a replica is as it says; without failover, that is taken for granted."""
    cluster = state.clusters.get(replica.cluster)
    is_unseen = cluster is None or cluster.lost or cluster.doubt or replica.unreachable
    return not (state.deployment.failover and is_unseen)


def is_serving(state: CycleState, replica: Replica) -> bool:
    """Return True if a replica is known to serve, on a cluster that is ready."""
    return replica.serves and state.clusters[replica.cluster].ready and is_known(state, replica)


def find_surplus(
    state: CycleState, kept: Sequence[Replica], count: int, first: Container[str] = ()
) -> list[Replica]:
    """Return the replicas beyond a number, those whose names are in `first` before others.

    While a cluster comes back with too few replicas that serve, none is: the first that serves stays.
    """
    certain = [replica for replica in kept if is_known(state, replica)]
    too_many = len(certain) - count
    if too_many <= 0:
        return []
    returning = {name for name, cluster in state.clusters.items() if cluster.returning}
    if any(replica.cluster in returning for replica in certain):
        serving = sum(replica.ready for replica in certain)
        too_many = too_many if serving >= count else 0
    spares = find_spared(state.deployment, state.clusters, certain, first)
    going = choose_victims(certain, too_many, first, returning, spares)
    staying = [replica for replica in certain if replica not in going]
    if spares and not any(is_serving(state, replica) for replica in staying):
        # One that is spared is to serve before the last one that does is removed.
        going = [replica for replica in going if not replica.serves]
    return going

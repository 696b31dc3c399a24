"""Scale-down: which replicas leave first if there are too many.

Those that are in addition, or beyond what a canary needs, are first; then those that are known not to serve;
then those that cannot be seen, because they may serve; then those of the cluster with the most of them (the
last by name on a tie), with the highest index. Those that spot settings spare are last.
"""

from collections import Counter
from collections.abc import Container, Sequence

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.existing.failover import is_known, is_serving
from modelplane.scheduler.placement.spot import find_spared
from modelplane.scheduler.types import Replica


def find_surplus(
    state: CycleState, kept: Sequence[Replica], count: int, first: Container[str]
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


def choose_victims(
    replicas: Sequence[Replica],
    surplus: int,
    first: Container[str] = (),
    distrusted: Container[str] = (),
    spared: Container[str] = (),
) -> list[Replica]:
    """Return `surplus` replicas to remove, in order; of two that serve, that on a `distrusted` cluster.

    Those whose names are in `first` come first, and those that are `spared` last.
    """
    left = list(replicas)
    chosen: list[Replica] = []
    load = Counter(replica.cluster for replica in left)
    while left and len(chosen) < surplus:
        victim = max(
            left,
            key=lambda replica: (
                replica.name not in spared,
                replica.name in first,
                not replica.serves,
                not replica.unreachable,
                replica.cluster in distrusted,
                load[replica.cluster],
                replica.cluster,
                replica.index,
                replica.name,
            ),
        )
        left.remove(victim)
        load[victim.cluster] -= 1
        chosen.append(victim)
    return chosen

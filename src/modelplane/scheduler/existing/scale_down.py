"""Scale-down: the choice of the replicas to remove.

Those that are in addition, or beyond what a canary needs, are removed first; then replicas that are known not
to serve; then those that cannot be seen, because they may serve; then those of the cluster with the most of
them (the last by name on a tie), with the highest index.
"""

from collections import Counter
from collections.abc import Container, Sequence

from modelplane.scheduler.types import Replica


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

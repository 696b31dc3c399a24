"""The snapshot that a placement is computed from.

One rule: it is complete. A cluster that is not in it does not exist; a caller that cannot list everything
does not schedule.
"""

from dataclasses import dataclass

from modelplane.scheduler.cluster import Cluster
from modelplane.scheduler.replica import Replica


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every InferenceCluster, and every ModelReplica of every deployment, in any order.

    A replica that was decided and is not observed yet belongs here too: its room is taken.
    """

    clusters: tuple[Cluster, ...] = ()
    replicas: tuple[Replica, ...] = ()

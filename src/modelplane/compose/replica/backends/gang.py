"""Gangs: an engine with a Leader and Workers on several nodes runs as a LeaderWorkerSet."""

from modelplane.api.fields.pods.engines import Role
from modelplane.api.meta import Object
from modelplane.compose.replica.backends.backend import Backend, Claims, engine_key
from modelplane.compose.replica.backends.engine_pods import pod_template
from modelplane.compose.replica.backends.workload import Workload, is_gang
from modelplane.compose.workload_kinds import LEADER_WORKER_SET

_NAME_LENGTH = 49
"""Characters that a LeaderWorkerSet leaves: its pods' labels hold ``<name>-<group>-<revision>``."""


def _leader_worker_set(workload: Workload, claims: Claims) -> Object:
    leader = workload.head
    worker = next(member for member in workload.engine.members if member.role is Role.WORKER)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": workload.metadata(),
        "spec": {
            "replicas": workload.engine.copies,
            # A leader is ready only once its workers have joined, so they must not wait for it.
            "startupPolicy": "LeaderCreated",
            # A pool has no spare nodes for a surge, so an old group stops before the new one starts.
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "leaderWorkerTemplate": {
                "size": 1 + worker.pods,
                # The ranks of a gang cannot rejoin one by one.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": pod_template(workload, leader, claims[leader.role]),
                "workerTemplate": pod_template(workload, worker, claims[worker.role]),
            },
        },
    }


GANG = Backend(
    engine_key("model-gang-{}"), is_gang, _leader_worker_set, LEADER_WORKER_SET, "as a gang", _NAME_LENGTH
)

"""Engines of several pods: a LeaderWorkerSet, whose groups start and restart together."""

from modelplane.api.model_replica import PlacedMember
from modelplane.compose.backends.pods import pod_template
from modelplane.compose.backends.workload import Workload
from modelplane.compose.composition import Object


def leader_worker_set(
    workload: Workload, worker: PlacedMember, leader_claim: Object | None, worker_claim: Object | None
) -> Object:
    """Return the LeaderWorkerSet of a Leader and its Workers."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
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
                "size": 1 + (worker.worker.nodes if worker.worker else 1),
                # The ranks of a gang cannot rejoin one by one.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": pod_template(workload, workload.head, leader_claim),
                "workerTemplate": pod_template(workload, worker, worker_claim),
            },
        },
    }

"""Backends: the workloads that run engines: Deployments, LeaderWorkerSets for gangs, and those of others.

A backend is a ``Backend`` and its entry in ``table.py``. KServe's is in ``kserve.py``.

Nodes are drained by eviction. All pods of a gang share one budget, because losing one pod loses its group:
until a group is back, no pod of another one can be evicted. A pod that does not serve can always be evicted:
it has nothing to protect, and would only block the drain. So can the only pod of an engine, which therefore
has no budget.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from modelplane.api import labels
from modelplane.api.fields.pods.engines import Role, ServingBackend
from modelplane.api.meta import Object
from modelplane.api.model_deployment import Engine
from modelplane.api.model_replica import ModelReplica, PlacedEngine
from modelplane.api.names import DIGITS, child_name
from modelplane.api.rejected import Rejected
from modelplane.compose.replica.backends.engine_pods import STARTUP_TIMEOUT_S, pod_template
from modelplane.compose.replica.backends.workload import Marks, Workload
from modelplane.compose.workload_kinds import DEPLOYMENT, LEADER_WORKER_SET, WorkloadKind

Claims = Mapping[Role, Object | None]
"""The ResourceClaimTemplate of each member's pods; None if they claim nothing."""


_LEADER: Final = {labels.LWS_ROLE: "leader"}
_NO_LEADER: Final = {"key": labels.LWS_ROLE, "operator": "DoesNotExist"}


def own_marks(replica: ModelReplica, _engine: PlacedEngine, name: str) -> Marks:
    """Return the labels that Modelplane itself sets on the pods of a workload of a name."""
    return Marks({labels.WORKLOAD: name}, _LEADER, _NO_LEADER, {labels.SERVING: replica.metadata.name})


def engine_key(key_format: str) -> Callable[[ModelReplica, PlacedEngine], str]:
    """Return the key of a workload, from the engine's name. Never changed: another key is another child."""
    return lambda _replica, engine: key_format.format(engine.name)


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of workload that runs engines of one shape."""

    key: Callable[[ModelReplica, PlacedEngine], str]
    """Returns the key of an engine's workload, which the engines of one workload share."""
    runs: Callable[[PlacedEngine], bool]
    """Returns True if it runs an engine of a replica with its choice."""
    workload: Callable[[Workload, Claims], Object]
    """Compose the workload of an engine, or of all engines that share it."""
    kind: WorkloadKind
    role: str = ""
    """The purpose of the kind, in messages about clusters that lack it."""
    name_length: int = 63
    """Maximum length of a workload's name."""
    choice: ServingBackend = ServingBackend.MODELPLANE
    """The choice of a replica that it belongs to."""
    heads: Callable[[ModelReplica, PlacedEngine], bool] = lambda _replica, _engine: True
    """Returns False for an engine that runs in the workload of another one."""
    marks: Callable[[ModelReplica, PlacedEngine, str], Marks] = own_marks
    """Returns the labels by which the pods of an engine are found."""
    rejected: Callable[[ModelReplica], Rejected | None] = lambda _replica: None
    """Returns why it cannot run the engines of a replica; None if it can."""

    def name(self, replica: ModelReplica, engine: PlacedEngine) -> str:
        """Return the name of an engine's workload; never the replica's own, which is the Service's."""
        return shortened(child_name(replica.metadata.name, engine.name), self.name_length)


def shortened(name: str, most: int) -> str:
    """Return the name of a child with at most some characters, with the digits that make it unique."""
    if len(name) <= most:
        return name
    suffix = name[-DIGITS - 1 :]
    return name[: most - len(suffix)].rstrip("-") + suffix


_NAME_LENGTH = 49
"""Characters that a LeaderWorkerSet leaves: its pods' labels hold ``<name>-<group>-<revision>``."""


def is_gang(engine: Engine | PlacedEngine) -> bool:
    """Return True if an engine, before or after its placement, has a Leader and a Worker."""
    return len(engine.members) > 1


def _leader_worker_set(workload: Workload, claims: Claims) -> Object:
    """Return the LeaderWorkerSet of a Leader and its Workers."""
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


def disruption_budget(workload: Workload) -> Object | None:
    """Return the PodDisruptionBudget of an engine; None if it has one pod, whose eviction none prevents."""
    if workload.engine.copies == 1 and not is_gang(workload.engine):
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": dict(workload.marks.pods)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _deployment(workload: Workload, claims: Claims) -> Object:
    """Return the Deployment of a Standalone engine."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": workload.metadata(),
        "spec": {
            "replicas": workload.engine.copies,
            "selector": {"matchLabels": {labels.WORKLOAD: workload.name}},
            "progressDeadlineSeconds": STARTUP_TIMEOUT_S,
            # A pool has no spare node for a surge, so an old pod stops before the new one starts.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": pod_template(workload, workload.head, claims[workload.head.role]),
        },
    }


STANDALONE = Backend(
    engine_key("model-serving-{}"), lambda engine: not is_gang(engine), _deployment, DEPLOYMENT
)

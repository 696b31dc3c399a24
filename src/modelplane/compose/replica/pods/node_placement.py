"""Node placement of an engine's pods.

The scheduler's choice of the pool is required. The pods of one gang that claim devices must be on different
nodes, because the scheduler counted them so. All other terms are preferences, such as copies apart and
communicating pods together, and never keep a pod pending.
"""

from typing import Any, Final

from modelplane.api import labels
from modelplane.api.fields.cluster.node_pools import NodeTaint, NodeTaintEffect
from modelplane.api.fields.pods.engines import Role
from modelplane.api.model_replica import PlacedMember
from modelplane.compose.replica.backends.workload import Workload

_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
GPU_TAINT: Final = "nvidia.com/gpu"

_GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
"""Label of a LeaderWorkerSet's pods: equal within a gang, different between gangs."""


def node_rules(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    """Return the fields of a pod's spec that place it on nodes."""
    rules: dict[str, Any] = {
        "nodeSelector": {labels.POOL: member.node_pool_name},
        "tolerations": _tolerations(workload.taints.get(member.node_pool_name, ())),
    }
    if affinity := _affinity(workload, member):
        rules["affinity"] = affinity
    if member.role is not Role.WORKER:
        rules["topologySpreadConstraints"] = _spread(workload, member)
    return rules


def _tolerations(taints: tuple[NodeTaint, ...]) -> list[dict[str, str]]:
    gpu = {"key": GPU_TAINT, "operator": "Exists", "effect": str(NodeTaintEffect.NO_SCHEDULE)}
    return [
        gpu,
        *(
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": str(taint.effect)}
            for taint in taints
            if (taint.key, taint.effect) != (GPU_TAINT, NodeTaintEffect.NO_SCHEDULE)
        ),
    ]


def _affinity(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if apart := _claiming_pods(workload, member):
        term = {"labelSelector": apart, "matchLabelKeys": [_GROUP_KEY], "topologyKey": _HOST}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    near: list[dict[str, Any]] = []
    if workload.phase is not None and member.role is not Role.WORKER:
        # The prefill phase sends its KV cache to the decode phase.
        near.append({"labelSelector": {"matchLabels": dict(workload.marks.serving)}})
    if workload.follower is not None:
        own = {"matchLabels": dict(workload.marks.pods)}
        near.append({"labelSelector": own, "matchLabelKeys": [_GROUP_KEY]})
    if near:
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": {**term, "topologyKey": _ZONE}} for term in near
            ]
        }
    return affinity


def _claiming_pods(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    """Return the expressions that select the other pods with a node of their own; empty if there are none.

    A member without claims does not need a node of its own, so it can share one.
    """
    worker = workload.follower
    if worker is None or not worker.device_requests or not member.device_requests:
        return {}
    selector: dict[str, Any] = {"matchLabels": dict(workload.marks.pods)}
    if not workload.head.device_requests:
        selector["matchExpressions"] = [dict(workload.marks.others)]
    return selector


def _spread(workload: Workload, member: PlacedMember) -> list[dict[str, Any]]:
    """Return the preference for copies on other nodes, and in other zones unless they communicate much."""
    copies = dict(workload.marks.pods)
    if member.role is Role.LEADER:
        copies |= workload.marks.leader
    keys = (_HOST, _ZONE) if workload.phase is None else (_HOST,)
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": copies},
        }
        for key in keys
    ]

"""On which nodes the pods of an engine go.

The pool is the scheduler's choice and binds. The pods of one gang that claim devices must be on
different nodes, because that is what was counted for them. Everything else is a wish: copies apart,
what exchanges much together, and no wish keeps a pod from running.
"""

from typing import Any

from modelplane.api import labels
from modelplane.api.engines import Role
from modelplane.api.model_replica import PlacedMember
from modelplane.api.node_pools import NodeTaint, NodeTaintEffect
from modelplane.compose.backends.workload import Workload

_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_GPU_TAINT = "nvidia.com/gpu"

_GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
"""On the pods of a LeaderWorkerSet: the same on those of one gang, and on no other."""

LEADER = "leader"
"""Value of the label that tells the leaders of a gang."""


def node_rules(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    """Return the part of a pod's spec that says where it goes."""
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
    gpu = {"key": _GPU_TAINT, "operator": "Exists", "effect": str(NodeTaintEffect.NO_SCHEDULE)}
    return [
        gpu,
        *(
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": str(taint.effect)}
            for taint in taints
            if (taint.key, taint.effect) != (_GPU_TAINT, NodeTaintEffect.NO_SCHEDULE)
        ),
    ]


def _affinity(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if apart := _claiming_pods(workload, member):
        term = {"labelSelector": apart, "matchLabelKeys": [_GROUP_KEY], "topologyKey": _HOST}
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    near: list[dict[str, Any]] = []
    if workload.phase is not None and member.role is not Role.WORKER:
        # The phases hand the KV cache over to one another.
        near.append({"labelSelector": {"matchLabels": {labels.SERVING: workload.replica.metadata.name}}})
    if workload.follower is not None:
        own = {"matchLabels": {labels.WORKLOAD: workload.name}}
        near.append({"labelSelector": own, "matchLabelKeys": [_GROUP_KEY]})
    if near:
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "podAffinityTerm": {**term, "topologyKey": _ZONE}} for term in near
            ]
        }
    return affinity


def _claiming_pods(workload: Workload, member: PlacedMember) -> dict[str, Any]:
    """Return what selects the other pods that need a node of their own; empty where there are none.

    A member that claims nothing costs no node, so it goes beside the others.
    """
    worker = workload.follower
    if worker is None or not worker.device_requests or not member.device_requests:
        return {}
    selector: dict[str, Any] = {"matchLabels": {labels.WORKLOAD: workload.name}}
    if not workload.head.device_requests:
        selector["matchExpressions"] = [{"key": labels.LWS_ROLE, "operator": "DoesNotExist"}]
    return selector


def _spread(workload: Workload, member: PlacedMember) -> list[dict[str, Any]]:
    """Return the wish that copies be apart: on other nodes, and in other zones unless they exchange much."""
    copies = {labels.WORKLOAD: workload.name}
    if member.role is Role.LEADER:
        copies[labels.LWS_ROLE] = LEADER
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

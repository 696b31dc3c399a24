"""Signs that a node is about to be taken back: taints, annotations and conditions of each cloud.

A row of ``SIGNS`` names one, and the seconds from it until the node is gone: of a spot node, and of others.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.api.schema.untyped import get_list, get_map


class Where(StrEnum):
    """Part of a node that has the sign; the values are words of sentences."""

    TAINT = "taint"
    ANNOTATION = "annotation"
    CONDITION = "condition"


class Sign(msgspec.Struct, frozen=True):
    """A sign on a node. Conditions have a ``status``, and ``says`` is a part of the message."""

    where: Where
    key: str
    spot_s: int
    others_s: int
    status: str = "True"
    says: str = ""


SIGNS: Final = (
    # Ours, which a person or any handler can set. The annotation may have the time at which the node goes.
    Sign(Where.ANNOTATION, labels.EVICTION_NOTICE, 120, 120),
    Sign(Where.TAINT, labels.EVICTION_NOTICE, 120, 120),
    # GKE's maintenance handler. Source: GKE, "Spot VMs", "Manage GKE node disruption for GPUs and TPUs".
    Sign(Where.TAINT, "cloud.google.com/impending-node-termination", 30, 3600),
    # AWS Node Termination Handler with taintNode. Source: its configuration; EC2, "Spot Instance
    # interruption notices".
    Sign(Where.TAINT, "aws-node-termination-handler/spot-itn", 120, 120),
    Sign(Where.TAINT, "aws-node-termination-handler/asg-lifecycle-termination", 120, 120),
    # Karpenter, which also takes interruption notices. Source: Karpenter, "Disruption".
    Sign(Where.TAINT, "karpenter.sh/disrupted", 120, 120),
    # AKS. Source: "Azure Kubernetes Service (AKS) node auto-drain", "Scheduled Events for Linux VMs"; the
    # node problem detector's condition; Cloud Provider for Azure, "Instant drain detection".
    Sign(Where.CONDITION, "VMEventScheduled", 30, 600, says="Preempt Scheduled"),
    Sign(Where.CONDITION, "PreemptScheduled", 30, 600),
    Sign(Where.TAINT, "remediator.kubernetes.azure.com/unschedulable", 30, 600),
    Sign(Where.TAINT, "cloudprovider.azure.microsoft.com/draining", 30, 600),
    # The kubelet, when its machine shuts down. Source: Kubernetes, "Node Shutdowns".
    Sign(Where.CONDITION, "Ready", 30, 30, status="False", says="node is shutting down"),
    Sign(Where.TAINT, "node.kubernetes.io/out-of-service", 0, 0),
)
"""Every sign. A node with several has the first."""

_LONGEST_DEADLINE: Final = 64


class NodeNotice(msgspec.Struct, frozen=True, gc=False):
    """The sign of a node: its cause in words, the seconds that it leaves, and the time if it has one."""

    cause: str
    spot_s: int
    others_s: int
    deadline: str = ""


def notice(item: Object) -> NodeNotice | None:
    """Return the first sign of a Node; None if it has none."""
    return next(_found(item), None)


def _found(item: Object) -> Iterator[NodeNotice]:
    metadata, spec, status = (get_map(item.get(field)) for field in ("metadata", "spec", "status"))
    annotations = get_map(metadata.get("annotations"))
    taints = {str(get_map(taint).get("key", "")) for taint in get_list(spec.get("taints"))}
    conditions = {
        str(get_map(entry).get("type", "")): get_map(entry) for entry in get_list(status.get("conditions"))
    }
    for sign in SIGNS:
        deadline = ""
        if sign.where is Where.ANNOTATION:
            is_there = sign.key in annotations
            deadline = str(annotations.get(sign.key, ""))[:_LONGEST_DEADLINE]
        elif sign.where is Where.TAINT:
            is_there = sign.key in taints
        else:
            condition = conditions.get(sign.key, {})
            is_there = condition.get("status") == sign.status and sign.says in str(
                condition.get("message", "")
            )
        if is_there:
            yield NodeNotice(f"{sign.where} {sign.key}", sign.spot_s, sign.others_s, deadline)

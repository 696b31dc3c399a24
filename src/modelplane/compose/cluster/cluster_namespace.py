"""Namespace on a cluster: children are written only into namespaces that are Modelplane's.

A tenant chooses the name of a namespace on the control plane. On a cluster, the namespace of that name may be
another's, with Secrets that pods could mount. So Modelplane writes into a namespace that it made, which has
its label; into one that the cluster's administrator has given the label; and into the owner's own namespace,
where the cluster is the control plane.
"""

from collections.abc import Mapping
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.meta import Object
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Request, Requirement

HOME_KEY: Final = "own-namespace"
"""Key of the requirement for the owner's namespace on the control plane."""

OURS: Final = {labels.MANAGED_BY: "modelplane"}
"""The label of a namespace that Modelplane may write into."""

RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "baseline"}
"""The label of a namespace whose pods do not reach the node."""

MADE: Final = {**OURS, **RESTRICTED}
"""The labels of a namespace that Modelplane makes for a team."""


def key(cluster: str) -> str:
    """Return the key of the requirement for the namespace on a cluster."""
    return f"namespace-{cluster}"


def requirement(namespace: str, cluster: str) -> Requirement:
    """Return the requirement for the namespace on a cluster."""
    return Requirement(key(cluster), "v1", "Namespace", name=namespace, cluster=cluster)


def home(namespace: str) -> Requirement:
    """Return the requirement for the owner's namespace on the control plane."""
    return Requirement(HOME_KEY, "v1", "Namespace", name=namespace)


def is_ours(namespace: Object) -> bool:
    """Return True if a namespace has Modelplane's label."""
    own: Mapping[str, str] = namespace["metadata"].get("labels", {})
    return OURS.items() <= own.items()


def terminating(request: Request[Any, Any], cluster: str) -> Rejected | None:
    """Return that the owner's namespace on a cluster that was read is being deleted; None if it is not."""
    for found in request.found(key(cluster)):
        if "deletionTimestamp" in found["metadata"]:
            name = found["metadata"]["name"]
            return Rejected(
                Reason.NAMESPACE_TERMINATING,
                f'Namespace "{name}" on cluster "{cluster}"',
                "is being deleted, so nothing can be written to it until the deletion completes",
                f"to see what blocks the deletion, run `kubectl describe namespace {name}`",
            )
    return None


def rejected(request: Request[Any, Any], cluster: str) -> Rejected | None:
    """Return why nothing may be written into the owner's namespace on a cluster that was read."""
    same = {item["metadata"].get("uid") for item in request.found(HOME_KEY)} - {None}
    for found in request.found(key(cluster)):
        name = found["metadata"]["name"]
        if not is_ours(found) and found["metadata"].get("uid") not in same:
            label = next(f"{key}={value}" for key, value in OURS.items())
            return Rejected(
                Reason.NAMESPACE_NOT_LABELED,
                f'Namespace "{name}" on cluster "{cluster}"',
                "does not belong to Modelplane, so nothing is written to it",
                f"ask the cluster's administrator to run `kubectl label namespace {name} {label}`",
            )
    return None

"""Nodes: conventions that the pools of every cloud share."""

from collections.abc import Iterable
from typing import Final

from modelplane.api.node_pools import NodeTaint, NodeTaintEffect

SYSTEM: Final = "system"
"""Name of the pool for everything but models. Source: reference behaviour, section 1.5."""

WITHOUT_LATE_INITIALIZATION: Final = ("Observe", "Create", "Update", "Delete")
"""Management policies of a pool: the number of nodes that an autoscaler sets is not taken over into the
desired state. Source: Crossplane, "Managed Resources", management policies."""

EFFECTS: Final = {
    NodeTaintEffect.NO_SCHEDULE: "NO_SCHEDULE",
    NodeTaintEffect.PREFER_NO_SCHEDULE: "PREFER_NO_SCHEDULE",
    NodeTaintEffect.NO_EXECUTE: "NO_EXECUTE",
}
"""Effects of taints, as clouds write them. Source: GKE API, ``NodeTaint.Effect``; EKS API, ``Taint``."""


def taints(listed: Iterable[NodeTaint]) -> list[dict[str, str]]:
    """Return taints in the form of a cloud."""
    return [{"key": each.key, "value": each.value, "effect": EFFECTS[each.effect]} for each in listed]

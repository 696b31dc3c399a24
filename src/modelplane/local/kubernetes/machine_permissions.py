"""Permissions of controllers and nodes on this machine: those of any cluster, and the local ones."""

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.install.identity_permissions import (
    INFERENCE_CLUSTER,
    SYSTEM,
    TEAMS,
    list_cluster_rules,
    list_control_plane_rules,
    list_copy_rules,
)
from modelplane.install.roles import Role, Rule
from modelplane.kube.resources import Object

CONTROLLERS = "modelplane:controllers"
"""The group of the controllers' identity."""

OWN_GATEWAY = (
    Rule(
        "gateway.networking.k8s.io",
        ("gateways/status",),
        ("patch",),
        "This machine's Envoy is its gateway, and no other controller reports its address.",
    ),
    Rule(
        "discovery.k8s.io",
        ("endpointslices",),
        ("list", "watch"),
        "The gateway sends requests directly to the pods that serve.",
    ),
)

_NODE = (
    Rule("", ("persistentvolumeclaims",), ("list", "watch"), "A node creates the volumes of claims."),
    Rule(
        "",
        ("persistentvolumeclaims/status",),
        ("patch",),
        "The node reports the new size of a claim that grew.",
    ),
    Rule(
        "apps",
        ("deployments", "replicasets"),
        ("get",),
        "The node runs some programs only for pods that the controllers composed, which their owners show.",
    ),
    Rule("batch", ("jobs",), ("get",), "As for Deployments: a Job fills the volume of a ModelCache."),
    Rule(
        "",
        ("persistentvolumes",),
        ("list", "watch", "create", "patch", "delete"),
        "Volumes are folders of a node, and only the node knows when one is removed.",
    ),
)
"""Permissions of a node, beyond those of the API server's Node authorizer."""

_NODES = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
_GROUP = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": CONTROLLERS}
_NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}


def build_manifests() -> list[Object]:
    """Return the manifests for a control plane that is its own only cluster."""
    return [*build_fleet_roles(), *build_cluster_roles()[1:]]


def build_fleet_roles() -> list[Object]:
    """Return the system namespace, and the roles of the controllers on the fleet's own control plane."""
    return [
        _NAMESPACE,
        *Role("ClusterRole", "modelplane-controller", list_control_plane_rules() + TEAMS, {}).bound_to(
            _GROUP
        ),
        *Role("Role", "modelplane-controller", SYSTEM, {}).bound_to(_GROUP, SYSTEM_NAMESPACE),
    ]


def build_cluster_roles() -> list[Object]:
    """Return the system namespace, and the roles of controllers and node on a cluster that runs models."""
    rules = (*list_cluster_rules(), *list_copy_rules(), *OWN_GATEWAY)
    return [
        _NAMESPACE,
        *Role("ClusterRole", INFERENCE_CLUSTER, rules, {}).bound_to(_GROUP),
        *Role("ClusterRole", "modelplane-node", _NODE, {}).bound_to(_NODES),
    ]

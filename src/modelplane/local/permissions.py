"""What the controllers may do on this machine: as on any cluster, and what only they do here."""

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.install.permissions import CLUSTER, FLEET, INFERENCE_CLUSTER, SYSTEM, TEAMS, Role, Rule
from modelplane.kube.resources import Object

CONTROLLERS = "modelplane:controllers"
"""The group of the controllers' identity."""

_OWN_GATEWAY = (
    Rule(
        "gateway.networking.k8s.io",
        ("gateways/status",),
        ("patch",),
        "This machine's Envoy is its gateway, and nobody else would say where that is.",
    ),
)


def manifests() -> list[Object]:
    """Return the system namespace, and the roles of the controllers with their bindings."""
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": CONTROLLERS}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
        *Role("ClusterRole", "modelplane-controller", FLEET + TEAMS, {}).bound_to(group),
        *Role("Role", "modelplane-controller", SYSTEM, {}).bound_to(group, SYSTEM_NAMESPACE),
        *Role("ClusterRole", INFERENCE_CLUSTER, CLUSTER + _OWN_GATEWAY, {}).bound_to(group),
    ]

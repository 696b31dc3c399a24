"""What the controllers may do, rule by rule (Kubernetes RBAC)."""

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.kube.resources import Object

CONTROLLERS = "modelplane:controllers"
"""The group of the controllers' identity."""

_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "patch", "delete"]

_FLEET = [
    {"apiGroups": ["modelplane.ai"], "resources": ["*"], "verbs": [*_WRITE, "update"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": _READ},
]
"""On the control plane: the kinds, their status and finalizers, events about them, and what engines name."""

_CLUSTER = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": _WRITE},
    {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["leaderworkersets"], "verbs": _WRITE},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _WRITE},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _WRITE},
    {
        "apiGroups": [""],
        "resources": ["configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"],
        "verbs": _WRITE,
    },
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["rolebindings", "roles"],
        "verbs": _WRITE,
    },
    {"apiGroups": ["inference.networking.k8s.io"], "resources": ["inferencepools"], "verbs": _WRITE},
    # Nobody can grant what he may not do, and endpoint pickers read these.
    {"apiGroups": ["inference.networking.x-k8s.io"], "resources": ["inferenceobjectives"], "verbs": _READ},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaimtemplates"], "verbs": _WRITE},
    {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["httproutes"], "verbs": _WRITE},
    {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gateways"], "verbs": _READ},
    {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gateways/status"], "verbs": ["patch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["pods"], "verbs": _READ},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]},
]
"""On an inference cluster: the workloads that serve, and what is read of them."""


def manifests() -> list[Object]:
    """Return the system namespace, and the roles of the controllers with their bindings."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
        *_granted("modelplane-controller", _FLEET),
        *_granted("modelplane-inference-cluster", _CLUSTER),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "modelplane-kubeconfigs", "namespace": SYSTEM_NAMESPACE},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": _READ}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "modelplane-kubeconfigs", "namespace": SYSTEM_NAMESPACE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "modelplane-kubeconfigs",
            },
            "subjects": [_subject()],
        },
    ]


def _granted(name: str, rules: list[dict[str, list[str]]]) -> list[Object]:
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [_subject()],
        },
    ]


def _subject() -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": CONTROLLERS}

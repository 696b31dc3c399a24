"""Access to copies of Secrets and ConfigMaps on a cluster, namespace by namespace.

On the whole cluster, the fleet's identity may only delete such objects, and admission policies say which. Its
access to the copies of a namespace is a RoleBinding there, which it makes itself before the first copy. The
policies admit that binding in labeled namespaces, for this role and this identity.
"""

from collections.abc import Mapping
from typing import Any, Final

from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.compose.cluster.cluster_kubeconfig import ACCOUNT
from modelplane.compose.cluster.cluster_namespace import OURS

ROLE: Final = f"{ACCOUNT}-copies"
"""The ClusterRole that reads and writes copies, and its binding in each namespace."""


def binding(namespace: str) -> Object:
    """Return the binding that gives the identity the copies of a namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": ROLE, "namespace": namespace, "labels": dict(OURS)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM_NAMESPACE}],
    }


def is_binding(item: Mapping[str, Any]) -> bool:
    """Return True if an object is such a binding."""
    return (item["kind"], item["metadata"]["name"]) == ("RoleBinding", ROLE)

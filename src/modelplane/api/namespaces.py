"""Namespaces that are reserved for system components.

The children of a tenant's object go to the namespace of the same name on each inference cluster. In these
namespaces they would be among the cluster's own components.
"""

from typing import Final

from modelplane.api.meta import CERTIFICATE_NAMESPACE, GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.api.rejected import Rejected

RESERVED_PREFIX: Final = "kube-"
"""Prefix that Kubernetes keeps for itself (Kubernetes documentation, "Namespaces")."""

RESERVED: Final = (
    SYSTEM_NAMESPACE,
    GATEWAY_NAMESPACE,
    CERTIFICATE_NAMESPACE,
    "crossplane-system",
    "envoy-ai-gateway-system",
    "envoy-gateway-system",
    "lws-system",
)
"""Namespaces of Modelplane and of the components that it needs."""


def check_reserved(namespace: str) -> Rejected | None:
    """Return why a namespace is reserved, with the remedy; None if it is not."""
    if not namespace.startswith(RESERVED_PREFIX) and namespace not in RESERVED:
        return None
    return Rejected(
        subject=f'namespace "{namespace}"',
        detail="is reserved for system components",
        remedy="use a namespace of your own",
    )


def has_route(namespace: str, address: str | None) -> bool:
    """Return True if a ModelService has a route: in a reserved namespace only if it had an address before."""
    return bool(address) or not check_reserved(namespace)

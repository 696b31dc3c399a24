"""Policies of Envoy Gateway beside a Gateway, whose defaults are not those of the fleet's own Envoy."""

from collections.abc import Iterator
from typing import Any, Final

from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.compose.composition import Desired
from modelplane.compose.readiness import exists

API: Final = "gateway.envoyproxy.io"

LIMITS: Final = "modelplane-limits"
"""Name of the policy for requests to backends."""

REQUESTS: Final = "modelplane-requests"
"""Name of the policy for requests of clients."""

KEYS: Final = ("gateway-limits", "gateway-requests")
"""Keys of the policies."""

_UNLIMITED: Final = 4_294_967_295
"""The largest limit of Envoy. Its default of 1,024 requests answers 503 for a busy model; engines queue."""

AS_SENT: Final = {
    # By default, %2F in a path is answered with a redirection to another path.
    "path": {"escapedSlashesAction": "KeepUnchanged"},
    # By default, a request with such a header is rejected. Some servers read modelplane_client as
    # modelplane-client, so it is removed.
    "headers": {"withUnderscoresAction": "DropHeader"},
}
"""The part of a ClientTrafficPolicy by which requests reach a backend as they were sent."""


def policies(gateway: str, cluster: str = "") -> Iterator[Desired]:
    """Yield the policies of a Gateway: on a cluster, or on the control plane's own if none is named."""
    to_backends = {
        "circuitBreaker": {
            "maxConnections": _UNLIMITED,
            "maxPendingRequests": _UNLIMITED,
            "maxParallelRequests": _UNLIMITED,
        },
        # By default, the family is that of the Service that stands for an endpoint: IPv4 only.
        "dns": {"lookupFamily": "IPv4Preferred"},
    }
    manifests = (
        _policy("BackendTrafficPolicy", LIMITS, gateway, to_backends),
        _policy("ClientTrafficPolicy", REQUESTS, gateway, AS_SENT),
    )
    for key, manifest in zip(KEYS, manifests, strict=True):
        yield Desired(key, manifest, exists, cluster)


def _policy(kind: str, name: str, gateway: str, settings: dict[str, Any]) -> Object:
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": gateway}
    return {
        "apiVersion": f"{API}/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
        "spec": {"targetRefs": [target], **settings},
    }

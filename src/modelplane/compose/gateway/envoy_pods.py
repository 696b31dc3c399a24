"""Pods of the gateway's Envoy, as children of the InferenceGateway.

With Modelplane's controllers, the installation has these pods. Under Crossplane, the InferenceGateway
composes them: the caller gives their manifests, by key. One rule: while anything is reached through them
only, they stay, whatever backend is asked for.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from modelplane.api.inference_gateway import Backend
from modelplane.api.meta import Object
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Desired
from modelplane.compose.facts import GatewayRequest
from modelplane.compose.readiness import condition_of, exists, is_true
from modelplane.gateway.hosts import find_service_address

PREFIX: Final = "envoy-"
"""Prefix of the keys of these children, and of no other."""

SERVICE: Final = f"{PREFIX}service"
DEPLOYMENT: Final = f"{PREFIX}deployment"
PUBLISHER: Final = f"{PREFIX}publisher"
"""Key of the Deployment of the process that publishes the configuration."""

_READY = {DEPLOYMENT: "Envoy's pods", PUBLISHER: "the pods that publish Envoy's configuration"}


def children(manifests: Mapping[str, Object]) -> Iterator[Desired]:
    """Yield the children."""
    for key, manifest in manifests.items():
        yield Desired(key, manifest, is_available if key in _READY else exists)


def is_available(deployment: Object) -> bool:
    """Return True if a Deployment has its minimum of available pods."""
    return is_true(deployment, "Available")


def address(request: GatewayRequest) -> str | Rejected:
    """Return the address of Envoy for clients once it accepts requests, or why it has none."""
    observed = request.observed
    if SERVICE not in observed or DEPLOYMENT not in observed:
        return Rejected(detail="waiting for the Service and the Deployment of Envoy")
    for key in (DEPLOYMENT, PUBLISHER):
        # A gateway that serves goes on with its configuration while nothing publishes another.
        is_needed = key == DEPLOYMENT or request.owner.status.backend is not Backend.ENVOY
        if is_needed and not is_available(observed.get(key, {})):
            deployment = observed.get(key, {})
            name = deployment.get("metadata", {}).get("name", "")
            said = condition_of(deployment, "Available").get("message", "")
            title = (
                f'{_READY[key]} (Deployment "{name}") are not available'
                if name
                else f"waiting for {_READY[key]}"
            )
            return Rejected(detail=f"{title}: {said}" if said else title)
    return find_service_address(observed[SERVICE], tls=request.owner.spec.tls is not None)

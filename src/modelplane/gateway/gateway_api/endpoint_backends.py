"""Objects of Gateway API that stand for addresses: a backend for each endpoint.

An endpoint is an address, not pods, so its backend is a Service without a selector, with an EndpointSlice.
The scheme of the URL decides about TLS, on any port; the certificate is checked for the host of the URL
(Gateway API, BackendTLSPolicy). The Host header is that host too, because external providers require it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from modelplane.api.conditions.reasons import ModelEndpointReason as Reason
from modelplane.api.labels import SERVICE_NAME
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.names import name_backend, name_front
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_list
from modelplane.gateway.credentials import must_have_module
from modelplane.gateway.hosts import format_authority
from modelplane.gateway.services import Selected, Target, find_ip_version, parse_url

GATEWAY = "modelplane"
"""Name of the control plane's Gateway, in the system namespace."""

FRONT_PORT: Final = 80
"""Port of the Service that leads to the gateway itself."""

Manifest = dict[str, Any]


def find_gateway_address(gateway: Mapping[str, Any]) -> str | None:
    """Return the address of a Gateway for clients, who use port 80; None while it has none."""
    addresses = get_list(gateway, "status", "addresses")
    return format_authority(str(addresses[0]["value"])) if addresses else None


def build_backend(endpoint: ModelEndpoint, target: Target) -> dict[str, Manifest] | Rejected:
    """Return the objects that represent an endpoint at the gateway, by key."""
    if _unverifiable(target):
        return Rejected(
            Reason.INVALID_URL,
            detail="with https, the host must be a name, so that the certificate can be verified",
        )
    name = name_backend(endpoint.metadata.name)
    service, slice_ = _address(name, endpoint.metadata.namespace, target)
    objects = {"service": service, "endpointslice": slice_}
    if target.tls:
        objects["backend-tls"] = {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "BackendTLSPolicy",
            "metadata": service["metadata"],
            "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": name}],
                "validation": {"hostname": target.host, "wellKnownCACertificates": "System"},
            },
        }
    return objects


def build_front(service: ModelService, address: str) -> dict[str, Manifest] | Rejected:
    """Return the objects by which the routes of a service lead to the gateway itself, by key."""
    target = parse_url(f"http://{address}")
    if isinstance(target, Rejected):
        return target
    own, slice_ = _address(name_front(service.metadata.name), service.metadata.namespace, target)
    own["spec"]["ports"][0]["port"] = FRONT_PORT
    return {"front-service": own, "front-endpointslice": slice_}


def _address(name: str, namespace: str, target: Target) -> tuple[Manifest, Manifest]:
    """Return a Service without a selector, and its EndpointSlice."""
    metadata = {"name": name, "namespace": namespace}
    port = {"name": "https" if target.tls else "http", "port": target.port, "protocol": "TCP"}
    service: Manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{**port, "targetPort": target.port}]},
    }
    return service, {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {SERVICE_NAME: name}},
        "addressType": {4: "IPv4", 6: "IPv6"}.get(find_ip_version(target.host), "FQDN"),
        "ports": [port],
        # Some gateways skip an endpoint without the condition "ready".
        "endpoints": [{"addresses": [target.host], "conditions": {"ready": True}}],
    }


def _unverifiable(target: Target) -> bool:
    return target.tls and bool(find_ip_version(target.host))


def select_routable(selected: Iterable[Selected]) -> list[Selected]:
    """Return the endpoints that a gateway can send requests to: of the first tier, because it knows none."""
    able = [
        endpoint
        for endpoint in selected
        if not (_unverifiable(endpoint.target) or must_have_module(endpoint.endpoint))
    ]
    return [endpoint for endpoint in able if endpoint.priority == able[0].priority]

"""Objects of Gateway API: a backend for each endpoint, a route for each service.

An endpoint is an address, not pods, so its backend is a Service without a selector, with an EndpointSlice.
The scheme of the URL decides about TLS, on any port; the certificate is checked for the host of the URL
(Gateway API, BackendTLSPolicy). The Host header is that host too, because external providers require it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from modelplane.api.labels import SERVICE_NAME
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.names import backend_name, child_name
from modelplane.api.rejected import Rejected
from modelplane.gateway.services import Selected, Target, ip_version, rewriting

GATEWAY = "modelplane"
"""Name of the control plane's Gateway, in the system namespace."""

MOST_BACKENDS = 16
"""Maximum of backends of one rule (Gateway API, ``HTTPRouteRule.backendRefs``)."""

Manifest = dict[str, Any]


def backend(endpoint: ModelEndpoint, target: Target) -> dict[str, Manifest] | Rejected:
    """Return the objects that represent an endpoint at the gateway, by key."""
    if _unverifiable(target):
        return Rejected("with https its host must be a name, for which the certificate is checked")
    metadata = {"name": backend_name(endpoint.metadata.name), "namespace": endpoint.metadata.namespace}
    port = {"name": "https" if target.tls else "http", "port": target.port, "protocol": "TCP"}
    objects: dict[str, Manifest] = {
        "service": {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{**port, "targetPort": target.port}]},
        },
        "endpointslice": {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {SERVICE_NAME: metadata["name"]}},
            "addressType": {4: "IPv4", 6: "IPv6"}.get(ip_version(target.host), "FQDN"),
            "ports": [port],
            # Some gateways skip an endpoint without the condition "ready".
            "endpoints": [{"addresses": [target.host], "conditions": {"ready": True}}],
        },
    }
    if target.tls:
        objects["backend-tls"] = {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "BackendTLSPolicy",
            "metadata": metadata,
            "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": metadata["name"]}],
                "validation": {"hostname": target.host, "wellKnownCACertificates": "System"},
            },
        }
    return objects


def _unverifiable(target: Target) -> bool:
    return target.tls and bool(ip_version(target.host))


def route(service: ModelService, selected: Sequence[Selected]) -> Manifest:
    """Return the HTTPRoute of a service to as many of its endpoints as a rule takes."""
    namespace, name = service.metadata.namespace, service.metadata.name
    prefix = f"/{namespace}/{name}/"
    selected = _routable(selected)[:MOST_BACKENDS]
    versions = sorted({overlap for each in selected if (overlap := rewriting(each.endpoint)[1])})
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": child_name(name, "route"), "namespace": namespace},
        "spec": {
            "parentRefs": [{"name": GATEWAY, "namespace": SYSTEM_NAMESPACE}],
            # The longest prefix wins: a path that already has the API version does not get it twice.
            "rules": [_rule(prefix, version, selected) for version in (*versions, "")],
        },
    }


def left_out(selected: Sequence[Selected]) -> Sequence[Selected]:
    """Return the endpoints that a service selects beyond the maximum of its HTTPRoute."""
    return _routable(selected)[MOST_BACKENDS:]


def _routable(selected: Sequence[Selected]) -> list[Selected]:
    return [each for each in selected if not _unverifiable(each.target)]


def _rule(prefix: str, version: str, selected: Sequence[Selected]) -> Manifest:
    below = f"{version}/" if version else ""
    return {
        "matches": [{"path": {"type": "PathPrefix", "value": f"{prefix}{below}"}}],
        "backendRefs": [_reference(each, version, below) for each in selected],
        # A stream lasts as long as the model generates.
        "timeouts": {"request": "0s"},
    }


def _reference(selected: Selected, version: str, below: str) -> Manifest:
    reference: Manifest = {
        "name": backend_name(selected.endpoint.metadata.name),
        "port": selected.target.port,
        "weight": selected.weight,
    }
    if rewrite := dict(_rewrite(selected, version, below)):
        reference["filters"] = [{"type": "URLRewrite", "urlRewrite": rewrite}]
    return reference


def _rewrite(selected: Selected, version: str, below: str) -> Iterator[tuple[str, Any]]:
    if not ip_version(selected.target.host):
        yield "hostname", selected.target.host
    path, overlap = rewriting(selected.endpoint)
    if path:
        replacement = path if version and overlap == version else f"{path}{below}"
        yield "path", {"type": "ReplacePrefixMatch", "replacePrefixMatch": replacement}

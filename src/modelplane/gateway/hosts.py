"""Hosts in URLs, and the address of the gateway's Service for clients."""

from collections.abc import Mapping
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_list

HTTP_PORT = 80
HTTPS_PORT = 443


def format_authority(host: str, port: int = HTTP_PORT, usual: int = HTTP_PORT) -> str:
    """Return the authority of a URL: host, and port unless it is the scheme's (RFC 3986, section 3.2)."""
    host = f"[{host}]" if ":" in host else host
    return host if port == usual else f"{host}:{port}"


def find_service_address(service: Mapping[str, Any], *, tls: bool = False) -> str | Rejected:
    """Return the address of a Service for clients, or why it has none."""
    spec, metadata = service["spec"], service["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    host = f"{name}.{namespace}.svc"
    if spec.get("type") == "LoadBalancer":
        ingresses = get_list(service, "status", "loadBalancer", "ingress")
        host = next(filter(None, (ingress.get("ip") or ingress.get("hostname") for ingress in ingresses)), "")
        if not host:
            return Rejected(
                subject=f'Service "{namespace}/{name}" of type LoadBalancer',
                detail="has no address yet",
                remedy="where nothing provides load balancers, make its type ClusterIP or NodePort",
            )
    # Both ports lead to the same one of Envoy.
    scheme, usual = ("https", HTTPS_PORT) if tls else ("http", HTTP_PORT)
    ports = sorted(get_list(spec, "ports"), key=lambda entry: entry.get("name") != scheme)
    return format_authority(host, ports[0]["port"] if ports else usual, usual)

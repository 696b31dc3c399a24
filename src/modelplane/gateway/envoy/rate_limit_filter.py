"""Envoy's filter for the rate limit service, which counts limits for all gateways together.

The filter asks the service only about limits that the module has written into the request's dynamic metadata.
They come with each request, so the service's configuration is only the name of the domain. Configuration
reference: envoy v1.40, ``extensions.filters.http.ratelimit.v3``.
"""

from typing import Any

from modelplane.api.fields.requests.key_limits import RateLimitService
from modelplane.gateway.envoy.envoy_names import HTTP_FILTERS
from modelplane.gateway.route_table import Listener

CLUSTER = "rate-limit-service"
"""Name of the cluster; those of backends have a slash."""

FAILED = "rate_limiter_error"
"""Details of Envoy's answer while the service does not answer, and requests are refused."""

_LIMITS = "modelplane.limits"
"""Namespace of the dynamic metadata that the module writes."""

TIMEOUT = "0.5s"
"""Maximum of time that a request waits for the service."""


def find_service(listener: Listener) -> RateLimitService | None:
    """Return the service of a listener; without keys, no request has limits."""
    front = listener.front
    return front.rate_limits if front is not None and front.keys is not None else None


def build_filters(listener: Listener) -> list[dict[str, Any]]:
    """Return the filter of a listener with a service; it comes after the module's."""
    service = find_service(listener)
    if service is None:
        return []
    grpc = {"envoy_grpc": {"cluster_name": CLUSTER}}
    return [
        {
            "name": "envoy.filters.http.ratelimit",
            "typed_config": {
                "@type": f"{HTTP_FILTERS}ratelimit.v3.RateLimit",
                "domain": service.domain,
                "rate_limit_service": {"grpc_service": grpc, "transport_api_version": "V3"},
                "timeout": TIMEOUT,
                "failure_mode_deny": service.fail_closed,
                "status_on_error": {"code": "ServiceUnavailable"},
                # The module reads the headers, and takes them out again.
                "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
                "disable_x_envoy_ratelimited_header": True,
                "rate_limits": [part for owner in ("key", "namespace") for part in _of(owner)],
            },
        }
    ]


def _of(owner: str) -> list[dict[str, Any]]:
    """Return the limits of a key or a namespace: requests, tokens used before, tokens of the answer."""
    requests, tokens = f"{owner}_requests", f"{owner}_tokens"
    return [
        _build_limit(requests, (requests, "id")),
        {**_build_limit(tokens, (tokens, "id")), "hits_addend": {"number": 0}},
        {
            **_build_limit(tokens, ("charge", tokens)),
            "hits_addend": {"format": f"%DYNAMIC_METADATA({_LIMITS}:tokens)%"},
            "apply_on_stream_done": True,
        },
    ]


def _build_limit(name: str, id_: tuple[str, ...]) -> dict[str, Any]:
    """Return the limit of a name; a request whose metadata have no such id does not count."""
    value = {"metadata_key": _key(id_), "source": "DYNAMIC"}
    limit = {"dynamic_metadata": {"metadata_key": _key((name,))}}
    return {"actions": [{"metadata": {"descriptor_key": name, **value}}], "limit": limit}


def _key(path: tuple[str, ...]) -> dict[str, Any]:
    return {"key": _LIMITS, "path": [{"key": part} for part in path]}

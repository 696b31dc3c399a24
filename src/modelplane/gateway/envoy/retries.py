"""Retries: a request that no server has read whole is sent again, any other one once more.

A prompt that crashes an engine would crash each engine that it is sent to. So the gateway of a cluster sends
again only what its engine cannot have read, and tells an engine that broke off a first attempt (503, which
the fleet's gateway sends to another replica) from one that broke off a later one (502, which ends it).
"""

from typing import Any

from modelplane.gateway.envoy.envoy_names import ENVOY
from modelplane.gateway.route_table import Backend, Listener, Route
from modelplane.gateway.services import find_ip_version

ATTEMPT = "modelplane-attempt"
"""Header by which the gateway of a cluster knows how often the fleet's gateway has sent a request."""

SENT_BEFORE = f"'{ATTEMPT}' in request.headers && request.headers['{ATTEMPT}'] != '1'"
"""Expression that holds for a request that was sent before."""

# A name may have several addresses. Where there is one host, the search for another one only costs. Hosts are
# drawn at random: five draws between two may all find the one that has just failed.
_AT_ANOTHER_HOST = {
    "retry_host_predicate": [
        {
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {
                "@type": f"{ENVOY}extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
            },
        }
    ],
    "host_selection_retry_max_attempts": 64,
}

_ATTEMPTS = 3
_ONCE_MORE = 2
_UNREAD = ("connect-failure", "refused-stream", "reset-before-request")


def build_policy(listener: Listener, route: Route, tiers: int = 0) -> dict[str, Any]:
    """Return the retries of a route: before the first byte of an answer, and on a 503 if there is another.

    A route with tiers has so many groups of backends, one for each attempt.
    """
    # A name may lead to several hosts.
    hosts = (find_ip_version(host) for backend in route.backends for host, _ in backend.hosts)
    elsewhere = len(route.backends) > 1 or len(route.backends[0].hosts) > 1
    attempts = tiers or (_ONCE_MORE if listener.front and _servers(route) else _ATTEMPTS)
    # The next gateway answers 503 for a replica that is gone.
    conditions = (*_UNREAD, *(["reset"] if _is_sent_when_read(listener, route, attempts) else []))
    return {
        "retry_on": ",".join([*conditions, "retriable-status-codes"] if elsewhere else conditions),
        "retriable_status_codes": [503] if elsewhere else [],
        "num_retries": attempts - 1,
        "refresh_cluster_on_retry": len(route.backends) > 1,
        **(_AT_ANOTHER_HOST if elsewhere or not all(hosts) else {}),
    }


def _is_sent_when_read(listener: Listener, route: Route, attempts: int) -> bool:
    """Return True if a request that was read is sent again: once, or where no engine can have read it.

    The gateway of a cluster, which no request crashes, breaks a connection if the cluster is lost.
    """
    if listener.front is None:
        return False
    return attempts <= _ONCE_MORE or all(server.tls for server in _servers(route))


def _servers(route: Route) -> list[Backend]:
    """Return the backends of a route without the gateway of a cluster in front; with TLS, a provider's."""
    return [backend for backend in route.backends if backend.tokens is None]

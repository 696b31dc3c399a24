"""Rows of tables that explain services and replicas."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from modelplane.offline.explain.replica_explanation import ReplicaExplanation, Routing
from modelplane.offline.explain.service_explanation import RoutedEndpoint, ServiceExplanation, WithoutEndpoint
from modelplane.offline.explain.statuses import Said
from modelplane.offline.plan.placement_tables import Row

CONDITION_COLUMNS: Final = ("CONDITION", "STATUS", "REASON", "MESSAGE")
ENDPOINT_COLUMNS: Final = ("ENDPOINT", "ENTRY", "SHARE", "URL", "WHY")
ABSENT_COLUMNS: Final = ("KIND", "NAME", "WHY")
ROUTING_COLUMNS: Final = ("SERVICE", "SHARE", "WHY")


def describe_service(explanation: ServiceExplanation) -> str:
    """Return the readiness of a service in one line."""
    if not explanation.ready:
        return f"{explanation.service}: not ready: {explanation.reason}"
    serving = sum(endpoint.percent > 0 for endpoint in explanation.endpoints)
    noun = "endpoint" if serving == 1 else "endpoints"
    return f"{explanation.service}: ready at {explanation.address}, with {serving} {noun}"


def describe_replica(explanation: ReplicaExplanation) -> str:
    """Return the placement and readiness of a replica in one line."""
    where = f"{explanation.replica}: on {explanation.cluster}"
    return f"{where}, ready" if explanation.ready else f"{where}, not ready: {explanation.reason}"


def list_condition_rows(conditions: Iterable[Said]) -> Iterator[Row]:
    """Yield a row for each condition."""
    for line in conditions:
        yield (line.type, line.status, line.reason or "-", line.message or "-")


def select_endpoints(endpoints: Sequence[RoutedEndpoint], *, everything: bool) -> Sequence[RoutedEndpoint]:
    """Return the endpoints that a service selects, or all of its namespace."""
    return endpoints if everything else [endpoint for endpoint in endpoints if endpoint.entry is not None]


def list_endpoint_rows(endpoints: Iterable[RoutedEndpoint]) -> Iterator[Row]:
    """Yield a row for each endpoint."""
    for endpoint in endpoints:
        entry = "-" if endpoint.entry is None else str(endpoint.entry)
        yield (endpoint.name, entry, _share(endpoint.percent), endpoint.url, endpoint.reason)


def list_absent_rows(absent: Iterable[WithoutEndpoint]) -> Iterator[Row]:
    """Yield a row for each object without an endpoint."""
    for endpoint in absent:
        yield (endpoint.kind, endpoint.name, endpoint.reason)


def list_routing_rows(services: Iterable[Routing]) -> Iterator[Row]:
    """Yield a row for each service."""
    for service in services:
        yield (service.service, _share(service.percent), service.reason)


def _share(percent: float) -> str:
    return f"{percent:.3g} %" if percent else "-"

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


def of_service(explanation: ServiceExplanation) -> str:
    """Return the readiness of a service in one line."""
    if not explanation.ready:
        return f"{explanation.service}: not ready: {explanation.reason}"
    serving = sum(each.percent > 0 for each in explanation.endpoints)
    noun = "endpoint" if serving == 1 else "endpoints"
    return f"{explanation.service}: ready at {explanation.address}, with {serving} {noun}"


def of_replica(explanation: ReplicaExplanation) -> str:
    """Return the placement and readiness of a replica in one line."""
    where = f"{explanation.replica}: on {explanation.cluster}"
    return f"{where}, ready" if explanation.ready else f"{where}, not ready: {explanation.reason}"


def condition_rows(said: Iterable[Said]) -> Iterator[Row]:
    """Yield a row for each condition."""
    for each in said:
        yield (each.type, each.status, each.reason or "-", each.message or "-")


def chosen(endpoints: Sequence[RoutedEndpoint], *, everything: bool) -> Sequence[RoutedEndpoint]:
    """Return the endpoints that a service selects, or all of its namespace."""
    return endpoints if everything else [each for each in endpoints if each.entry is not None]


def endpoint_rows(endpoints: Iterable[RoutedEndpoint]) -> Iterator[Row]:
    """Yield a row for each endpoint."""
    for each in endpoints:
        entry = "-" if each.entry is None else str(each.entry)
        yield (each.name, entry, _share(each.percent), each.url, each.reason)


def absent_rows(absent: Iterable[WithoutEndpoint]) -> Iterator[Row]:
    """Yield a row for each object without an endpoint."""
    for each in absent:
        yield (each.kind, each.name, each.reason)


def routing_rows(services: Iterable[Routing]) -> Iterator[Row]:
    """Yield a row for each service."""
    for each in services:
        yield (each.service, _share(each.percent), each.reason)


def _share(percent: float) -> str:
    return f"{percent:.3g} %" if percent else "-"

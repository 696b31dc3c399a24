"""Tables and sentences that explain services and replicas."""

from typing import Final

from modelplane.api.report_tables import Columns, Explained
from modelplane.offline.explain.replica_explanation import ReplicaExplanation, Routing
from modelplane.offline.explain.service_explanation import RoutedEndpoint, ServiceExplanation, WithoutEndpoint
from modelplane.offline.explain.statuses import Said
from modelplane.offline.plan.placement_tables import WHERE, list_replica_places

CONDITIONS: Final = Columns[Said](
    ("CONDITION", lambda condition: condition.type),
    ("STATUS", lambda condition: condition.status),
    ("REASON", lambda condition: condition.reason or "-"),
    ("MESSAGE", lambda condition: condition.message or "-"),
)
ENDPOINTS: Final = Columns[RoutedEndpoint](
    ("ENDPOINT", lambda endpoint: endpoint.name),
    ("ENTRY", lambda endpoint: "-" if endpoint.entry is None else str(endpoint.entry)),
    ("SHARE", lambda endpoint: _share(endpoint.percent)),
    ("URL", lambda endpoint: endpoint.url),
    ("REASON", lambda endpoint: endpoint.reason),
)
ABSENT: Final = Columns[WithoutEndpoint](
    ("KIND", lambda absent: absent.kind),
    ("NAME", lambda absent: absent.name),
    ("REASON", lambda absent: absent.reason),
)
ROUTING: Final = Columns[Routing](
    ("SERVICE", lambda routing: routing.service),
    ("SHARE", lambda routing: _share(routing.percent)),
    ("REASON", lambda routing: routing.reason),
)


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


def report_service(result: ServiceExplanation, most: int | None) -> Explained:
    """Return a service in tables with at most so many rows and its selected endpoints, or everything."""
    endpoints = result.endpoints
    if most is not None:
        endpoints = tuple(endpoint for endpoint in endpoints if endpoint.entry is not None)
    shown = ENDPOINTS.tabulate("Endpoints", endpoints, most)
    tables = (
        shown._replace(left_out=len(result.endpoints) - len(shown.rows)),
        ABSENT.tabulate("Selected, without an endpoint", result.without_endpoint, most),
    )
    filled = tuple(table for table in tables if table.rows)
    return Explained(describe_service(result), result.ready, filled, result.notes)


def report_replica(result: ReplicaExplanation, most: int | None) -> Explained:
    """Return a replica in tables with at most so many rows, or all."""
    placed = () if result.placement is None else (result.placement,)
    tables = (
        WHERE.tabulate("Placement", list_replica_places(placed), most),
        ROUTING.tabulate("Services", result.services, most),
    )
    notes = (f"Endpoint: {result.endpoint or 'none'}", *result.notes)
    filled = tuple(table for table in tables if table.rows)
    return Explained(describe_replica(result), result.ready, filled, notes)


def _share(percent: float) -> str:
    return f"{percent:.3g} %" if percent else "-"

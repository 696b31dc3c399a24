"""Tables and sentences that explain services and replicas."""

from collections.abc import Sequence
from typing import Final

from modelplane.api.columns import Columns
from modelplane.offline.explain.replica_explanation import ReplicaExplanation, Routing
from modelplane.offline.explain.service_explanation import RoutedEndpoint, ServiceExplanation, WithoutEndpoint
from modelplane.offline.explain.statuses import Said

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
    ("WHY", lambda endpoint: endpoint.reason),
)
ABSENT: Final = Columns[WithoutEndpoint](
    ("KIND", lambda absent: absent.kind),
    ("NAME", lambda absent: absent.name),
    ("WHY", lambda absent: absent.reason),
)
ROUTING: Final = Columns[Routing](
    ("SERVICE", lambda routing: routing.service),
    ("SHARE", lambda routing: _share(routing.percent)),
    ("WHY", lambda routing: routing.reason),
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


def select_endpoints(endpoints: Sequence[RoutedEndpoint], *, everything: bool) -> Sequence[RoutedEndpoint]:
    """Return the endpoints that a service selects, or all of its namespace."""
    return endpoints if everything else [endpoint for endpoint in endpoints if endpoint.entry is not None]


def _share(percent: float) -> str:
    return f"{percent:.3g} %" if percent else "-"

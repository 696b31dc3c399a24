"""A ModelEndpoint is one place that serves a model: a replica's, or an outside provider's."""

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.reasons import ModelEndpointCondition as Type
from modelplane.api.reasons import ModelEndpointReason as Reason
from modelplane.compose.composition import Composition, Request, Requirement, keep_all
from modelplane.compose.conditions import false, true
from modelplane.routing.services import InvalidURL, parse_url


def requirements(_endpoint: ModelEndpoint) -> tuple[Requirement, ...]:
    """Return nothing: an endpoint says all about itself."""
    return ()


def compose(request: Request[ModelEndpoint]) -> Composition:
    """Check that requests can be sent to the endpoint."""
    parsed = parse_url(request.owner.spec.url)
    if isinstance(parsed, InvalidURL):
        message = f'cannot use url "{request.owner.spec.url}": {parsed.reason}'
        return Composition(
            children=keep_all(request.observed),
            conditions=(false(Type.ROUTING_READY, Reason.INVALID_URL, message),),
            ready=False,
        )
    return Composition(
        conditions=(true(Type.ROUTING_READY, Reason.BACKEND_CONFIGURED, "services can route to it"),),
        ready=True,
    )

"""The InferenceGateway is the fleet's gateway: one address for every ModelService."""

from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.reasons import InferenceGatewayCondition as Type
from modelplane.api.reasons import InferenceGatewayReason as Reason
from modelplane.compose.composition import Composition, Request, Requirement, keep_all
from modelplane.compose.conditions import false, true
from modelplane.gateway.gateway_api import GATEWAY

_NAMES = {
    Backend.ENVOY: "Envoy",
    Backend.TRAEFIK: "Traefik",
    Backend.GATEWAY_API: f'Gateway "{GATEWAY}" in namespace "{SYSTEM_NAMESPACE}"',
}
"""The names of the backends in messages."""

_IGNORED = {
    Backend.ENVOY: "Envoy runs with Modelplane's controllers only",
    Backend.TRAEFIK: "this version does not install Traefik",
    Backend.GATEWAY_API: "a Gateway is used under Crossplane only",
}
"""Reasons for which a requested backend does not carry the traffic."""


_WAITING = {
    Backend.GATEWAY_API: f"{_NAMES[Backend.GATEWAY_API]} has no address: create it, or check that a "
    "controller of its gatewayClassName runs on the control plane"
}
"""Messages for a gateway without an address, if the cause is known."""


def requirements(_gateway: InferenceGateway) -> tuple[Requirement, ...]:
    """Return nothing: the gateway's address comes with the request."""
    return ()


def compose(request: Request[InferenceGateway]) -> Composition:
    """Publish the gateway's address."""
    gateway = request.owner
    if gateway.metadata.name != DEFAULT_NAME:
        message = f'only the InferenceGateway named "{DEFAULT_NAME}" is used: rename this one'
        condition = false(Type.CONTROLLER_READY, Reason.IGNORED, message)
        return Composition(children=keep_all(request.observed), conditions=(condition,), ready=False)
    if not request.gateway_address:
        status = {"address": gateway.status.address, "backend": gateway.status.backend}
        waiting = request.gateway_problem or _WAITING.get(
            request.proxy, "the gateway accepts no requests yet"
        )
        condition = false(Type.CONTROLLER_READY, Reason.INSTALLING, f"{waiting}{_ignored(request)}")
        return Composition(
            children=keep_all(request.observed),
            status={field: known for field, known in status.items() if known},
            conditions=(condition,),
            ready=False,
        )
    message = f"{_NAMES[request.proxy]} accepts requests at {request.gateway_address}{_ignored(request)}"
    return Composition(
        children=keep_all(request.observed),
        status={"address": request.gateway_address, "backend": str(request.proxy)},
        conditions=(true(Type.CONTROLLER_READY, Reason.CONTROLLER_HEALTHY, message),),
        ready=True,
    )


def _ignored(request: Request[InferenceGateway]) -> str:
    """Return why the requested backend is not the one in use; empty if it is."""
    asked = request.owner.spec.backend
    return "" if asked is request.proxy else f"; spec.backend {asked} is ignored: {_IGNORED[asked]}"

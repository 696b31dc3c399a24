"""A ModelEndpoint is one place that serves a model: a replica, or an external provider."""

from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelEndpointCondition as Type, ModelEndpointReason as Reason
from modelplane.api.inference_gateway import Backend
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.names import name_backend
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Requirement, keep_all
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.facts import EndpointRequest
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.readiness import exists
from modelplane.gateway import credentials
from modelplane.gateway.gateway_api import endpoint_backends
from modelplane.gateway.services import Target, find_target

SECRET_KEY = "credential"  # noqa: S105  a key of requirements, not a secret


def secret_requirement(namespace: str, name: str) -> Requirement:
    """Return the requirement of a Secret with a credential."""
    return Requirement(SECRET_KEY, "v1", "Secret", namespace, name)


def requirements(endpoint: ModelEndpoint) -> tuple[Requirement, ...]:
    """Return the gateway, whose backend decides which objects represent the endpoint, and the Secret."""
    usual = (fleet_gateway.REQUIREMENT, fleet_gateway.replicas(endpoint.metadata.namespace))
    if (credential := endpoint.spec.credential) is None:
        return usual
    return (*usual, secret_requirement(endpoint.metadata.namespace, credential.secret_ref.name))


def compose(request: EndpointRequest) -> Composition | Blocked:
    """Check the endpoint's URL and credential, and compose the objects that the gateway reads."""
    endpoint = request.owner
    if unknown := request.unknown(fleet_gateway.KEY):
        return Blocked(f"cannot read the {fleet_gateway.KEY}: {unknown.cause}")
    destinations = fleet_gateway.destinations(request, is_local=request.facts.gateway_is_local)
    if isinstance(destinations, Blocked):
        return destinations
    target = find_target(endpoint, destinations)
    proxy = fleet_gateway.proxy(request.found(fleet_gateway.KEY))
    objects: dict[str, endpoint_backends.Manifest] | Rejected = {}
    if isinstance(target, Rejected):
        objects = target
    elif fleet_gateway.reads_gateway_api(proxy) and not _needs_envoy(endpoint):
        objects = endpoint_backends.build_backend(endpoint, target)
    if isinstance(objects, Rejected):
        message = f'cannot use url "{endpoint.spec.url}": {objects.message}'
        return Composition(
            # What leads to a refused address must not stay, whoever wrote it.
            children=() if objects.reason is Reason.DESTINATION_REFUSED else keep_all(request.observed),
            conditions=(false(Type.ROUTING_READY, objects.reason, message),),
            ready=False,
        )
    children: tuple[Desired | Keep, ...] = tuple(
        Desired(key, manifest, exists) for key, manifest in objects.items()
    )
    routing = _routing(request, objects)
    accepted = _credential(request, target) if isinstance(target, Target) and routing.holds else ()
    return Composition(
        children=children if proxy else keep_all(request.observed),
        status={"routing": {"backendName": name_backend(endpoint.metadata.name)}}
        if objects and routing.holds
        else {},
        conditions=(routing, *accepted),
        ready=routing.holds and all(condition.holds for condition in accepted),
    )


def _routing(request: EndpointRequest, objects: dict[str, endpoint_backends.Manifest]) -> Condition:
    gateways = request.found(fleet_gateway.KEY)
    if request.owner.metadata.annotations.get(labels.DRAINING) == labels.NOT_SERVING:
        message = "the replica is not serving yet, so the endpoint receives no requests"
        return false(Type.ROUTING_READY, Reason.WAITING_FOR_BACKEND, message)
    if waiting := fleet_gateway.unspoken(gateways):
        return false(Type.ROUTING_READY, Reason.WAITING_FOR_BACKEND, waiting)
    if credentials.must_have_module(request.owner) and (why := _unsupported(request)):
        message = f"cannot apply spec.model and spec.credential, so the endpoint receives no requests: {why}"
        return false(Type.ROUTING_READY, Reason.UNSUPPORTED, message)
    proxy = fleet_gateway.proxy(gateways)
    if request.owner.spec.mutual_tls is not None and fleet_gateway.reads_gateway_api(proxy):
        message = (
            "cannot apply spec.mutualTLS, so the endpoint receives no requests: the gateway's backend "
            f"{proxy} has no client identity: use backend {Backend.ENVOY}, or remove spec.mutualTLS"
        )
        return false(Type.ROUTING_READY, Reason.UNSUPPORTED, message)
    if missing := [key for key in objects if key not in request.observed]:
        message = f"its {missing[0]} at the gateway is being created"
        return false(Type.ROUTING_READY, Reason.WAITING_FOR_BACKEND, message)
    return true(Type.ROUTING_READY, Reason.BACKEND_CONFIGURED, "services can route to it")


def _needs_envoy(endpoint: ModelEndpoint) -> bool:
    return credentials.must_have_module(endpoint) or endpoint.spec.mutual_tls is not None


def _unsupported(request: EndpointRequest) -> str:
    """Return why the gateway sets neither models nor credentials; empty if it does."""
    proxy = fleet_gateway.proxy(request.found(fleet_gateway.KEY))
    if fleet_gateway.reads_gateway_api(proxy):
        return (
            f"Gateway API, which the gateway's backend {proxy} reads, cannot express them: use backend "
            f"{Backend.ENVOY}, or remove them"
        )
    return request.facts.gateway_without_module


def _credential(request: EndpointRequest, target: Target) -> tuple[Condition, ...]:
    """Return whether the gateway has the credential; nothing for an endpoint that names none."""
    wanted = credentials.find_reference(request.owner, target.authority)
    if wanted is None:
        return ()
    if unknown := request.unknown(SECRET_KEY):
        message = f'cannot read Secret "{wanted.secret}", so the previous one remains in use: {unknown.cause}'
        return (false(Type.AUTHENTICATED, Reason.SECRET_UNREADABLE, message),)
    found = credentials.build_header(wanted, next(iter(request.found(SECRET_KEY)), None))
    if isinstance(found, Rejected):
        return (
            false(
                Type.AUTHENTICATED,
                Reason.SECRET_REFUSED,
                f"the endpoint receives no requests: {found.message}",
            ),
        )
    message = f'the gateway sends key "{wanted.key}" from Secret "{wanted.secret}" to {wanted.host}'
    return (true(Type.AUTHENTICATED, Reason.IN_FORCE, message),)

"""The InferenceGateway is the fleet's gateway: one address for every ModelService.

With Modelplane's controllers, an Envoy routes every request. Another backend is a gateway in front of it,
with one route to it. Until that accepts requests, the address is Envoy's. Under Crossplane, the Envoy of
backend Envoy is composed, and any other backend reads the routes of services.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from modelplane.api.conditions.reasons import (
    InferenceGatewayCondition as Type,
    InferenceGatewayReason as Reason,
)
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import DEFAULT_NAME, Backend, InferenceGateway
from modelplane.api.listing import in_order, listing
from modelplane.api.meta import API_VERSION, SYSTEM_NAMESPACE, Object, kind_name
from modelplane.api.rejected import Rejected
from modelplane.api.schema.untyped import get_map
from modelplane.compose import releases
from modelplane.compose.clouds.flow import DEFINITION_KEY
from modelplane.compose.composition import Composition, Desired, Keep, Requirement, keep_all
from modelplane.compose.conditions import false, true
from modelplane.compose.definition_owner import CRD_API_VERSION
from modelplane.compose.facts import GatewayRequest
from modelplane.compose.gateway import envoy_pods, fleet_gateway, gateway_conditions, installed_gateway
from modelplane.compose.gateway.installed_gateway import IMPLEMENTATIONS, INSTALLER, Implementation
from modelplane.compose.readiness import accepted, exists
from modelplane.compose.serving_stack import cluster_gateway as stack_gateway
from modelplane.compose.workload_kinds import is_release
from modelplane.gateway import tokens
from modelplane.gateway.gateway_api import endpoint_backends
from modelplane.gateway.gateway_api.endpoint_backends import GATEWAY
from modelplane.gateway.module_files.models import ONE_URL

FRONT: Final = "front-door"
"""Key of the requirement for the Gateway on the control plane."""
INSTALLER_KEY: Final = "installer"
"""Key of the requirement for the Secret of the identity that installs charts, which only controllers need."""
ROUTE: Final = "front-route"
"""Key of the route from another gateway to Envoy."""

_ENVOY_SERVICE = "modelplane-gateway"
"""Service of Envoy in an installation (install/installation_options.py)."""

DEFINED = Requirement(
    f"{DEFINITION_KEY}gateway-api",
    CRD_API_VERSION,
    "CustomResourceDefinition",
    name=installed_gateway.DEFINITION,
)
"""The requirement for the definitions of the Gateway API, without which there is no Gateway to read."""

_FRONT = Requirement(
    FRONT, "gateway.networking.k8s.io/v1", "Gateway", namespace=SYSTEM_NAMESPACE, name=GATEWAY
)

CLUSTERS = Requirement(
    "clusters", API_VERSION, kind_name(InferenceCluster), with_status="gateway", optional=True
)
"""The requirement for the clusters whose gateways have an address."""

_NAMED = f'Gateway "{GATEWAY}" in namespace "{SYSTEM_NAMESPACE}"'
_NO_ADDRESS = (
    f"{_NAMED} has no address: create it, or check that a controller for its gatewayClassName is running "
    "on the control plane"
)
_NOT_YET = "the gateway accepts no requests yet"


def requirements(gateway: InferenceGateway) -> tuple[Requirement, ...]:
    """Return the requirements of a gateway: the clusters; for one other than Envoy, also its Gateway."""
    if gateway.metadata.name != DEFAULT_NAME:
        return ()
    if gateway.spec.backend is Backend.ENVOY:
        return (CLUSTERS,)
    if gateway.spec.backend not in IMPLEMENTATIONS:
        return CLUSTERS, DEFINED, _FRONT
    installer = Requirement(INSTALLER_KEY, "v1", "Secret", namespace=SYSTEM_NAMESPACE, name=INSTALLER)
    return CLUSTERS, DEFINED, _FRONT, installer


def compose(request: GatewayRequest) -> Composition:
    """Install the backend, and publish the address at which the gateway accepts requests."""
    if request.owner.metadata.name != DEFAULT_NAME:
        message = f'only the InferenceGateway named "{DEFAULT_NAME}" is used: rename this one'
        condition = false(Type.CONTROLLER_READY, Reason.IGNORED, message)
        return Composition(children=keep_all(request.observed), conditions=(condition,), ready=False)
    keys: tuple[Desired | Keep, ...] = keep_all({fleet_gateway.KEYS_KEY} & request.observed.keys())
    if request.facts.keys is not None:
        manifest = tokens.build_manifest(request.facts.keys, SYSTEM_NAMESPACE)
        keys = (Desired(fleet_gateway.KEYS_KEY, manifest, exists),)
    observed = {key: child for key, child in request.observed.items() if key != fleet_gateway.KEYS_KEY}
    request = _with_pods(replace(request, observed=observed))
    front = _front(request)
    composed = _of_controllers(request, front) if _by_controllers(request) else _of_crossplane(request, front)
    authenticated = gateway_conditions.authenticated(request)
    is_closed = authenticated.reason == Reason.MODULE_MISSING
    conditions = (
        *composed.conditions,
        authenticated,
        *gateway_conditions.tls_conditions(request),
        *gateway_conditions.alias_conditions(request),
        *gateway_conditions.of_gateway(request),
    )
    status = {**composed.status, **_url(request, composed.status.get("address", ""))}
    status |= _cluster_gateways(request)
    ready = composed.ready and not is_closed
    children = (*composed.children, *keys)
    return replace(composed, children=children, conditions=conditions, status=status, ready=ready)


def _url(request: GatewayRequest, address: str) -> dict[str, str]:
    """Return the URL for all models, as a field of the status; nothing where no gateway module serves it."""
    if not address or not _by_controllers(request) or request.facts.without_module:
        return {}
    spec = request.owner.spec
    scheme = "https" if spec.tls and spec.backend is Backend.ENVOY else "http"
    return {"url": f"{scheme}://{address}/{ONE_URL}"}


def _cluster_gateways(request: GatewayRequest) -> dict[str, list[str]]:
    """Return the addresses of the clusters' gateways, as a field of the status; the known ones in doubt.

    A cluster that reports no address now may have reported one that its replicas' endpoints still lead to.
    """
    found: set[str] = set()
    if not request.unknown(CLUSTERS.key):
        # Decoding each cluster would cost more than all the rest.
        gateways = (get_map(item, "status", "gateway") for item in request.found(CLUSTERS.key))
        found = {gateway.get("address", "") for gateway in gateways}
    if request.unknown(CLUSTERS.key) or "" in found:
        found |= set(request.owner.status.cluster_gateways)
    return {"clusterGateways": sorted(found - {""})} if found - {""} else {}


def _with_pods(request: GatewayRequest) -> GatewayRequest:
    """Return the request with the address of the pods of Envoy, where the InferenceGateway composes them."""
    facts = request.facts
    if not facts.pods:
        return request
    found = envoy_pods.address(request)
    if isinstance(found, Rejected):
        return replace(request, facts=replace(facts, problem=facts.problem or found.message))
    return replace(request, facts=replace(facts, address="" if facts.problem else found))


class _Front(msgspec.Struct, frozen=True):
    """The backend that is asked for, in front of the services."""

    title: str
    children: tuple[Desired, ...] = ()
    address: str = ""
    """Empty until it has one."""
    problem: str = ""
    """The error of its installation."""
    waiting: str = ""
    """The reason why it has no address yet."""
    ignored: str = ""
    """The reason why it is not installed."""
    is_settled: bool = False
    """True if the children of a former backend are not needed any more."""


def _front(request: GatewayRequest) -> _Front:
    """Return the backend that is asked for; in doubt, everything stays as it is."""
    if request.owner.spec.backend is Backend.ENVOY:
        pods, address = tuple(envoy_pods.children(request.facts.pods)), request.facts.address
        return _Front("Envoy", pods, address, is_settled=bool(address))
    if _by_controllers(request) and request.facts.is_local:
        return _Front(_NAMED, ignored="on one machine, the gateway is the machine's Envoy")
    row = IMPLEMENTATIONS.get(request.owner.spec.backend)
    found, unknown = _find_gateway(request)
    if unknown:
        return _Front(row.title if row else _NAMED, waiting=unknown)
    is_ours = found is None or stack_gateway.is_ours(found) or stack_gateway.KEY in request.observed
    if row is None or not is_ours:
        if found is None and _by_controllers(request):
            return _Front(_NAMED, ignored=f"{_NAMED} does not exist: create it")
        address = _address(found)
        why = (
            f"{_NAMED} exists and doesn't belong to Modelplane: to install {row.title}, delete {_NAMED}"
            if row
            else ""
        )
        return _Front(_NAMED, address=address, waiting="" if address else _NO_ADDRESS, ignored=why)
    return _installed(row, request, _address(found))


def _by_controllers(request: GatewayRequest) -> bool:
    return request.facts.proxy is Backend.ENVOY


def _address(gateway: Object | None) -> str:
    """Return the address for the status; empty until the Gateway has one."""
    return (endpoint_backends.find_gateway_address(gateway) if gateway else None) or ""


def _find_gateway(request: GatewayRequest) -> tuple[Object | None, str]:
    """Return the Gateway on the control plane, None if there is none; and why it is unknown, else empty."""
    for key, what in ((DEFINED.key, "the definitions of the Gateway API"), (FRONT, _NAMED)):
        if unknown := request.unknown(key):
            return None, f"cannot read {what}: {unknown.cause}"
        if not request.found(key):
            return None, ""  # without its definition, there is no Gateway to read
    found = request.found(FRONT)[0]
    return (None if "deletionTimestamp" in found["metadata"] else found), ""


def _check_installer(request: GatewayRequest) -> Rejected | None:
    """Return why charts cannot be installed on the control plane's cluster; None if they can."""
    secret = f'Secret "{INSTALLER}" in namespace "{SYSTEM_NAMESPACE}"'
    if unknown := request.unknown(INSTALLER_KEY):
        return Rejected(detail=f"cannot read {secret}: {unknown.cause}")
    if request.found(INSTALLER_KEY):
        return None
    return Rejected(
        detail=f"installing charts on this cluster requires {secret}, which does not exist",
        remedy="create it with the commands that `modelplane install --inference-cluster --installer` prints",
    )


def _installed(row: Implementation, request: GatewayRequest, address: str) -> _Front:
    if _by_controllers(request) and (rejected := _check_installer(request)):
        if stack_gateway.KEY not in request.observed:
            return _Front(row.title, ignored=rejected.message)
        return _kept(row, address, rejected)
    if rejected := row.check_version(request.owner):
        if row.key not in request.observed:
            return _Front(row.title, problem=rejected.message)
        return _kept(row, address, rejected)
    defined = bool(request.found(DEFINED.key))
    desired = tuple(installed_gateway.children(row, request, has_definitions=defined))
    unready = [child for child in desired if not child.ready(request.observed.get(child.key, {}))]
    problems = [
        f"{child.key}: {said}"
        for child in desired
        if is_release(child.manifest) and (said := releases.problem(request.observed.get(child.key, {})))
    ]
    waiting = f"waiting for {listing(child.key for child in unready)}" if unready else ""
    told = (releases.progress(request.observed.get(child.key, {})) for child in unready)
    if progress := next(filter(None, told), None):
        waiting = f"{waiting} ({progress})"
    problem = in_order(problems, separator="; ")
    return _Front(row.title, desired, address, problem, waiting, is_settled=not unready and bool(address))


def _kept(row: Implementation, address: str, rejected: Rejected) -> _Front:
    return _Front(row.title, address=address, problem=f"the installed version is kept: {rejected.message}")


def _children(request: GatewayRequest, front: _Front) -> tuple[Desired | Keep, ...]:
    """Return the children: those of the backend, and those of a former one until they are not needed.

    Objects are dropped before the releases whose controllers finish their deletion.
    """
    named = {child.key for child in front.children}
    others = [key for key in request.observed if key not in named]
    former = [key for key in others if key.startswith(envoy_pods.PREFIX)]
    others = [key for key in others if key not in former]
    # The status tells the services when the pods of Envoy are not needed any more.
    is_told = request.owner.status.backend not in (None, Backend.ENVOY)
    if is_told and front.address and not request.facts.envoy_is_needed_by:
        former = []
    if front.is_settled:
        objects = [key for key in others if not is_release(request.observed[key])]
        others = [key for key in others if key not in objects] if objects else []
    return (*front.children, *keep_all((*former, *others)))


def _of_crossplane(request: GatewayRequest, front: _Front) -> Composition:
    """Return the composition under Crossplane, where the Gateway routes to the endpoints."""
    gateway, address = request.owner, request.facts.address
    if gateway_conditions.would_open(request):
        message = (
            f"backend {gateway.spec.backend} does not read ModelKeys, but spec.authentication is APIKey, so "
            "no service is published: use backend Envoy, or set spec.authentication to None"
        )
        status = {"address": gateway.status.address, "backend": gateway.status.backend}
        return Composition(
            children=keep_all(request.observed),  # what serves stays
            status={field: str(known) for field, known in status.items() if known},
            conditions=(false(Type.CONTROLLER_READY, Reason.NOT_PUBLISHED, message),),
            ready=False,
        )
    is_installed = stack_gateway.KEY in request.observed and gateway.spec.backend in IMPLEMENTATIONS
    backend = gateway.spec.backend if is_installed else Backend.GATEWAY_API
    name = front.title if is_installed else _NAMED
    if not address:
        return _waiting(request, front, front.problem or front.waiting or _NO_ADDRESS)
    failed = f"; {front.problem}" if front.problem else ""
    needed = request.facts.envoy_is_needed_by
    former = f"; Envoy's pods are kept, because they still serve {needed}" if needed else ""
    message = f"{name} accepts requests at {address}{failed}{_ignored(request, front)}{former}"
    return _serving(_children(request, front), address, backend, message)


def _of_controllers(request: GatewayRequest, front: _Front) -> Composition:
    """Return the composition of the controllers, whose Envoy routes to the endpoints."""
    own = request.facts.address
    if request.owner.spec.backend is Backend.ENVOY or (front.ignored and not front.address):
        if not own:
            return _waiting(request, front, request.facts.problem or _NOT_YET)
        message = f"Envoy accepts requests at {own}{_ignored(request, front)}"
        return _serving(_children(request, front), own, Backend.ENVOY, message)
    if front.address:
        rule = {
            "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
            "backendRefs": [{"name": _ENVOY_SERVICE, "port": 80}],
            # A stream lasts as long as the model generates.
            "timeouts": {"request": "0s"},
        }
        manifest: Object = {
            "apiVersion": _FRONT.api_version,
            "kind": "HTTPRoute",
            "metadata": {"name": GATEWAY, "namespace": SYSTEM_NAMESPACE},
            "spec": {"parentRefs": [{"name": GATEWAY}], "rules": [rule]},
        }
        front = replace(front, children=(*front.children, Desired(ROUTE, manifest, accepted)))
    observed = request.observed.get(ROUTE)
    is_known = request.owner.status.address == front.address
    if front.address and observed is not None and (is_known or accepted(observed)):
        failed = f"; {front.problem}" if front.problem else ""
        message = f"{front.title} accepts requests at {front.address}, and Envoy routes them{failed}"
        message = f"{message}{_ignored(request, front)}"
        return _serving(_children(request, front), front.address, Backend.ENVOY, message)
    waiting = front.problem or front.waiting or f"waiting for {front.title} to accept the route to Envoy"
    return _waiting(request, front, waiting)


def _serving(
    children: tuple[Desired | Keep, ...],
    address: str,
    backend: Backend,
    message: str,
) -> Composition:
    return Composition(
        children=children,
        status={"address": address, "backend": str(backend)},
        conditions=(true(Type.CONTROLLER_READY, Reason.CONTROLLER_HEALTHY, message),),
        ready=True,
    )


def _waiting(request: GatewayRequest, front: _Front, message: str) -> Composition:
    """Return the composition of a gateway that is not ready; a published address stays."""
    gateway, own = request.owner, request.facts.address
    status = {"address": gateway.status.address, "backend": gateway.status.backend}
    if own and _by_controllers(request):
        message = f"{message}; in the meantime, Envoy accepts requests at {own}"
        if ROUTE not in request.observed or not gateway.status.address:
            status = {"address": own, "backend": Backend.ENVOY}
    reason = Reason.INSTALLATION_FAILED if front.problem else Reason.INSTALLING
    return Composition(
        children=_children(request, front),
        status={field: str(known) for field, known in status.items() if known},
        conditions=(false(Type.CONTROLLER_READY, reason, f"{message}{_ignored(request, front)}"),),
        ready=False,
    )


def _ignored(request: GatewayRequest, front: _Front) -> str:
    """Return why the backend that is asked for is not installed; empty if it is."""
    return f"; spec.backend {request.owner.spec.backend} is ignored: {front.ignored}" if front.ignored else ""

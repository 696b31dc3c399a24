"""Gateway of a cluster: its class, and the listeners that admit routes from all namespaces."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.clouds.serving_stack import Listener, ListenerProtocol
from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE, Object
from modelplane.api.schema.untyped import get_list, get_map
from modelplane.compose.composition import Desired, Requirement
from modelplane.compose.readiness import accepted, is_true, when_condition
from modelplane.compose.serving_stack import cluster_mutual_tls, traffic_policies
from modelplane.compose.serving_stack.component import Plan
from modelplane.gateway.hosts import HTTP_PORT, HTTPS_PORT, format_authority

KEY: Final = "gateway"
CLASS_KEY: Final = "gateway-class"

ANSWER_KEY: Final = "gateway-answer"
"""Key of the route that the gateway answers by itself."""

ANSWER: Final = "modelplane-ready"
"""Name of that route."""

ANSWER_PATH: Final = f"/{SYSTEM_NAMESPACE}/ready"
"""Path of that route. No team has a namespace of this name."""

ANSWERED: Final = f"/{SYSTEM_NAMESPACE}/answered"
"""Path that the answer redirects to."""

ANSWER_STATUS: Final = 302

ACCEPTED: Final = "Accepted"
"""The condition by which a controller confirms a GatewayClass."""

CONTROLLER: Final = "gateway.envoyproxy.io/gatewayclass-controller"
"""Source: Envoy Gateway, "GatewayClass": the name of its controller."""

DEFAULT_LISTENERS: Final = (Listener(name="http", port=80, protocol=ListenerProtocol.HTTP),)

_API_VERSION = "gateway.networking.k8s.io/v1"
MADE = {labels.RESOURCE: KEY}


def requirement(cluster: str) -> Requirement:
    """Return the requirement for the gateway of a cluster."""
    return Requirement(
        KEY, _API_VERSION, "Gateway", namespace=SYSTEM_NAMESPACE, name=GATEWAY_NAME, cluster=cluster
    )


def is_ours(gateway: Object) -> bool:
    """Return True if a serving stack made a gateway."""
    return bool(MADE.items() <= get_map(gateway, "metadata", "labels").items())


def address(gateway: Object) -> str:
    """Return ``host`` or ``host:port`` of a gateway for plain HTTP; empty while it has no address."""
    return _address(gateway, get_list(gateway, "spec", "listeners"), HTTP_PORT)


def plain_address(gateway: Object) -> str:
    """Return ``host`` or ``host:port`` of a gateway for plain HTTP; empty if it accepts none."""
    listeners = get_list(gateway, "spec", "listeners")
    plain = [listener for listener in listeners if not cluster_mutual_tls.is_listener(listener)]
    return _address(gateway, plain, HTTP_PORT)


def secured_address(gateway: Object) -> str:
    """Return ``host`` or ``host:port`` of a gateway for mutual TLS; empty if it has none."""
    listeners = get_list(gateway, "spec", "listeners")
    return _address(
        gateway, [listener for listener in listeners if cluster_mutual_tls.is_listener(listener)], HTTPS_PORT
    )


def _address(gateway: Object, listeners: Sequence[Mapping[str, Any]], usual: int) -> str:
    addresses = get_list(gateway, "status", "addresses")
    return (
        format_authority(addresses[0]["value"], listeners[0]["port"], usual)
        if addresses and listeners
        else ""
    )


def is_programmed(gateway: Object) -> bool:
    """Return True if a gateway has an address, and its controller has configured its listeners."""
    return bool(address(gateway)) and is_true(gateway, "Programmed")


def _answer() -> Object:
    """Return a route that needs no backend, so that its answer tells that the gateway has its routes."""
    redirect = {"path": {"type": "ReplaceFullPath", "replaceFullPath": ANSWERED}, "statusCode": ANSWER_STATUS}
    rule = {
        "matches": [{"path": {"type": "Exact", "value": ANSWER_PATH}}],
        "filters": [{"type": "RequestRedirect", "requestRedirect": redirect}],
    }
    return {
        "apiVersion": _API_VERSION,
        "kind": "HTTPRoute",
        "metadata": {"name": ANSWER, "namespace": SYSTEM_NAMESPACE},
        "spec": {"parentRefs": [{"name": GATEWAY_NAME}], "rules": [rule]},
    }


def objects(plan: Plan) -> Iterator[Desired]:
    """Yield the GatewayClass, the Gateway, and the policies of the Gateway.

    The class is ready once its controller has accepted it, the Gateway once it has an address and listeners.
    """
    gateway = plan.stack.spec.gateway
    class_: dict[str, Any] = {
        "apiVersion": _API_VERSION,
        "kind": "GatewayClass",
        "metadata": {"name": gateway.class_name},
        "spec": {"controllerName": CONTROLLER},
    }
    yield Desired(CLASS_KEY, class_, when_condition(ACCEPTED), plan.cluster)
    listeners: list[dict[str, Any]] = [
        {
            "name": listener.name,
            "port": listener.port,
            "protocol": str(listener.protocol),
            "allowedRoutes": {"namespaces": {"from": "All"}},
        }
        for listener in gateway.listeners or DEFAULT_LISTENERS
    ]
    manifest: dict[str, Any] = {
        "apiVersion": _API_VERSION,
        "kind": "Gateway",
        "metadata": {"name": GATEWAY_NAME, "namespace": SYSTEM_NAMESPACE, "labels": dict(MADE)},
        "spec": {
            "gatewayClassName": gateway.class_name,
            "listeners": cluster_mutual_tls.listeners(plan, listeners, plan.request.observed.get(KEY)),
        },
    }
    yield Desired(KEY, manifest, is_programmed, plan.cluster)
    yield Desired(ANSWER_KEY, _answer(), lambda child: bool(child) and accepted(child), plan.cluster)
    yield from traffic_policies.policies(GATEWAY_NAME, plan.cluster)
    yield from cluster_mutual_tls.objects(plan)

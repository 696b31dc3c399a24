"""Installed gateways: the implementations that Modelplane installs on the control plane's own cluster.

Each is a row: a chart, and the class and the listener of the Gateway. The order is that of their needs:
definitions and load balancer, then the implementation, then the Gateway.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.clouds.serving_stack import Versions
from modelplane.api.fields.cluster.stack_components import ComponentName
from modelplane.api.inference_gateway import Backend, InferenceGateway, LoadBalancer
from modelplane.api.meta import SYSTEM_NAMESPACE, Object
from modelplane.api.rejected import Rejected
from modelplane.compose import releases
from modelplane.compose.composition import Desired
from modelplane.compose.facts import GatewayRequest
from modelplane.compose.readiness import exists
from modelplane.compose.releases import Chart
from modelplane.compose.serving_stack import cluster_gateway as stack_gateway, traffic_policies
from modelplane.compose.serving_stack.table import COMPONENTS
from modelplane.gateway.gateway_api.endpoint_backends import GATEWAY

INSTALLER: Final = "modelplane-installer"
"""The Secret, in the system's namespace, of the kubeconfig with which charts are installed here."""

DEFINITIONS: Final = "gateway-definitions"
METALLB: Final = "metallb"
CLASS: Final = "gateway-class"
OBJECTS: Final = (CLASS, stack_gateway.KEY, *traffic_policies.KEYS)
"""Keys of the objects, which are deleted before the releases."""

DEFINITION: Final = "httproutes.gateway.networking.k8s.io"
"""The definition by which those of the Gateway API are found on a cluster."""

_TRAEFIK_CHARTS = "https://traefik.github.io/charts"
DEFINITIONS_CHART: Final = Chart("traefik-crds", _TRAEFIK_CHARTS)
METALLB_CHART: Final = Chart("metallb", "https://metallb.github.io/metallb")
_DEFINITIONS_VERSION = "1.18.0"
"""Source: Traefik's charts, issue 1669: the last traefik-crds, with Gateway API v1.5.1."""
_METALLB_VERSION = "0.14.9"
"""Source: MetalLB, release notes."""
_METALLB_NAMESPACE = "metallb-system"
_TRAEFIK = "traefik"
_TRAEFIK_NAMESPACE = "traefik-system"
_API_VERSION = "gateway.networking.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Implementation:
    """An implementation of the Gateway API that can be installed."""

    title: str
    key: str
    """Key of its release."""
    chart: Chart
    namespace: str
    version: Callable[[InferenceGateway], str]
    values: Callable[[InferenceGateway], Mapping[str, Any]]
    class_name: str
    controller: str
    """Name of its controller in the GatewayClass."""
    port: int
    """Port of the listener; clients use port 80."""
    has_definitions: bool
    """True if its chart has the definitions of the Gateway API."""
    oldest: tuple[int, int, int] = (0, 0, 0)
    """The first version of its chart that routes as the routes of services say."""

    def check_version(self, gateway: InferenceGateway) -> Rejected | None:
        """Return why the version of a gateway is not installed; None if it is."""
        version, oldest = self.version(gateway), ".".join(map(str, self.oldest))
        found = re.match(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?", version)
        if found and tuple(int(group or 0) for group in found.groups()) >= self.oldest:
            return None
        return Rejected(
            subject=f"chart {self.chart.name} {version}",
            detail="sends requests to the wrong endpoints, because it distinguishes backends "
            "only by Service and port",
            remedy=f"set version {oldest} or later",
        )


def _traefik_values(gateway: InferenceGateway) -> Mapping[str, Any]:
    # Source: Traefik's chart, values.yaml.
    address = {"service": {"name": _TRAEFIK, "namespace": _TRAEFIK_NAMESPACE}}
    return {
        "providers": {
            "kubernetesGateway": {"enabled": True, "statusAddress": address},
            "kubernetesIngress": {"enabled": False},
        },
        "service": {"nameOverride": _TRAEFIK},
        "gateway": {"enabled": False},
        "gatewayClass": {"enabled": False},
        "extraObjects": list(_addresses(gateway)),
    }


def _addresses(gateway: InferenceGateway) -> Iterator[Object]:
    """Yield the objects with which MetalLB assigns addresses.

    They are in Traefik's release, so that they are made after MetalLB's webhook is ready and deleted before.
    """
    settings = gateway.spec.traefik
    if settings is None or settings.metallb is None or not _has_metallb(gateway):
        return
    metadata = {"name": GATEWAY, "namespace": _METALLB_NAMESPACE}
    pool = {"addresses": [settings.metallb.address_pool]}
    yield {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": metadata, "spec": pool}
    yield {
        "apiVersion": "metallb.io/v1beta1",
        "kind": "L2Advertisement",
        "metadata": metadata,
        "spec": {"ipAddressPools": [GATEWAY]},
    }


def _has_metallb(gateway: InferenceGateway) -> bool:
    return gateway.spec.traefik is not None and gateway.spec.traefik.load_balancer is LoadBalancer.METALLB


def _envoy_gateway() -> Implementation:
    """Return Envoy Gateway, whose chart is that of the serving stack."""
    row = next(component for component in COMPONENTS if component.name is ComponentName.ENVOY_GATEWAY)
    if row.chart is None:
        raise LookupError(f"component {row.name} has no chart")
    return Implementation(
        "Envoy Gateway",
        str(row.name),
        row.chart,
        row.namespace,
        lambda gateway: (
            (gateway.spec.envoy_gateway and gateway.spec.envoy_gateway.version) or Versions().envoy_gateway
        ),
        lambda _gateway: {},
        class_name="envoy",
        controller=stack_gateway.CONTROLLER,
        port=80,
        has_definitions=True,
    )


IMPLEMENTATIONS: Final = {
    Backend.TRAEFIK: Implementation(
        "Traefik",
        _TRAEFIK,
        Chart(_TRAEFIK, _TRAEFIK_CHARTS),
        _TRAEFIK_NAMESPACE,
        lambda gateway: gateway.spec.traefik.version if gateway.spec.traefik else "",
        _traefik_values,
        class_name=_TRAEFIK,
        controller="traefik.io/gateway-controller",
        # The entry point "web" of the chart, which its Service exposes as port 80.
        port=8000,
        has_definitions=False,
        # Source: Traefik 3.7.6 and later keep the filters of backends apart; 41.3.0 installs 3.7.11.
        oldest=(41, 3, 0),
    ),
    Backend.ENVOY_GATEWAY: _envoy_gateway(),
}
"""The implementations that Modelplane installs, by backend. Their charts were never run by the project."""


def children(row: Implementation, request: GatewayRequest, *, has_definitions: bool) -> Iterator[Desired]:
    """Yield the children of an implementation that can be composed by now.

    What was composed before stays. ``has_definitions`` tells that the cluster has those of the Gateway API.
    """
    gateway, observed = request.owner, request.observed
    needed = []
    if not row.has_definitions and (not has_definitions or DEFINITIONS in observed):
        values = {"traefik": False, "gatewayAPI": True, "hub": False, "deleteOnUninstall": False}
        needed.append(
            _release(DEFINITIONS, DEFINITIONS_CHART, _DEFINITIONS_VERSION, SYSTEM_NAMESPACE, values)
        )
    if row.key == _TRAEFIK and _has_metallb(gateway):
        needed.append(_release(METALLB, METALLB_CHART, _METALLB_VERSION, _METALLB_NAMESPACE, {}))
    yield from needed
    release = _release(row.key, row.chart, row.version(gateway), row.namespace, row.values(gateway))
    if row.key not in observed and not all(map(_is_ready(request), needed)):
        return
    yield release
    if stack_gateway.KEY in observed or _is_ready(request)(release):
        yield from _gateway(row)


def _is_ready(request: GatewayRequest) -> Callable[[Desired], bool]:
    return lambda child: child.ready(request.observed.get(child.key, {}))


def _release(key: str, chart: Chart, version: str, namespace: str, values: Mapping[str, Any]) -> Desired:
    child = releases.release(
        key, chart, name=key, version=version, namespace=namespace, values=values, cluster=""
    )
    child.manifest["metadata"]["labels"] = {labels.RELEASE: key}
    return child


def _gateway(row: Implementation) -> Iterator[Desired]:
    """Yield the GatewayClass and the Gateway, which is ready once it has an address."""
    class_: Object = {
        "apiVersion": _API_VERSION,
        "kind": "GatewayClass",
        "metadata": {"name": row.class_name},
        "spec": {"controllerName": row.controller},
    }
    yield Desired(CLASS, class_, exists)
    listener = {
        "name": "web",
        "port": row.port,
        "protocol": "HTTP",
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }
    manifest: Object = {
        "apiVersion": _API_VERSION,
        "kind": "Gateway",
        "metadata": {
            "name": GATEWAY,
            "namespace": SYSTEM_NAMESPACE,
            "labels": stack_gateway.MADE,
        },
        "spec": {"gatewayClassName": row.class_name, "listeners": [listener]},
    }
    yield Desired(stack_gateway.KEY, manifest, lambda seen: bool(stack_gateway.address(seen)))
    if row.controller == stack_gateway.CONTROLLER:
        yield from traffic_policies.policies(GATEWAY)


def list_removal_order() -> Iterator[tuple[str, str]]:
    """Yield the key of each child with that of a child that is deleted only after it."""
    yield _TRAEFIK, METALLB
    for row in IMPLEMENTATIONS.values():
        yield stack_gateway.KEY, row.key

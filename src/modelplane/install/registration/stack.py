"""Serving stack of a cluster: what is there, and what Modelplane is to install."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from modelplane.api.fields.cluster.stack_components import ComponentName, ComponentSettings, ServingProfile
from modelplane.api.inference_cluster import ServingStack
from modelplane.api.listing import count_noun
from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE
from modelplane.compose.cluster import cluster_stack
from modelplane.compose.cluster.cluster_namespace import MADE
from modelplane.compose.serving_stack import cluster_gateway
from modelplane.compose.serving_stack.table import COMPONENTS
from modelplane.compose.workload_kinds import ROWS, capabilities
from modelplane.install.registration.node_classes import is_accelerator
from modelplane.install.registration.observed import Gateway, Listener, Observed

_GATEWAY: Final = f'Gateway "{GATEWAY_NAME}" in namespace "{SYSTEM_NAMESPACE}"'
_DRIVER: Final = "gpu.nvidia.com"
"""The driver of the chart."""

GATEWAY_DEFINITION: Final = ROWS["gateway.networking.k8s.io/v1", "Gateway"].definition
"""The CustomResourceDefinition of Gateways."""

_FOUND_BY: Final[Mapping[ComponentName, str]] = {
    ComponentName.CERT_MANAGER: "certificates.cert-manager.io",
    ComponentName.PROMETHEUS: "prometheuses.monitoring.coreos.com",
    ComponentName.NODE_FEATURE_DISCOVERY: "nodefeatures.nfd.k8s-sigs.io",
}
"""Components that a cluster may have already, by a CustomResourceDefinition of each."""


def list_definitions() -> tuple[str, ...]:
    """Return the CustomResourceDefinitions that tell what a cluster has."""
    return (*capabilities().values(), GATEWAY_DEFINITION, *_FOUND_BY.values())


@dataclass(frozen=True, slots=True)
class Stack:
    """The needs of serving on a cluster."""

    settings: ServingStack
    installs: tuple[str, ...] = ()
    """Components that Modelplane installs."""
    found: tuple[str, ...] = ()
    """Components that the cluster has already."""
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons for which the cluster cannot serve as it is, with remedies."""

    @property
    def needs_installer(self) -> bool:
        """True if charts are to be installed."""
        return bool(self.installs)


def choose_stack(observed: Observed, profile: ServingProfile | None = None) -> Stack:
    """Return what is there and what to install; ``profile`` is the user's own choice."""
    drivers = {device.driver for node in observed.nodes for device in node.devices}
    has_devices = any(map(is_accelerator, drivers))
    # Device plugins count GPUs that the DRA driver of the stack is for.
    needs_driver = _DRIVER not in drivers and any(
        key.startswith("nvidia.com/") for node in observed.nodes for key in node.extended
    )
    present = {key: name in observed.definitions for key, name in capabilities().items()}
    gateway = observed.gateway
    chosen = profile or _profile(present, has_own=gateway is not None)
    settings = ServingStack(
        profile=chosen,
        components=tuple(
            _components(
                observed, chosen, needs_driver=needs_driver, is_free=profile is None and gateway is not None
            )
        ),
    )
    installed = tuple(_installed(settings))
    notes = []
    if gateway and gateway.has_address and chosen is not ServingProfile.NONE:
        installed = ()
        notes.append(f"profile {chosen} installs nothing, because the cluster already has {_GATEWAY}")
    if missing := cluster_stack.lacks(present) if gateway or chosen is not ServingProfile.STANDARD else "":
        notes.append(f"some models cannot run: {missing}")
    if not has_devices and not (needs_driver and installed):
        notes.append("no driver publishes devices: install the DRA driver of your GPUs")
    if gateway is None and observed.other_gateways:
        notes.append(
            f"the cluster has {count_noun(len(observed.other_gateways), 'other Gateway')}, but routes "
            f"attach to {_GATEWAY}: to use an existing implementation, create that Gateway before you "
            "register the cluster"
        )
    if gateway is None and chosen is ServingProfile.NONE:
        notes.append(f"{_GATEWAY} does not exist, and profile None doesn't install it: create it")
    return Stack(
        settings,
        installed,
        tuple(_found(observed, present, has_devices=has_devices)),
        tuple(notes),
        tuple(find_gateway_problems(gateway)) if gateway else (),
    )


def _profile(present: Mapping[str, bool], *, has_own: bool) -> ServingProfile:
    """Return the extent: only what is missing is to be installed."""
    if has_own:
        return ServingProfile.NONE
    return ServingProfile.STANDARD if cluster_stack.lacks(present) else ServingProfile.MINIMAL


def _components(
    observed: Observed, profile: ServingProfile, *, needs_driver: bool, is_free: bool
) -> Iterator[ComponentSettings]:
    """Yield the settings that deviate from the profile.

    ``is_free``: what the profile lacks may be added.
    """
    present = {name for name, definition in _FOUND_BY.items() if definition in observed.definitions}
    if not needs_driver:
        present |= set(_DEVICES)
    if cluster_gateway.CONTROLLER in observed.gateway_controllers:
        present |= set(_ENVOY)
    for row in COMPONENTS:
        if row.name in present and row.name in _of(profile):
            yield ComponentSettings(name=row.name, enabled=False)
        elif is_free and row.name not in present and row.name in _DEVICES:
            yield ComponentSettings(name=row.name, enabled=True)


_DEVICES: Final = (ComponentName.NODE_FEATURE_DISCOVERY, ComponentName.DRA_DRIVER)
_ENVOY: Final = (ComponentName.ENVOY_GATEWAY, ComponentName.AI_GATEWAY_CRDS, ComponentName.AI_GATEWAY)
"""Components that a cluster with an Envoy Gateway of its own does not get: the last two configure it."""


def _of(profile: ServingProfile) -> frozenset[ComponentName]:
    """Return the components of a profile."""
    match profile:
        case ServingProfile.NONE:
            return frozenset()
        case ServingProfile.MINIMAL:
            return frozenset(row.name for row in COMPONENTS if row.in_minimal)
        case ServingProfile.STANDARD:
            return frozenset(row.name for row in COMPONENTS if row.in_standard)


def _installed(settings: ServingStack) -> Iterator[str]:
    chosen = {component.name: component.enabled for component in settings.components}
    for row in COMPONENTS:
        if chosen.get(row.name, row.name in _of(settings.profile)):
            yield f"{row.name}: {row.purpose}"


def _found(observed: Observed, present: Mapping[str, bool], *, has_devices: bool) -> Iterator[str]:
    if observed.gateway is not None:
        yield f"{_GATEWAY}, {'with' if observed.gateway.has_address else 'without'} an address"
    if has_devices:
        yield "devices of a DRA driver"
    yield from (name for key, name in capabilities().items() if present[key])
    if cluster_gateway.CONTROLLER in observed.gateway_controllers:
        yield "the controller of Envoy Gateway"
    yield from (str(name) for name, definition in _FOUND_BY.items() if definition in observed.definitions)


def find_gateway_problems(gateway: Gateway) -> Iterator[str]:
    """Yield why a Gateway does not admit the routes of replicas, with the remedy.

    Its first listener is the one whose port the address has.
    """
    if not gateway.listeners:
        yield (
            f"{_GATEWAY} has no listener: add a listener with protocol HTTP that allows routes from all "
            "namespaces"
        )
        return
    listener = gateway.listeners[0]
    if listener.protocol not in ("HTTP", "HTTPS"):
        yield f"the first listener of {_GATEWAY} doesn't use protocol HTTP: put an HTTP listener first"
    if not _admits(listener):
        yield (
            f"the first listener of {_GATEWAY} doesn't allow routes from all namespaces, so requests can't "
            "reach models: set allowedRoutes.namespaces.from of that listener to All"
        )
    if listener.kinds and "HTTPRoute" not in listener.kinds:
        yield (
            f"the first listener of {_GATEWAY} doesn't allow HTTPRoutes: add HTTPRoute to allowedRoutes.kinds"
        )


def _admits(listener: Listener) -> bool:
    """Return True if routes are admitted from every namespace that Modelplane makes."""
    if listener.namespaces == "Selector":
        return bool(listener.match_labels) and listener.match_labels.items() <= MADE.items()
    return listener.namespaces == "All"

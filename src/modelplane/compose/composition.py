"""Request and result of a composition function.

One rule: **never delete on doubt**. A child that a composition names neither
as ``Desired`` nor as ``Keep`` is pruned, so omitting one is always a decision:
scaled down, replaced, or no longer asked for. If an input is missing, invalid
or unreadable, the child is kept.

The types are the same for every caller. A controller, the Crossplane function and
the offline commands build the same ``Request`` and read the same ``Composition``.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from modelplane.api.clouds.cluster_origin import KubeconfigSecret
from modelplane.api.inference_gateway import Backend
from modelplane.api.meta import Model, Object
from modelplane.compose import workload_kinds
from modelplane.compose.conditions import Condition

if TYPE_CHECKING:
    from modelplane.deciders.autoscaling.state import State
    from modelplane.deciders.canary.state import Observed
    from modelplane.deciders.cluster_health import Watched
    from modelplane.gateway.endpoint_share import EndpointShare
    from modelplane.gateway.mutual_tls import Link
    from modelplane.gateway.route_table import Route
    from modelplane.gateway.tokens import GatewayKeys
    from modelplane.gateway.usage.spent_budgets import KeyBudgets
    from modelplane.gateway.usage.spent_tiers import TierBudgets

Readiness = Callable[[Object], bool]
"""Returns True if a child, as observed, is ready."""

Owner = TypeVar("Owner", bound=Model)


class Requirement(msgspec.Struct, frozen=True):
    """Objects that a composition reads but does not own.

    Either one object by ``name``, or every object of the kind that ``labels`` match.
    """

    key: str
    api_version: str
    kind: str
    namespace: str = ""
    """Empty means all namespaces, or a cluster-scoped kind."""
    name: str = ""
    labels: Mapping[str, str] = {}
    cluster: str = ""
    """The InferenceCluster that holds them; empty is the control plane."""
    triggers: bool = True
    """True if a change of such an object triggers another composition.

    If False, it does so only while the owner is ``unsatisfied``.
    """
    with_status: str = ""
    """A field that the status of each must have, and that alone is read of it; empty: none.

    A change of anything else of such an object triggers nothing.
    """
    optional: bool = False
    """True if a composition takes objects that were not fetched for absent ones."""

    def matches(self, item: Object) -> bool:
        """Return True if an object of the required kind is one of those required."""
        return self.selects(item) and (not self.with_status or self.with_status in item.get("status", {}))

    def selects(self, item: Object) -> bool:
        """Return True if an object of the required kind is one of those required, whatever its status."""
        metadata = item["metadata"]
        return bool(
            self.name in ("", metadata.get("name"))
            and self.namespace in ("", metadata.get("namespace", ""))
            and self.labels.items() <= metadata.get("labels", {}).items()
        )


class Unknown(msgspec.Struct, frozen=True):
    """A requirement that could not be read, and why. Not the same as an empty result."""

    cause: str
    loading: bool = False
    """True if the objects are being fetched, so that composing should wait."""
    since: str = ""
    """Time of the first failed attempt (RFC 3339); empty if unknown."""
    forbidden: bool = False
    """True if the identity may not read them. Not told of every kind."""


class Silence(msgspec.Struct, frozen=True):
    """The API server of a cluster does not answer."""

    cause: str
    """The error of the last attempt, the same text each time."""
    since: str = ""
    """Time of the first failed attempt (RFC 3339); empty if unknown."""


class Credential(msgspec.Struct, frozen=True):
    """A cluster's credential that expires."""

    expires: str
    """Time at which it expires (RFC 3339); empty if only the installer's expires."""
    problem: str = ""
    """The reason for which nothing replaces it, with the remedy; empty while there is time."""
    installer: str = ""
    """The same about the credential that installs charts, as a sentence that names it."""


class Request(msgspec.Struct, Generic[Owner], frozen=True):
    """All inputs of a composition function."""

    owner: Owner
    observed: Mapping[str, Object]
    """The owner's observed children, by key."""
    required: Mapping[str, tuple[Object, ...] | Unknown]
    """The objects of each requirement, by its key."""
    gateway_address: str = ""
    """Address of the fleet's gateway; empty while it has none, or if it is unknown."""
    proxy: Backend = Backend.ENVOY
    """Backend of the fleet's gateway with the caller. Its status may still name an earlier one."""
    gateway_problem: str = ""
    """The reason for which the gateway's address is unknown."""
    gateway_tls_problem: str = ""
    """The problem of the certificates of the gateway; empty if there is none, or without TLS."""
    gateway_without_module: str = ""
    """The reason for which the gateway's Envoy runs without its module; empty if it has it."""
    gateway_asks_for_keys: bool = False
    """True if the gateway's present configuration admits requests with a key only."""
    key_problem: str | None = None
    """The reason for which the owner, a ModelKey, is not, or not wholly, in force; None if unknown."""
    gateway_pods: Mapping[str, Object] = {}
    """Manifests of the pods of Envoy, by key, where the InferenceGateway composes them: under Crossplane."""
    gateway_keys: "GatewayKeys | None" = None
    """Keys of the gateway, where the InferenceGateway composes their Secret: under Crossplane.

    None also while they are not known.
    """
    gateway_has_tls: bool | None = None
    """True if the gateway's present configuration serves TLS only; None if that follows from the spec."""
    envoy_is_needed_by: str = ""
    """Services that only the pods of Envoy reach, although another backend is asked for; else empty."""
    knows_keys_in_force: bool = True
    """False if the caller cannot know which ModelKeys the gateway has: Crossplane."""
    key_refused: frozenset[str] = frozenset()
    """Hashes of the owner, a ModelKey, that belong to a key of another namespace."""
    key_budgets: "KeyBudgets | None" = None
    """The state of the budgets of the owner, a ModelKey; None where nothing counts what keys use."""
    tier_budgets: "TierBudgets | None" = None
    """The state of the budgets of the owner, a ModelService; None where nothing counts requests."""
    endpoint_share: "EndpointShare | None" = None
    """The endpoints that the owner, a ModelService, may route to; None where nothing bounds a namespace."""
    autoscaling: "State | None" = None
    """Last decision for the owner, an InferenceAutoscaler; None where nothing scales."""
    canary: "Observed | None" = None
    """Last decision on the canary of the owner, a ModelDeployment; None where nothing counts answers."""
    now: datetime | None = None
    """Time of the request; None offline."""
    watching_since: datetime | None = None
    """Time since which the caller has watched without a break; None offline."""
    gateway_is_local: bool = False
    """True if the fleet's gateway accepts requests on a loopback address only."""
    routed_by: str = ""
    """The objects that still route to the owner's endpoint, if routes follow endpoints with a delay."""
    unobserved: frozenset[str] = frozenset()
    """Keys of children that were created and whose state is not known yet."""
    silence: Silence | None = None
    """The connection error that writing or reading the owner's objects on its cluster ended with."""
    kubeconfig_problem: str = ""
    """The reason for which the kubeconfig of the owner, an InferenceCluster, cannot be used; else empty."""
    credential: Credential | None = None
    """The credential of the owner, an InferenceCluster; None if it is not known to expire."""
    observes_capacity: bool = False
    """True if the caller watches the nodes and devices of clusters: the controllers."""
    gateway_answer: str | None = None
    """Cause for which the gateway of the owner, an InferenceCluster, does not answer; empty if it answers.

    None where nothing asks it: under Crossplane, offline, and a gateway that no serving stack made.
    """
    mutual_tls: "Link | Unknown | None" = None
    """Mutual TLS to the cluster of the owner, an InferenceCluster or ServingStack.

    None where nothing issues certificates: under Crossplane, and offline.
    """
    watched: "Watched | None" = None
    """Failover as it concerns the owner, an InferenceCluster or ModelDeployment.

    None where nothing watches clusters: under Crossplane, and for clusters while no deployment has failover.
    """

    def found(self, key: str) -> tuple[Object, ...]:
        """Return the objects of a requirement; empty if it is unknown."""
        found = self.required.get(key, ())
        return () if isinstance(found, Unknown) else found

    def unknown(self, key: str) -> Unknown | None:
        """Return why a requirement is unknown; None if it was read."""
        found = self.required.get(key, Unknown("not fetched yet"))
        return found if isinstance(found, Unknown) else None


class NoRow(Exception):
    """A child is of a kind without a row for its place, and would be orphaned; the message names it."""


class Desired(msgspec.Struct, frozen=True):
    """A child that should exist with these fields, and its readiness.

    A Release is installed by Helm on its cluster. Raises ``NoRow`` if a child on a cluster is of a kind
    without a row in ``workload_kinds``.
    """

    key: str
    manifest: Object
    ready: Readiness
    cluster: str = ""
    """The InferenceCluster to write it to; empty is the control plane, and for a Release its own cluster."""
    installer: KubeconfigSecret | None = None
    """The Secret, in the system's namespace, of Helm's kubeconfig for a Release; None: the cluster's own."""

    def __post_init__(self) -> None:
        row = workload_kinds.row_of(self.manifest)
        place = row.place if row else None
        if self.cluster and place not in (workload_kinds.Place.CLUSTERS, workload_kinds.Place.HELM):
            kind, version = self.manifest.get("kind", ""), self.manifest.get("apiVersion", "")
            raise NoRow(
                f'child "{self.key}" for cluster "{self.cluster}" is of kind "{kind}" of "{version}", which '
                "is not looked for on clusters: add a row to compose/workload_kinds.py"
            )


class Keep(msgspec.Struct, frozen=True):
    """A child to leave exactly as it is, because its desired state is unknown."""

    key: str


class Guard(msgspec.Struct, frozen=True):
    """An object that needs the owner, so that the owner's deletion waits for it.

    Crossplane keeps guards as Usages, the controllers by a finalizer.
    """

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    """Empty for a cluster-scoped object."""

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f'{self.kind} "{where}{self.name}"'


class Reference(msgspec.Struct, frozen=True):
    """An owner of one of our kinds; the namespace is empty for a cluster-scoped one."""

    kind: str
    namespace: str
    name: str


class Composition(msgspec.Struct, frozen=True):
    """The desired state, as far as one owner decides it."""

    children: tuple[Desired | Keep, ...] = ()
    status: Mapping[str, Any] = {}
    """The owner's status fields in wire form, without conditions."""
    conditions: tuple[Condition, ...] = ()
    ready: bool | None = None
    """True if the owner is ready; None derives it from the children."""
    guards: tuple[Guard, ...] = ()
    """The objects that need the owner. It is not deleted while there are any."""
    unsatisfied: bool = False
    """True if the owner got less than it asked for, and waits for more."""
    also_watch: tuple[Requirement, ...] = ()
    """Further objects whose changes trigger another composition."""
    wakes: tuple[Reference, ...] = ()
    """Owners whose composition depends on this one, to be composed now. Crossplane asks for them in time."""
    again_in_s: float | None = None
    """Seconds after which to compose again, although nothing has changed; None if there is no need."""
    routes: "tuple[Route, ...]" = ()
    """Routes of the owner on the fleet's gateway, if Modelplane configures that itself: Envoy.

    The Crossplane function ignores them: another process composes those of its gateway. While the owner is
    blocked, the last ones stay.
    """
    placeholders: tuple[Desired, ...] = ()
    """Children that the owner has once it is ready, in a form that nothing uses.

    Only the Crossplane function composes them: each change of an owner's children costs it two updates. They
    decide nothing.
    """


class Blocked(msgspec.Struct, frozen=True):
    """No decision is possible: every child and the status stay as they are."""

    cause: str


def keep_all(observed: Iterable[str]) -> tuple[Keep, ...]:
    """Keep every observed child."""
    return tuple(Keep(key) for key in sorted(observed))

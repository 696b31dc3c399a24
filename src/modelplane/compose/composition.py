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
from modelplane.api.meta import Model, Object
from modelplane.compose import workload_kinds
from modelplane.compose.conditions import Condition

if TYPE_CHECKING:
    from modelplane.gateway.route_table import Route

Readiness = Callable[[Object], bool]
"""Returns True if a child, as observed, is ready."""

Owner = TypeVar("Owner", bound=Model)
Facts = TypeVar("Facts")


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
            and (not self.labels or self.labels.items() <= metadata.get("labels", {}).items())
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


class NoFacts(msgspec.Struct, frozen=True):
    """The facts of a kind that is composed from objects alone."""


class Request(msgspec.Struct, Generic[Owner, Facts], frozen=True):
    """All inputs of a composition function."""

    owner: Owner
    observed: Mapping[str, Object]
    """The owner's observed children, by key."""
    required: Mapping[str, tuple[Object, ...] | Unknown]
    """The objects of each requirement, by its key."""
    facts: Facts
    """Knowledge of the caller about the owner that no object has; the row of its kind names the type."""
    now: datetime | None = None
    """Time of the request; None offline."""

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

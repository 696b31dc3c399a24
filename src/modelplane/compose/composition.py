"""What a composition function is given, and what it gives back.

One rule: **never delete on doubt**. A child that a composition names neither
as ``Desired`` nor as ``Keep`` is deleted, so leaving it out is always a
decision: scaled down, replaced, or no longer asked for. Where an input is
missing, invalid or unreadable, the answer is ``Keep``.

The types say nothing about who asks. A controller, the Crossplane function and
the offline commands build the same ``Request`` and read the same ``Composition``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from modelplane.api.inference_gateway import Backend
from modelplane.api.meta import Model
from modelplane.compose import workload_kinds
from modelplane.compose.conditions import Condition
from modelplane.gateway.table import Route

Object = Mapping[str, Any]
"""A Kubernetes object in its wire form."""

Readiness = Callable[[Object], bool]
"""Whether a child, as observed, is ready."""

Owner = TypeVar("Owner", bound=Model)


@dataclass(frozen=True, slots=True)
class Requirement:
    """Objects that a composition reads but does not own.

    Either one object by ``name``, or every object of the kind that ``labels`` match.
    """

    key: str
    api_version: str
    kind: str
    namespace: str = ""
    """Empty means all namespaces, or a cluster-scoped kind."""
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    """The InferenceCluster that holds them; empty is the control plane."""
    triggers: bool = True
    """Whether a change of such an object triggers another composition.

    If False, it does so only while the owner is ``unsatisfied``.
    """

    def matches(self, item: Object) -> bool:
        """Whether an object of the required kind is one of those required."""
        metadata = item["metadata"]
        return bool(
            self.name in ("", metadata["name"])
            and self.namespace in ("", metadata.get("namespace", ""))
            and self.labels.items() <= metadata.get("labels", {}).items()
        )


@dataclass(frozen=True, slots=True)
class Unknown:
    """A requirement that could not be looked at, and why. Not the same as "there is none"."""

    cause: str
    loading: bool = False
    """Whether the answer is on its way, so that composing had better wait for it."""
    since: str = ""
    """Since when it could not be looked at (RFC 3339); empty where that is not known."""


@dataclass(frozen=True, slots=True)
class Silence:
    """The API server of a cluster does not answer."""

    cause: str
    """The error of the last attempt, the same text each time."""
    since: str = ""
    """The time of the first failed attempt (RFC 3339); empty where it is not known."""


@dataclass(frozen=True, slots=True)
class Request(Generic[Owner]):
    """Everything a composition function may know."""

    owner: Owner
    observed: Mapping[str, Object]
    """The owner's children as they are now, by key."""
    required: Mapping[str, tuple[Object, ...] | Unknown]
    """What each requirement found, by its key."""
    gateway_address: str = ""
    """Where the fleet's gateway accepts requests; empty while it does not, or nobody can tell."""
    proxy: Backend = Backend.ENVOY
    """What the fleet's gateway is, where whoever composes knows it."""
    gateway_problem: str = ""
    """Why whoever runs the gateway does not know where it accepts requests."""
    routed_by: str = ""
    """What still routes to the owner's endpoint, where routes follow endpoints late."""
    unobserved: frozenset[str] = frozenset()
    """Keys of children that were created and whose state is not known yet."""
    silence: Silence | None = None
    """The connection error that writing or reading the owner's objects on its cluster ended with."""

    def found(self, key: str) -> tuple[Object, ...]:
        """Return what a requirement found; empty where it is unknown."""
        found = self.required.get(key, ())
        return () if isinstance(found, Unknown) else found

    def unknown(self, key: str) -> Unknown | None:
        """Return why a requirement is unknown; None if it was looked at."""
        found = self.required.get(key, Unknown("not fetched yet"))
        return found if isinstance(found, Unknown) else None


class NoRow(Exception):
    """A child on a cluster is of a kind that nothing would find again; the message names it."""


@dataclass(frozen=True, slots=True)
class Desired:
    """A child that should exist with these fields, and how its readiness is read.

    Raises ``NoRow`` where a child on a cluster is of a kind without a row in ``workload_kinds``.
    """

    key: str
    manifest: Object
    ready: Readiness
    cluster: str = ""
    """The InferenceCluster to write it to; empty is the control plane."""

    def __post_init__(self) -> None:
        if self.cluster and workload_kinds.row_of(self.manifest) is None:
            kind, version = self.manifest.get("kind", ""), self.manifest.get("apiVersion", "")
            raise NoRow(
                f'child "{self.key}" for cluster "{self.cluster}" is of kind "{kind}" of "{version}", which '
                "is not looked for on clusters: add a row to compose/workload_kinds.py"
            )


@dataclass(frozen=True, slots=True)
class Keep:
    """A child to leave exactly as it is, because nobody can tell what it should be."""

    key: str


@dataclass(frozen=True, slots=True)
class Guard:
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


@dataclass(frozen=True, slots=True)
class Composition:
    """What should be, as far as one owner decides it."""

    children: tuple[Desired | Keep, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    """The owner's status fields in wire form, without conditions."""
    conditions: tuple[Condition, ...] = ()
    ready: bool | None = None
    """Whether the owner is ready; None derives it from the children."""
    guards: tuple[Guard, ...] = ()
    """What needs the owner. It is not deleted while there is any."""
    unsatisfied: bool = False
    """Whether the owner got less than it asked for, and waits for more."""
    also_watch: tuple[Requirement, ...] = ()
    """Further objects whose changes trigger another composition."""
    routes: tuple[Route, ...] = ()
    """Routes of the owner on the fleet's gateway, if Modelplane configures that itself: Envoy.

    Only the controllers run an Envoy, so the Crossplane function ignores them. While the owner is blocked,
    the last ones stay.
    """


@dataclass(frozen=True, slots=True)
class Blocked:
    """No decision is possible: every child and the status stay as they are."""

    cause: str


def keep_all(observed: Iterable[str]) -> tuple[Keep, ...]:
    """Keep every child that is there."""
    return tuple(Keep(key) for key in sorted(observed))

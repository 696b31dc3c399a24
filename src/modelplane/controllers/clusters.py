"""Connections to the inference clusters.

Each cluster has its own client and its own watches, so that one that is slow or
away holds up nobody else. What is not known about a cluster is said with its
cause; it is never taken for "there is nothing".

A kind of children is watched where there are any: a connection looks for them
once, and a write of the first one begins the watch. So a cluster that holds
nothing of ours costs three watches: of its gateway, and of what it can do.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.guards import recorded
from modelplane.compose.inference_cluster import CAPABILITY_CRDS
from modelplane.controllers.children import ChildIndex
from modelplane.gateway.http_routes import GATEWAY_NAME
from modelplane.kube import errors, kubeconfig_secret, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.fence import Fence
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource, resource_for, resource_of
from modelplane.telemetry import traces
from modelplane.telemetry.log_lines import fields

_log = logging.getLogger(__name__)

_PATIENCE_S = 15.0
"""How long a cluster may be silent before what is known of it counts as unknown."""

LOST_S = 300.0
"""How long a cluster may be silent before a person who deletes it is taken to mean that it is gone.

Far longer than an API server needs to restart or to be upgraded: what is given up is never looked for.
"""

_LOADING = "its objects are still being read"

_OPENED_AT_A_TIME = 16
_TURN_S = 1.0
"""How many clusters are first read at a time, and how long one may keep the others waiting."""

_LOOK_AGAIN_S = 5.0
"""How long to wait where a cluster could not say which kinds of children it holds."""

_REFUSED_AGAIN_S = 60.0
"""How long to wait before asking again for a kind that may not be read: nobody tells of a permission."""

_VITAL_KINDS = (
    resources.DEPLOYMENTS,
    resources.HTTP_ROUTES,
    resources.RESOURCE_CLAIM_TEMPLATES,
    resources.SERVICES,
)
"""Kinds of which every replica is made: a cluster where one of them cannot be read is of no use."""

_CHILD_KINDS = (
    *_VITAL_KINDS,
    resources.CONFIG_MAPS,
    resources.INFERENCE_POOLS,
    resources.JOBS,
    resources.LEADER_WORKER_SETS,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.POD_DISRUPTION_BUDGETS,
    resources.ROLES,
    resources.ROLE_BINDINGS,
    resources.SECRETS,
    resources.SERVICE_ACCOUNTS,
)
"""Kinds of children. A cluster need not have the kind at all."""

_OURS = f"{labels.MANAGED_BY}=modelplane"

_PODS_OF = {
    resources.DEPLOYMENTS: labels.WORKLOAD,
    resources.LEADER_WORKER_SETS: labels.WORKLOAD,
    resources.JOBS: labels.MODEL_CACHE,
}
"""By which label the pods of a kind of children are found. They are watched where that kind is."""

_ROUTE_KINDS = (resources.GATEWAYS, resources.HTTP_ROUTES, resources.SERVICES, resources.ENDPOINT_SLICES)

Changed = Callable[[str, Object], None]
"""Called with a cluster's name and an object of it that changed."""


class Connection:
    """One inference cluster: a client, and a copy of what Modelplane has there."""

    def __init__(
        self,
        name: str,
        client: Client,
        on_change: Changed,
        on_problem: Callable[[str], None],
        *,
        routes: bool = False,
    ) -> None:
        """``routes``: requests go from here straight to the cluster's pods, which are then watched too."""
        self.name = name
        self.client = client
        self._routes = routes
        self._on_problem = on_problem
        self.children = ChildIndex(lambda item: item["metadata"].get("labels", {}).get(labels.OWNER_UID, ""))
        self._on_change = on_change
        self._tasks: list[asyncio.Task[None]] = []
        self._reviews: dict[Informer, asyncio.TimerHandle] = {}
        self._informers: dict[tuple[Resource, str], Informer] = {}
        self._refused: dict[Resource, str] = {}
        self._latest = 0  # the newest version of the cluster that is known
        self._none_until: dict[Resource, int] = {}
        self._vital: list[Informer] = []
        self._awaited: list[Informer] = []
        self._looking = _LOADING
        self._answers = asyncio.Event()

    async def open(self) -> None:
        """Begin to read the cluster; return once that is done or has failed."""
        gateway = f"metadata.name={GATEWAY_NAME},metadata.namespace={SYSTEM_NAMESPACE}"
        self._vital = [self._watch(resources.GATEWAYS, fields=gateway)]
        for crd in CAPABILITY_CRDS.values():
            self._watch(resources.CUSTOM_RESOURCE_DEFINITIONS, crd, fields=f"metadata.name={crd}")
        self._awaited = list(self._informers.values())
        self._begin(self._look(), "look")
        await self._answers.wait()

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"{self.name}: {what}"))

    def _watch(
        self,
        resource: Resource,
        slot: str = "",
        *,
        selector: str = "",
        fields: str = "",
        empty_until: int | None = None,
    ) -> Informer:
        informer = Informer(
            self.client,
            resource,
            labels=selector,
            fields=fields,
            metadata_only=resource == resources.CUSTOM_RESOURCE_DEFINITIONS,
            on_change=lambda item: self._on_change(self.name, item),
            on_answer=self._answered,
        )
        if empty_until is not None:
            informer.begin_empty(empty_until)
        self._informers[resource, slot] = informer
        self._begin(informer.run(), resource.plural)
        return informer

    def _watch_children(self, resource: Resource, empty_until: int | None = None) -> list[Informer]:
        """Watch a kind of children, and what is made of them; return the new copies."""
        begun = [self._watch(resource, selector=_OURS, empty_until=empty_until)]
        self.children.follow(begun[0])
        if resource in _VITAL_KINDS:
            self._vital.append(begun[0])
        label = _PODS_OF.get(resource)
        if label and (resources.PODS, label) not in self._informers:
            begun.append(self._watch(resources.PODS, label, selector=label, empty_until=empty_until))
        if self._routes and resource == resources.SERVICES:
            slices = resources.ENDPOINT_SLICES
            begun.append(self._watch(slices, selector=_OURS, empty_until=empty_until))
        return begun

    async def _look(self) -> None:
        """Watch those kinds of which there are children here."""
        unknown = list(_CHILD_KINDS)
        while unknown:
            resource = unknown[0]
            try:
                await self._look_for_kind(resource)
                del unknown[0]
            except errors.KubernetesError as error:
                self._looking = str(error)
                await asyncio.sleep(_LOOK_AGAIN_S)
        self._looking = ""
        self._tell()
        while self._refused:
            await asyncio.sleep(_REFUSED_AGAIN_S)
            before = tuple(self._refused)
            for resource in before:
                with suppress(errors.KubernetesError):
                    await self._look_for_kind(resource)
            if tuple(self._refused) != before:
                self._tell()

    async def _look_for_kind(self, resource: Resource) -> None:
        try:
            found = await self._ours(resource, _OURS, metadata_only=True)
        except errors.Forbidden as error:
            if not self._may_do_without(resource):
                raise
            if resource not in self._refused:
                _log.info("cluster %s: %s", self.name, error, extra=fields(cluster=self.name))
            self._refused[resource] = str(error)
            return
        self._refused.pop(resource, None)
        if found and (resource, "") not in self._informers:
            self._awaited += self._watch_children(resource)

    def _may_do_without(self, resource: Resource) -> bool:
        """Whether a kind may stay unread: who may not read it has written none, and a write will say so."""
        return resource not in _VITAL_KINDS and (resource, "") not in self._informers

    async def _ours(
        self, resource: Resource, selector: str, *, metadata_only: bool = False
    ) -> tuple[Object, ...]:
        """Return the objects of a kind that the cluster may not have."""
        try:
            found = await self.client.list(resource, labels=selector, metadata_only=metadata_only)
        except errors.NotFound:
            if await self.client.serves(resource):
                raise
            return ()
        self._latest = max(self._latest, int(found.resource_version))
        return found.items

    def _answered(self, informer: Informer) -> None:
        """Tell of a copy that was read, or cannot be; and once more when patience with it ends."""
        if review := self._reviews.pop(informer, None):
            review.cancel()
        if informer.problem:
            self._reviews[informer] = asyncio.get_running_loop().call_later(_PATIENCE_S, self._tell)
        self._tell()

    def _tell(self) -> None:
        if not self.loading:
            self._answers.set()
            self._on_problem(self.name)

    async def close(self) -> None:
        """Stop every watch and close the client."""
        for review in self._reviews.values():
            review.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    @property
    def problem(self) -> str:
        """Why what is known of the cluster cannot be relied on; empty while it can.

        A kind that not every replica needs is no reason to do without the cluster.
        """
        for informer in self._vital:
            if not informer.synced:
                return informer.problem or _LOADING
        if self._looking:
            return self._looking
        if any(not informer.synced and not informer.problem for informer in self._awaited):
            return _LOADING
        return self._silence(_PATIENCE_S)

    @property
    def lost(self) -> str:
        """Why the cluster has not answered for long; empty while it has, or may yet."""
        return self._silence(LOST_S)

    def _silence(self, patience_s: float) -> str:
        problems = (_silent(informer, patience_s) for informer in self._vital)
        return next(filter(None, problems), "")

    def _unreachable_since(self) -> str:
        """Return when the cluster stopped answering; empty where that is not known."""
        began = [informer.problem_since for informer in self._vital if informer.problem]
        return timestamps.ago(asyncio.get_running_loop().time() - min(began)) if began else ""

    @property
    def loading(self) -> bool:
        """Whether the cluster answers, but has not yet told all it has."""
        return self.problem == _LOADING

    @property
    def routable(self) -> bool:
        """Whether all that its gateway's routes are made of has been read."""
        copies = (self._informers.get((resource, "")) for resource in _ROUTE_KINDS)
        return not self._looking and all(copy is None or copy.synced for copy in copies)

    def informer(self, resource: Resource) -> Informer:
        """Return the copy of one kind that is watched."""
        return self._informers[resource, ""]

    def objects(self, resource: Resource) -> tuple[Object, ...]:
        """Return what the copy of one kind holds; of a kind that is not watched there is nothing."""
        return tuple(self._informers.get((resource, ""), ()))

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the objects that a requirement names, or why they cannot be told."""
        if self.problem:
            return Unknown(self.problem, loading=self.loading, since=self._unreachable_since())
        resource = resource_for(requirement.api_version, requirement.kind)
        if resource in self._refused:
            return Unknown(self._refused[resource])
        informer = self._informers.get((resource, _slot(resource, requirement)))
        if informer is None:
            return ()  # it was looked for, and nothing has been written since
        if not informer.synced:
            return Unknown(informer.problem or _LOADING, loading=not informer.problem)
        if problem := _silent(informer, _PATIENCE_S):
            return Unknown(problem)
        return tuple(item for item in informer if requirement.matches(item))

    async def look_for(self, uid: str) -> tuple[Object, ...]:
        """Ask the cluster for an owner's children, rather than the copies."""
        selector = f"{labels.OWNER_UID}={uid}"
        found: list[Object] = []
        # One after the other: nobody waits for a deletion.
        for resource in _CHILD_KINDS:
            try:
                found += await self._ours(resource, selector)
            except errors.Forbidden:
                if not self._may_do_without(resource):
                    raise
        return tuple(found)

    async def apply(self, manifest: Mapping[str, Any], *, force: bool) -> Object:
        """Write an object, making its namespace where the cluster has none of that name."""
        resource = resource_of(manifest)
        if (resource, "") not in self._informers:
            # It was looked for, and whatever is written from now on is newer than what is known now.
            self._none_until.setdefault(resource, self._latest)
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        with traces.span("write", cluster=self.name, kind=manifest["kind"], namespace=namespace, name=name):
            try:
                written = await self.client.apply(manifest, force=force)
            except errors.NotFound as error:
                if not namespace or f'namespaces "{namespace}" not found' not in error.message:
                    raise
                await self._create_namespace(namespace)
                written = await self.client.apply(manifest, force=force)
        version = int(written["metadata"]["resourceVersion"])
        self._latest = max(self._latest, version)
        if (resource, "") not in self._informers:
            # Nobody need wait for a list, unless kinds are stored apart and their versions tell nothing.
            none_until = self._none_until[resource]
            self._watch_children(resource, none_until if none_until < version else None)
        self._refused.pop(resource, None)
        self.informer(resource).remember(written)
        return written

    async def _create_namespace(self, name: str) -> None:
        with suppress(errors.Conflict):
            await self.client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": name, "labels": {labels.MANAGED_BY: "modelplane"}},
                }
            )


class Clusters:
    """Every inference cluster's connection, kept in step with its kubeconfig Secret."""

    def __init__(
        self,
        on_change: Changed,
        on_problem: Callable[[str], None],
        fence: Fence | None = None,
        *,
        routes: bool = False,
    ) -> None:
        """``on_problem`` is called with a cluster's name when what can be known of it changes."""
        self._routes = routes
        self._on_change = on_change
        self._on_problem = on_problem
        self._fence = fence
        self._connections: dict[str, Connection] = {}
        self._kubeconfigs: dict[str, bytes] = {}
        self._problems: dict[str, str] = {}
        self._turn = asyncio.Semaphore(_OPENED_AT_A_TIME)
        self._opening: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._connections.values()))

    def get(self, name: str) -> Connection | None:
        """Return a cluster's connection, None where there is none."""
        return self._connections.get(name)

    def recorded(self, owner: Mapping[str, Any]) -> tuple[Connection, ...]:
        """Return the connections to the clusters that an owner's status records."""
        return tuple(self._connections[name] for name in recorded(owner) if name in self._connections)

    def problem(self, name: str) -> str:
        """Return why a cluster cannot be looked at; empty while it can."""
        connection = self._connections.get(name)
        if connection is None:
            return self._problems.get(name, f'there is no InferenceCluster "{name}"')
        return connection.problem

    def lost(self, name: str) -> str:
        """Return why a cluster has not answered for long, or why there is no connection to it."""
        connection = self._connections.get(name)
        return self.problem(name) if connection is None else connection.lost

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the objects that a requirement names on its cluster, or why they cannot be told."""
        connection = self._connections.get(requirement.cluster)
        if connection is None:
            return Unknown(self.problem(requirement.cluster))
        return connection.find(requirement)

    def connect(self, name: str, secret: Mapping[str, Any] | None, key: str, where: str) -> None:
        """Connect to a cluster with the kubeconfig that a Secret holds; ``where`` names it in messages."""
        try:
            content = kubeconfig_secret.content(secret, key, where)
            if self._kubeconfigs.get(name) == content:
                self._problems.pop(name, None)
                return
            client = Client.from_kubeconfig(kubeconfig_secret.parsed(content, key, where), fence=self._fence)
        except ValueError as error:
            # What worked so far goes on: a Secret half-written is no reason to cut a cluster off.
            self._refuse(name, str(error))
            return
        self.disconnect(name)
        self._kubeconfigs[name] = content
        connection = Connection(name, client, self._on_change, self._on_problem, routes=self._routes)
        self._connections[name] = connection
        _keep(asyncio.create_task(self._open(connection)), self._opening)
        _log.info("connected to cluster %s", name, extra=fields(cluster=name))

    async def _open(self, connection: Connection) -> None:
        """Read a cluster when it is its turn; one that does not answer soon goes on beside the others."""
        async with self._turn:
            if self._connections.get(connection.name) is connection:
                with suppress(TimeoutError):
                    await asyncio.wait_for(connection.open(), _TURN_S)

    def refuse(self, name: str, why: str) -> None:
        """Have no connection to a cluster, and say why."""
        if name in self._connections:
            self.disconnect(name)
        self._refuse(name, why)

    def _refuse(self, name: str, why: str) -> None:
        if self._problems.get(name) != why:
            _log.warning("cannot connect to cluster %s: %s", name, why, extra=fields(cluster=name))
            self._problems[name] = why
            self._on_problem(name)

    def disconnect(self, name: str) -> None:
        """Drop a cluster's connection, and what is known of it."""
        self._kubeconfigs.pop(name, None)
        self._problems.pop(name, None)
        connection = self._connections.pop(name, None)
        if connection is not None:
            _keep(asyncio.create_task(connection.close()), self._closing)

    async def close(self) -> None:
        """Close every connection."""
        for task in self._opening:
            task.cancel()
        for name in tuple(self._connections):
            self.disconnect(name)
        await asyncio.gather(*self._opening, *self._closing, return_exceptions=True)


def _keep(task: asyncio.Task[None], tasks: set[asyncio.Task[None]]) -> None:
    """Hold a task until it is done: nobody else does."""
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _slot(resource: Resource, requirement: Requirement) -> str:
    """Return which of several copies of a kind holds what is required."""
    if resource == resources.CUSTOM_RESOURCE_DEFINITIONS:
        return requirement.name
    if resource == resources.PODS:
        return labels.MODEL_CACHE if labels.MODEL_CACHE in requirement.labels else labels.WORKLOAD
    return ""


def _silent(informer: Informer, patience_s: float) -> str:
    """Return why a copy has not been brought up to date for so long; empty while it has."""
    now = asyncio.get_running_loop().time()
    return informer.problem if informer.problem and now - informer.problem_since > patience_s else ""

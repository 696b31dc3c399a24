"""Connections to the inference clusters.

Each cluster has its own client and its own watches, so that one that is slow or
away holds up nobody else. What is not known about a cluster is said with its
cause; it is never taken for "there is nothing".

Every cluster has the kinds of which every replica is made, and they are watched
from the start. The other kinds of children are watched only where there are any:
a connection looks for them once, and a write of the first one begins the watch.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml

from modelplane.api import labels
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.guards import recorded
from modelplane.controllers.children import ChildIndex
from modelplane.kube import errors, resources
from modelplane.kube.client import Client, Fence
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

_LOOK_AGAIN_S = 5.0
"""How long to wait where a cluster could not say which rarer kinds of children it holds."""

_CHILD_KINDS = (
    resources.DEPLOYMENTS,
    resources.HTTP_ROUTES,
    resources.RESOURCE_CLAIM_TEMPLATES,
    resources.SERVICES,
)
"""Kinds of children that are watched on every cluster."""

_RARER_CHILD_KINDS = (
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
"""Kinds of children that are watched where there are any; a cluster need not have the kind at all."""

_OURS = f"{labels.MANAGED_BY}=modelplane"
_POLL_S = 0.1

_ROUTE_KINDS = (resources.GATEWAYS, resources.HTTP_ROUTES, resources.SERVICES, resources.ENDPOINT_SLICES)

Changed = Callable[[str, Object], None]
"""Called with a cluster's name and an object of it that changed."""


class Connection:
    """One inference cluster: a client, and a copy of what Modelplane has there."""

    def __init__(
        self, name: str, client: Client, on_change: Changed, on_problem: Callable[[str], None]
    ) -> None:
        self.name = name
        self.client = client
        self._on_problem = on_problem
        self.children = ChildIndex(lambda item: item["metadata"].get("labels", {}).get(labels.OWNER_UID, ""))
        self._on_change = on_change
        self._tasks: list[asyncio.Task[None]] = []
        self._informers: dict[tuple[Resource, str], Informer] = {}
        for resource in _CHILD_KINDS:
            self.children.follow(self._start(resource, _OURS))
        self._start(resources.PODS, labels.WORKLOAD)
        self._start(resources.ENDPOINT_SLICES, _OURS)
        self._start(resources.GATEWAYS)
        self._awaited = list(self._informers.values())
        self._core = tuple(self._awaited)
        self._looking = _LOADING
        self._told = False
        self._begin(self._look(), "look")
        for informer in self._core:
            self._begin(self._tell_when_synced(informer), "sync")

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"{self.name}: {what}"))

    def _start(self, resource: Resource, selector: str = "", *, slot: str = "", fields: str = "") -> Informer:
        informer = Informer(
            self.client,
            resource,
            labels=selector,
            fields=fields,
            metadata_only=resource == resources.CUSTOM_RESOURCE_DEFINITIONS,
            on_change=lambda item: self._on_change(self.name, item),
        )
        self._informers[resource, slot] = informer
        self._begin(informer.run(), resource.plural)
        return informer

    def _watch_rarer(self, resource: Resource) -> Informer:
        informer = self._start(resource, _OURS)
        self.children.follow(informer)
        return informer

    async def _look(self) -> None:
        """Watch those of the rarer kinds of which there are children here."""
        unknown = list(_RARER_CHILD_KINDS)
        while unknown:
            try:
                found = await self._ours(unknown[0], _OURS, metadata_only=True)
                if found and (unknown[0], "") not in self._informers:
                    self._awaited.append(self._watch_rarer(unknown[0]))
                    self._begin(self._tell_when_synced(self._awaited[-1]), "sync")
                del unknown[0]
            except errors.KubernetesError as error:
                self._looking = str(error)
                await asyncio.sleep(_LOOK_AGAIN_S)
        self._looking = ""
        self._tell_if_read()

    async def _ours(
        self, resource: Resource, selector: str, *, metadata_only: bool = False
    ) -> tuple[Object, ...]:
        """Return the objects of a kind that the cluster may not have, or not let us read."""
        try:
            return (await self.client.list(resource, labels=selector, metadata_only=metadata_only)).items
        except errors.NotFound:
            if await self.client.serves(resource):
                raise
        except errors.Forbidden as error:
            if (resource, "") in self._informers:
                raise
            # Who may not read a kind has not written any, and a write of one will say so.
            _log.info("cluster %s: %s", self.name, error, extra=fields(cluster=self.name))
        return ()

    async def _tell_when_synced(self, informer: Informer) -> None:
        await informer.wait_until_synced()
        self._tell_if_read()

    def _tell_if_read(self) -> None:
        if not self._told and not self.problem:
            self._told = True
            self._on_problem(self.name)

    async def _tell_when_answered(self, informer: Informer) -> None:
        """Tell when a copy that somebody waits for is there, or cannot be had."""
        while not (informer.synced or informer.problem):
            await asyncio.sleep(_POLL_S)
        self._on_problem(self.name)
        if not informer.synced:
            await informer.wait_until_synced()
            self._on_problem(self.name)

    async def close(self) -> None:
        """Stop every watch and close the client."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    @property
    def problem(self) -> str:
        """Why what is known of the cluster cannot be relied on; empty while it can.

        A rarer kind that cannot be read is no reason to do without the cluster.
        """
        for informer in self._core:
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
        problems = (_silent(informer, patience_s) for informer in self._core)
        return next(filter(None, problems), "")

    @property
    def loading(self) -> bool:
        """Whether the cluster answers, but has not yet told all it has."""
        return self.problem == _LOADING

    @property
    def routable(self) -> bool:
        """Whether all that its gateway's routes are made of has been read."""
        return all(self.informer(resource).synced for resource in _ROUTE_KINDS)

    def informer(self, resource: Resource) -> Informer:
        """Return the copy of one kind."""
        return self._informers[resource, ""]

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the objects that a requirement names, or why they cannot be told."""
        resource = resource_for(requirement.api_version, requirement.kind)
        informer = self._copy_for(resource, requirement)
        if self.problem:
            return Unknown(self.problem, loading=self.loading)
        if not informer.synced:
            return Unknown(informer.problem or _LOADING, loading=not informer.problem)
        if problem := _silent(informer, _PATIENCE_S):
            return Unknown(problem)
        return tuple(item for item in informer if requirement.matches(item))

    def _copy_for(self, resource: Resource, requirement: Requirement) -> Informer:
        """Return the copy that holds what is required, begun now where nobody asked before."""
        slot, selector, fields = "", "", ""
        if resource == resources.CUSTOM_RESOURCE_DEFINITIONS:
            slot, fields = requirement.name, f"metadata.name={requirement.name}"
        elif resource == resources.PODS and labels.MODEL_CACHE in requirement.labels:
            slot = selector = labels.MODEL_CACHE
        informer = self._informers.get((resource, slot))
        if informer is None:
            if resource in _RARER_CHILD_KINDS:
                informer = self._watch_rarer(resource)
            else:
                informer = self._start(resource, selector, slot=slot, fields=fields)
            self._begin(self._tell_when_answered(informer), "answer")
        return informer

    async def look_for(self, uid: str) -> tuple[Object, ...]:
        """Ask the cluster for an owner's children, rather than the copies."""
        selector = f"{labels.OWNER_UID}={uid}"
        # One after the other: one connection serves them all, and nobody waits for a deletion.
        answers = [await self._ours(resource, selector) for resource in _CHILD_KINDS + _RARER_CHILD_KINDS]
        return tuple(item for answer in answers for item in answer)

    async def apply(self, manifest: Mapping[str, Any], *, force: bool) -> Object:
        """Write an object, making its namespace where the cluster has none of that name."""
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        with traces.span("write", cluster=self.name, kind=manifest["kind"], namespace=namespace, name=name):
            try:
                written = await self.client.apply(manifest, force=force)
            except errors.NotFound as error:
                if not namespace or f'namespaces "{namespace}" not found' not in error.message:
                    raise
                await self._create_namespace(namespace)
                written = await self.client.apply(manifest, force=force)
        resource = resource_of(manifest)
        # The first child of a rarer kind: there was none before, so nobody need wait for the copy.
        if (resource, "") not in self._informers:
            self._watch_rarer(resource)
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
        self, on_change: Changed, on_problem: Callable[[str], None], fence: Fence | None = None
    ) -> None:
        self._on_change = on_change
        self._on_problem = on_problem
        self._fence = fence
        self._connections: dict[str, Connection] = {}
        self._kubeconfigs: dict[str, bytes] = {}
        self._problems: dict[str, str] = {}
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
            content = _kubeconfig(secret, key, where)
            if self._kubeconfigs.get(name) == content:
                self._problems.pop(name, None)
                return
            client = Client.from_kubeconfig(_mapping(content, key, where), fence=self._fence)
        except ValueError as error:
            # What worked so far goes on: a Secret half-written is no reason to cut a cluster off.
            self._refuse(name, str(error))
            return
        self.disconnect(name)
        self._kubeconfigs[name] = content
        self._connections[name] = Connection(name, client, self._on_change, self._on_problem)
        _log.info("connected to cluster %s", name, extra=fields(cluster=name))

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
            task = asyncio.create_task(connection.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def run(self) -> None:
        """Report clusters whose reachability changed, until cancelled."""
        known: dict[str, str] = {}
        while True:
            before, known = known, {connection.name: connection.problem for connection in self}
            for name, problem in known.items():
                if before.get(name, "") != problem:
                    self._on_problem(name)
            await asyncio.sleep(0.25 if any(known.values()) else 2.0)

    async def close(self) -> None:
        """Close every connection."""
        for name in tuple(self._connections):
            self.disconnect(name)
        await asyncio.gather(*self._closing, return_exceptions=True)


def _silent(informer: Informer, patience_s: float) -> str:
    """Return why a copy has not been brought up to date for so long; empty while it has."""
    now = asyncio.get_running_loop().time()
    return informer.problem if informer.problem and now - informer.problem_since > patience_s else ""


def _kubeconfig(secret: Mapping[str, Any] | None, key: str, where: str) -> bytes:
    if secret is None:
        raise ValueError(f"there is no {where}: create it with the cluster's kubeconfig")
    encoded = secret.get("data", {}).get(key)
    if not encoded:
        raise ValueError(f'{where} has no key "{key}"')
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError(f'key "{key}" of {where} is not base64') from None


def _mapping(content: bytes, key: str, where: str) -> dict[str, Any]:
    try:
        return dict(yaml.safe_load(content))
    except (yaml.YAMLError, TypeError, ValueError):
        # Not the parser's words: they quote the text, which holds credentials.
        raise ValueError(f'key "{key}" of {where} is not a kubeconfig') from None

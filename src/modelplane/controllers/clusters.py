"""Connections to the inference clusters.

Each cluster has its own client and its own watches, so that one that is slow or
away holds up nobody else. What is not known about a cluster is said with its
cause; it is never taken for "there is nothing".
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import yaml

from modelplane.api import labels
from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers.children import ChildIndex
from modelplane.controllers.interests import matches
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource, resource_for, resource_of

_log = logging.getLogger(__name__)

_PATIENCE_S = 15.0
"""How long a cluster may be silent before what is known of it counts as unknown."""

_LOADING = "its objects are still being read"

_CHILD_KINDS = (
    resources.DEPLOYMENTS,
    resources.HTTP_ROUTES,
    resources.RESOURCE_CLAIM_TEMPLATES,
    resources.SERVICES,
)

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
            informer = self._start(resource, labels=f"{labels.MANAGED_BY}=modelplane")
            self.children.follow(informer)
        self._start(resources.PODS, labels=labels.SERVING)
        self._start(resources.ENDPOINT_SLICES, labels=f"{labels.MANAGED_BY}=modelplane")
        self._start(resources.GATEWAYS)

    def _start(self, resource: Resource, *, labels: str = "", name: str = "") -> Informer:
        informer = Informer(
            self.client,
            resource,
            labels=labels,
            fields=f"metadata.name={name}" if name else "",
            metadata_only=resource == resources.CUSTOM_RESOURCE_DEFINITIONS,
            on_change=lambda item: self._on_change(self.name, item),
        )
        self._informers[resource, name] = informer
        self._tasks.append(asyncio.create_task(informer.run(), name=f"{self.name}: {resource.plural}"))
        self._tasks.append(asyncio.create_task(self._tell_when_synced(informer)))
        return informer

    async def _tell_when_synced(self, informer: Informer) -> None:
        await informer.wait_until_synced()
        if all(each.synced for each in self._informers.values()):
            self._on_problem(self.name)

    async def close(self) -> None:
        """Stop every watch and close the client."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    @property
    def problem(self) -> str:
        """Why what is known of the cluster cannot be relied on; empty while it can."""
        for informer in self._informers.values():
            if not informer.synced:
                return informer.problem or _LOADING
        return self.lost

    @property
    def lost(self) -> str:
        """Why the cluster has not answered for a while; empty while it has, or may yet."""
        now = asyncio.get_running_loop().time()
        for informer in self._informers.values():
            if informer.problem and now - informer.problem_since > _PATIENCE_S:
                return informer.problem
        return ""

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
        named = resource == resources.CUSTOM_RESOURCE_DEFINITIONS
        slot = (resource, requirement.name if named else "")
        informer = self._informers.get(slot)
        if informer is None:
            informer = self._start(resource, name=slot[1])
        if self.problem:
            return Unknown(self.problem, loading=self.loading)
        return tuple(item for item in informer if matches(requirement, item))

    async def look_for(self, uid: str) -> tuple[Object, ...]:
        """Ask the cluster for an owner's children, rather than the copies."""
        selector = f"{labels.OWNER_UID}={uid}"
        answers = [await self.client.list(resource, labels=selector) for resource in _CHILD_KINDS]
        return tuple(item for answer in answers for item in answer.items)

    async def apply(self, manifest: Mapping[str, Any], *, force: bool) -> Object:
        """Write an object, making its namespace where the cluster has none of that name."""
        try:
            written = await self.client.apply(manifest, force=force)
        except errors.NotFound as error:
            namespace = manifest["metadata"].get("namespace", "")
            if not namespace or f'namespaces "{namespace}" not found' not in error.message:
                raise
            await self._create_namespace(namespace)
            written = await self.client.apply(manifest, force=force)
        self.informer(resource_of(manifest)).remember(written)
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

    def __init__(self, on_change: Changed, on_problem: Callable[[str], None]) -> None:
        self._on_change = on_change
        self._on_problem = on_problem
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
        """Return why a cluster has not answered for a while, or why there is no connection to it."""
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
            client = Client.from_kubeconfig(_mapping(content, key, where), field_manager="modelplane")
        except ValueError as error:
            # What worked so far goes on: a Secret half-written is no reason to cut a cluster off.
            self._refuse(name, str(error))
            return
        self.disconnect(name)
        self._kubeconfigs[name] = content
        self._connections[name] = Connection(name, client, self._on_change, self._on_problem)
        _log.info("connected to cluster %s", name)

    def refuse(self, name: str, why: str) -> None:
        """Have no connection to a cluster, and say why."""
        if name in self._connections:
            self.disconnect(name)
        self._refuse(name, why)

    def _refuse(self, name: str, why: str) -> None:
        if self._problems.get(name) != why:
            _log.warning("cannot connect to cluster %s: %s", name, why)
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


def recorded(owner: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the clusters that an owner's status records as written to."""
    names = owner.get("status", {}).get("clusters", ())
    # A ModelCache lists its clusters with their phase, and has written to none.
    return tuple(name for name in names if isinstance(name, str))


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

"""Watches on one inference cluster.

A kind of children is watched only where children of it exist: each kind is looked for once, and the first
write of a kind begins its watch. A cluster without children costs three watches: its gateway and the
definitions of its capabilities.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose import workload_kinds
from modelplane.compose.composition import Requirement
from modelplane.compose.workload_kinds import Place, WorkloadKind
from modelplane.controllers.children import ChildIndex
from modelplane.controllers.fleet_resources import of_row
from modelplane.gateway.http_routes import GATEWAY_NAME
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource
from modelplane.telemetry.log_lines import fields

_log = logging.getLogger(__name__)

LOADING = "its objects are still being read"

_LOOK_AGAIN_S = 5.0
"""Delay before another look for the kinds of children on a cluster, after a failure."""

_REFUSED_AGAIN_S = 60.0
"""Delay before another attempt to read a forbidden kind: a new permission is no event."""

_OURS = f"{labels.MANAGED_BY}=modelplane"

_ROUTE_KINDS = (resources.GATEWAYS, resources.HTTP_ROUTES, resources.SERVICES, resources.ENDPOINT_SLICES)

Changed = Callable[[str, Object], None]
"""Called with a cluster's name and an object of it that changed."""


def child_kinds() -> tuple[Resource, ...]:
    """Return the kinds of children, first those that every cluster has."""
    rows = sorted(workload_kinds.rows(Place.CLUSTERS), key=lambda row: not row.vital)
    return tuple(map(of_row, rows))


def _row(resource: Resource) -> WorkloadKind | None:
    return workload_kinds.ROWS.get((resource.api_version, resource.kind))


class Watches:
    """Copies of Modelplane's objects on a cluster, kept up to date by watches."""

    def __init__(
        self,
        name: str,
        client: Client,
        *,
        on_change: Changed,
        on_answer: Callable[[Informer], None],
        on_looked: Callable[[], None],
        routes: bool,
    ) -> None:
        """``on_looked`` is called when the kinds of children on the cluster are known."""
        self._name = name
        self._client = client
        self._routes = routes
        self._on_change = on_change
        self._on_answer = on_answer
        self._on_looked = on_looked
        self.children = ChildIndex(lambda item: item["metadata"].get("labels", {}).get(labels.OWNER_UID, ""))
        self._tasks: list[asyncio.Task[None]] = []
        self._informers: dict[tuple[Resource, str], Informer] = {}
        self.refused: dict[Resource, str] = {}
        """The cause for each kind that may not be read."""
        self._latest = 0  # the newest version of the cluster that is known
        self._none_until: dict[Resource, int] = {}
        self.vital: list[Informer] = []
        """Copies that every replica depends on."""
        self.awaited: list[Informer] = []
        """Copies to wait for before the content of the cluster is known."""
        self.looking = LOADING
        """The cause while the kinds of children are unknown; empty once they are known."""

    def begin(self) -> None:
        """Begin to read the cluster."""
        gateway = f"metadata.name={GATEWAY_NAME},metadata.namespace={SYSTEM_NAMESPACE}"
        self.vital = [self._watch(resources.GATEWAYS, fields=gateway)]
        for crd in workload_kinds.capabilities().values():
            self._watch(resources.CUSTOM_RESOURCE_DEFINITIONS, crd, fields=f"metadata.name={crd}")
        self.awaited = list(self._informers.values())
        self._start(self._look(), "look")

    async def close(self) -> None:
        """Stop every watch."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def __contains__(self, resource: Resource) -> bool:
        return (resource, "") in self._informers

    def informer(self, resource: Resource) -> Informer:
        """Return the copy of one kind that is watched."""
        return self._informers[resource, ""]

    def objects(self, resource: Resource) -> tuple[Object, ...]:
        """Return the objects of one kind; none if the kind is not watched."""
        return tuple(self._informers.get((resource, ""), ()))

    def copy_for(self, resource: Resource, requirement: Requirement) -> Informer | None:
        """Return the copy that holds the required objects; None if the kind is not watched."""
        return self._informers.get((resource, _slot(resource, requirement)))

    @property
    def routable(self) -> bool:
        """True if every object that routes are derived from has been read."""
        copies = (self._informers.get((resource, "")) for resource in _ROUTE_KINDS)
        return not self.looking and all(copy is None or copy.synced for copy in copies)

    def expect(self, resource: Resource) -> None:
        """Record, before the first write of a kind, up to which version there was no object of it."""
        if resource not in self:
            # The kind was looked for, and later writes have newer versions than the latest known one.
            self._none_until.setdefault(resource, self._latest)

    def remember(self, resource: Resource, written: Object) -> None:
        """Put a written object into its copy, without waiting for the watch."""
        version = int(written["metadata"]["resourceVersion"])
        self._latest = max(self._latest, version)
        if resource not in self:
            # No list is needed, unless kinds are stored apart and their versions are not comparable.
            none_until = self._none_until[resource]
            self._watch_children(resource, none_until if none_until < version else None)
        self.refused.pop(resource, None)
        self.informer(resource).remember(written)

    def follow_namespace(self, name: str) -> None:
        """Watch a namespace by its name, unless it is watched."""
        if (resources.NAMESPACES, name) in self._informers:
            return
        absent = {"apiVersion": "v1", "kind": resources.NAMESPACES.kind, "metadata": {"name": name}}
        informer = Informer(
            self._client,
            resources.NAMESPACES,
            fields=f"metadata.name={name}",
            on_change=lambda item: self._on_change(self._name, item),
            on_answer=lambda _informer: self._on_change(self._name, absent),
        )
        self._informers[resources.NAMESPACES, name] = informer
        self._start(informer.run(), f"namespace {name}")

    def may_do_without(self, resource: Resource) -> bool:
        """Return True if a kind may stay unread: without the permission, no object of it was written."""
        row = _row(resource)
        return resource not in self and not (row is not None and row.vital)

    async def ours(
        self, resource: Resource, selector: str, *, metadata_only: bool = False
    ) -> tuple[Object, ...]:
        """Return the objects of a kind that may not be installed."""
        try:
            found = await self._client.list(resource, labels=selector, metadata_only=metadata_only)
        except errors.NotFound:
            if await self._client.serves(resource):
                raise
            return ()
        self._latest = max(self._latest, int(found.resource_version))
        return found.items

    def _start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"{self._name}: {what}"))

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
            self._client,
            resource,
            labels=selector,
            fields=fields,
            metadata_only=resource == resources.CUSTOM_RESOURCE_DEFINITIONS,
            on_change=lambda item: self._on_change(self._name, item),
            on_answer=self._on_answer,
        )
        if empty_until is not None:
            informer.begin_empty(empty_until)
        self._informers[resource, slot] = informer
        self._start(informer.run(), resource.plural)
        return informer

    def _watch_children(self, resource: Resource, empty_until: int | None = None) -> list[Informer]:
        """Watch a kind of children, and their pods; return the new copies."""
        begun = [self._watch(resource, selector=_OURS, empty_until=empty_until)]
        self.children.follow(begun[0])
        row = _row(resource)
        if row is not None and row.vital:
            self.vital.append(begun[0])
        # Pods are watched where the kind of their owner is.
        label = row.pods if row is not None else ""
        if label and (resources.PODS, label) not in self._informers:
            begun.append(self._watch(resources.PODS, label, selector=label, empty_until=empty_until))
        if self._routes and resource == resources.SERVICES:
            slices = resources.ENDPOINT_SLICES
            begun.append(self._watch(slices, selector=_OURS, empty_until=empty_until))
        return begun

    async def _look(self) -> None:
        """Watch every kind of which the cluster has children."""
        unknown = list(child_kinds())
        while unknown:
            resource = unknown[0]
            try:
                await self._look_for_kind(resource)
                del unknown[0]
            except errors.KubernetesError as error:
                self.looking = str(error)
                await asyncio.sleep(_LOOK_AGAIN_S)
        self.looking = ""
        self._on_looked()
        while self.refused:
            await asyncio.sleep(_REFUSED_AGAIN_S)
            before = tuple(self.refused)
            for resource in before:
                with suppress(errors.KubernetesError):
                    await self._look_for_kind(resource)
            if tuple(self.refused) != before:
                self._on_looked()

    async def _look_for_kind(self, resource: Resource) -> None:
        try:
            found = await self.ours(resource, _OURS, metadata_only=True)
        except errors.Forbidden as error:
            if not self.may_do_without(resource):
                raise
            if resource not in self.refused:
                _log.info("cluster %s: %s", self._name, error, extra=fields(cluster=self._name))
            self.refused[resource] = str(error)
            return
        self.refused.pop(resource, None)
        if found and resource not in self:
            self.awaited += self._watch_children(resource)


def _slot(resource: Resource, requirement: Requirement) -> str:
    """Return the slot of the copy that holds the required objects, if a kind has several copies."""
    if resource in (resources.CUSTOM_RESOURCE_DEFINITIONS, resources.NAMESPACES):
        return requirement.name
    if resource == resources.PODS:
        return next(iter(workload_kinds.pod_labels() & requirement.labels.keys()), labels.WORKLOAD)
    return ""

"""Watches on one inference cluster.

A kind of children is watched only where children of it exist: each kind is looked for once, and the first
write of a kind begins its watch. A cluster without children costs four watches: its gateway and the
definitions of its capabilities.

Copies of Secrets and ConfigMaps are watched in each namespace that has some, because the identity may read
them nowhere else (``copy_access``): one watch for each such namespace and kind.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE
from modelplane.compose import copy_access, workload_kinds
from modelplane.compose.composition import Requirement
from modelplane.compose.workload_kinds import Place, WorkloadKind
from modelplane.controllers.children.ownership import ChildIndex
from modelplane.controllers.clusters.copy_namespaces import CopyAccess
from modelplane.controllers.fleet_resources import of_row
from modelplane.controllers.runnable import cancel_all
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource
from modelplane.telemetry.traces import make_fields

_log = logging.getLogger(__name__)

LOADING = "its objects are still being read"

_LOOK_AGAIN_S = 5.0
"""Delay before another look for the kinds of children on a cluster, after a failure."""

_REFUSED_AGAIN_S = 60.0
"""Delay before another attempt to read a forbidden kind: a new permission is no event."""

_OURS = f"{labels.MANAGED_BY}=modelplane"

_SERVED = (resources.SERVICES, resources.ENDPOINT_SLICES, resources.INFERENCE_POOLS, resources.PODS)
_ROUTE_KINDS = frozenset((resources.GATEWAYS, resources.HTTP_ROUTES, *_SERVED))

Changed = Callable[[str, Object], None]
"""Called with a cluster's name and an object of it that changed."""


def child_kinds() -> tuple[Resource, ...]:
    """Return the kinds of children, first those that every cluster has."""
    return tuple(map(of_row, sorted(workload_kinds.rows(Place.CLUSTERS), key=lambda row: not row.vital)))


def is_scoped(resource: Resource) -> bool:
    """Return True if a kind is watched namespace by namespace."""
    row = _row(resource)
    return row is not None and row.scoped


def _scoped_kinds() -> tuple[Resource, ...]:
    return tuple(filter(is_scoped, child_kinds()))


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
        self._tasks: set[asyncio.Task[None]] = set()
        self._informers: dict[tuple[Resource, str], Informer] = {}
        self._of_copies: dict[tuple[Resource, str], asyncio.Task[None]] = {}
        self.access = CopyAccess(client)
        self._refused: dict[tuple[Resource, str], str] = {}
        """The cause for each kind, or its copies in a namespace, that may not be read."""
        self._used: set[str] = set()  # namespaces with children, as far as they were looked for
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
        self.children.follow(self.vital[0])  # a serving stack may have made it
        for crd in workload_kinds.capabilities().values():
            self._watch(resources.CUSTOM_RESOURCE_DEFINITIONS, crd, fields=f"metadata.name={crd}")
        self.awaited = list(self._informers.values())
        self._start(self._look(), "look")

    async def close(self) -> None:
        """Stop every watch."""
        await cancel_all(self._tasks)

    def watches(self, resource: Resource, namespace: str = "") -> bool:
        """Return True if a kind is watched: where it is scoped, in the namespace."""
        return (resource, _place(resource, namespace)) in self._informers

    def informer(self, resource: Resource, namespace: str = "") -> Informer:
        """Return the copy of one kind that is watched: where it is scoped, in the namespace."""
        return self._informers[resource, _place(resource, namespace)]

    def objects(self, resource: Resource) -> tuple[Object, ...]:
        """Return the objects of one kind, of all copies; none if the kind is not watched."""
        return tuple(item for (kind, _), copy in self._informers.items() if kind == resource for item in copy)

    def copies_for(self, resource: Resource, requirement: Requirement) -> tuple[Informer, ...]:
        """Return the copies that hold the required objects; none if the kind is not watched."""
        slot = _slot(resource, requirement)
        of_kind = ((place, copy) for (kind, place), copy in self._informers.items() if kind == resource)
        every = is_scoped(resource) and not requirement.namespace
        return tuple(copy for place, copy in of_kind if every or place == slot)

    def refusal(self, resource: Resource, namespace: str = "") -> str | None:
        """Return the cause if a kind, or one namespace's objects of it, may not be read; else None."""
        return next(
            (
                cause
                for (refused, place), cause in self._refused.items()
                if refused == resource and (not namespace or place in ("", namespace))
            ),
            None,
        )

    @property
    def routable(self) -> bool:
        """True if every object that routes are derived from has been read."""
        copies = self._informers.items()
        return not self.looking and all(copy.synced for (kind, _), copy in copies if kind in _ROUTE_KINDS)

    def expect(self, resource: Resource) -> None:
        """Record, before the first write of a kind, up to which version there was no object of it."""
        if not (is_scoped(resource) or self.watches(resource)):
            # The kind was looked for, and later writes have newer versions than the latest known one.
            self._none_until.setdefault(resource, self._latest)

    def remember(self, resource: Resource, written: Object) -> None:
        """Put a written object into its copy, without waiting for the watch."""
        version = int(written["metadata"]["resourceVersion"])
        namespace = written["metadata"].get("namespace", "")
        self._latest = max(self._latest, version)
        if is_scoped(resource):
            if not self.watches(resource, namespace):
                self._watch_copies(resource, namespace)
        elif not self.watches(resource):
            # No list is needed, unless kinds are stored apart and their versions are not comparable.
            none_until = self._none_until[resource]
            self._watch_children(resource, none_until if none_until < version else None)
        self._refused.pop((resource, _place(resource, namespace)), None)
        self.informer(resource, namespace).remember(written)

    def follow_namespace(self, name: str) -> None:
        """Watch a namespace by its name, unless it is watched."""
        if (resources.NAMESPACES, name) in self._informers:
            return
        absent = {"apiVersion": "v1", "kind": resources.NAMESPACES.kind, "metadata": {"name": name}}
        informer = self._copy(
            resources.NAMESPACES,
            name,
            fields=f"metadata.name={name}",
            on_answer=lambda _informer: self._on_change(self._name, absent),
        )
        self._start(informer.run(), f"namespace {name}")

    def may_do_without(self, resource: Resource) -> bool:
        """Return True if a kind may stay unread: without the permission, no object of it was written."""
        row = _row(resource)
        return not self.watches(resource) and not (row is not None and row.vital)

    async def copies_of(self, resource: Resource, selector: str, namespace: str) -> tuple[Object, ...]:
        """Return the objects of a scoped kind in a namespace, as the cluster has them."""
        doubtful = self.watches(resource, namespace) or self.refusal(resource, namespace)
        # Without doubt, the kind was looked for, and without access nothing has been written since.
        may_list = self.access.before_list if doubtful else self.access.has
        if not await may_list(resource, namespace):
            return ()
        return await self.ours(resource, selector, namespace)

    async def ours(
        self,
        resource: Resource,
        selector: str,
        namespace: str | None = None,
        *,
        metadata_only: bool = False,
    ) -> tuple[Object, ...]:
        """Return the objects of a kind that may not be installed."""
        try:
            found = await self._client.list(resource, namespace, labels=selector, metadata_only=metadata_only)
        except errors.NotFound:
            if await self._client.is_served(resource):
                raise
            return ()
        self._latest = max(self._latest, int(found.resource_version))
        return found.items

    def _start(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{self._name}: {what}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _watch(
        self,
        resource: Resource,
        slot: str = "",
        *,
        selector: str = "",
        fields: str = "",
        empty_until: int | None = None,
    ) -> Informer:
        informer = self._copy(
            resource,
            slot,
            labels=selector,
            fields=fields,
            metadata_only=resource == resources.CUSTOM_RESOURCE_DEFINITIONS,
        )
        if empty_until is not None:
            informer.begin_empty(empty_until)
        self._start(informer.run(), resource.plural)
        return informer

    def _copy(
        self,
        resource: Resource,
        slot: str,
        *,
        on_answer: Callable[[Informer], None] | None = None,
        **scope: Any,
    ) -> Informer:
        """Return a new copy of a kind, of an ``Informer``'s scope; it is not kept up to date yet."""
        told = partial(self._on_change, self._name)
        informer = Informer(
            self._client, resource, on_change=told, on_answer=on_answer or self._on_answer, **scope
        )
        self._informers[resource, slot] = informer
        return informer

    def _watch_children(self, resource: Resource, empty_until: int | None = None) -> list[Informer]:
        """Watch a kind of children, and their pods; return the new copies."""
        begun = [self._watch(resource, selector=_OURS, empty_until=empty_until)]
        self.children.follow(begun[0])
        if (row := _row(resource)) is not None and row.vital:
            self.vital.append(begun[0])
        begun += [  # pods are watched where the kind of their owner is
            self._watch(resources.PODS, label, selector=label, empty_until=empty_until)
            for label in (row.pods if row is not None else ())
            if (resources.PODS, label) not in self._informers
        ]
        if self._routes and resource == resources.SERVICES:
            begun.append(self._watch(resources.ENDPOINT_SLICES, selector=_OURS, empty_until=empty_until))
        return begun

    def _watch_copies(self, resource: Resource, namespace: str) -> Informer:
        """Watch the copies in a namespace, until it is gone; before each list, take the access to them."""
        informer = self._copy(resource, namespace, namespace=namespace, labels=_OURS)
        self.children.follow(informer)

        async def run() -> None:
            await informer.run(lambda: self.access.before_list(resource, namespace))
            del self._informers[resource, namespace], self._of_copies[resource, namespace]

        self._of_copies[resource, namespace] = self._start(run(), f"{resource.plural} of {namespace}")
        return informer

    async def give_back(self, namespace: str) -> None:
        """End the watches of a namespace without copies, and give the access to them back."""
        keys = [(kind, namespace) for kind in _scoped_kinds()]
        informers = [self._informers[key] for key in keys if key in self._informers]
        if any(informer.problem or not informer.synced or len(informer) for informer in informers):
            return
        if any(self.refusal(*key) for key in keys):
            return
        for key in keys:
            if self._informers.pop(key, None) is not None:
                self._of_copies.pop(key).cancel()
        await self.access.give_back(namespace)

    async def _look(self) -> None:
        """Watch every kind of which the cluster has children."""
        kinds = [kind for kind in child_kinds() if not is_scoped(kind)]
        unknown: list[Callable[[], Awaitable[None]]] = [partial(self._look_for_kind, kind) for kind in kinds]
        unknown.append(self._look_for_copies)
        while unknown:
            try:
                await unknown[0]()
                del unknown[0]
            except errors.KubernetesError as error:
                self.looking = str(error)
                await asyncio.sleep(_LOOK_AGAIN_S)
        self.looking = ""
        self._on_looked()
        while self._refused:
            await asyncio.sleep(_REFUSED_AGAIN_S)
            before = tuple(self._refused)
            for resource, namespace in before:
                with suppress(errors.KubernetesError):
                    await (self._look_in(namespace) if namespace else self._look_for_kind(resource))
            if tuple(self._refused) != before:
                self._on_looked()

    async def _look_for_kind(self, resource: Resource) -> None:
        try:
            found = await self.ours(resource, _OURS, metadata_only=True)
        except errors.Forbidden as error:
            if not self.may_do_without(resource):
                raise
            self._refuse(resource, "", error)
            return
        self._refused.pop((resource, ""), None)
        children = [entry for entry in found if not copy_access.is_binding(entry)]
        self.access.bound |= {_namespace(entry) for entry in found if entry not in children}
        self._used |= {_namespace(child) for child in children}
        if children and not self.watches(resource):
            self.awaited += self._watch_children(resource)

    def _refuse(self, resource: Resource, namespace: str, error: errors.Forbidden) -> None:
        if (resource, namespace) not in self._refused:
            _log.info("cluster %s: %s", self._name, error, extra=make_fields(cluster=self._name))
        self._refused[resource, namespace] = str(error)

    async def _look_for_copies(self) -> None:
        """Look for copies where other children are, and in the other namespaces that are Modelplane's."""
        labeled: tuple[Object, ...] = ()
        with suppress(errors.Forbidden):  # the identity of 0.2.0 may not read namespaces
            labeled = await self.ours(resources.NAMESPACES, _OURS, metadata_only=True)
        places = self._used | self.access.bound | {entry["metadata"]["name"] for entry in labeled}
        outcomes = await asyncio.gather(*map(self._look_in, sorted(places)), return_exceptions=True)
        for failure in filter(None, outcomes):
            raise failure

    async def _look_in(self, namespace: str) -> None:
        """Watch the copies in a namespace; without copies, give the access to them back."""
        for resource in _scoped_kinds():
            if self.watches(resource, namespace):
                continue
            try:
                found: tuple[Object, ...] = ()
                if await self.access.before_list(resource, namespace):
                    found = await self.ours(resource, _OURS, namespace, metadata_only=True)
            except errors.Forbidden as error:
                self._refuse(resource, namespace, error)
                continue
            self._refused.pop((resource, namespace), None)
            if found and not self.watches(resource, namespace):
                self.awaited.append(self._watch_copies(resource, namespace))
        if not any(self.watches(kind, namespace) for kind in _scoped_kinds()):
            await self.give_back(namespace)


def _slot(resource: Resource, requirement: Requirement) -> str:
    """Return the slot of the copy that holds the required objects, if a kind has several copies."""
    if resource in (resources.CUSTOM_RESOURCE_DEFINITIONS, resources.NAMESPACES):
        return requirement.name
    if resource == resources.PODS:
        return next(iter(workload_kinds.pod_labels() & requirement.labels.keys()), labels.WORKLOAD)
    return _place(resource, requirement.namespace)


def _place(resource: Resource, namespace: str) -> str:
    """Return the slot of the copy of a kind of children."""
    return namespace if is_scoped(resource) else ""


def _namespace(item: Object) -> str:
    return str(item["metadata"].get("namespace", ""))

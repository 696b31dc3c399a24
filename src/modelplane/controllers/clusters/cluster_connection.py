"""Connection to one inference cluster.

Each cluster has its own client and its own watches, so a slow or unreachable cluster delays no other. If
something about a cluster is unknown, the answer is its cause, never an empty result.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from modelplane.api import labels
from modelplane.compose.cluster import cluster_namespace
from modelplane.compose.cluster.cluster_kubeconfig import replacement
from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers.children.ownership import ChildIndex
from modelplane.controllers.clusters.capacity_watches import KINDS, CapacityWatches
from modelplane.controllers.clusters.watch_health import WatchHealth, silence_of
from modelplane.controllers.clusters.watches import LOADING, Changed, Watches, child_kinds, is_scoped
from modelplane.controllers.fleet_resources import resource_for
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import NAMESPACES, Object, Resource
from modelplane.telemetry import traces


class Connection:
    """One inference cluster: a client, and copies of Modelplane's objects there."""

    def __init__(
        self,
        name: str,
        client: Client,
        on_change: Changed,
        on_problem: Callable[[str], None],
        *,
        routes: bool = False,
        credential: str = "",
    ) -> None:
        """``credential`` names the Secret of the kubeconfig, for messages.

        ``routes``: this machine's Envoy sends requests to pods, whose addresses are watched.
        """
        self.name = name
        self._credential = credential
        self.client = client
        self._on_problem = on_problem
        self._answers = asyncio.Event()
        self.watches = Watches(
            name,
            client,
            on_change=on_change,
            on_answer=self._answered,
            on_looked=self._tell,
            routes=routes,
        )
        self._health = WatchHealth(self.watches, self._tell)
        self._capacity = CapacityWatches(client, partial(on_change, name))

    async def open(self) -> None:
        """Begin to read the cluster; return once it has been read or has failed."""
        self.watches.begin()
        await self._answers.wait()

    def _answered(self, informer: Informer) -> None:
        """Report that a copy was read or cannot be read, and again after a time without an answer."""
        self._health.review(informer)
        self._tell()

    def _tell(self) -> None:
        if not self.loading:
            self._answers.set()
            self._on_problem(self.name)

    async def close(self) -> None:
        """Stop every watch and close the client."""
        self._health.close()
        await self._capacity.close()
        await self.watches.close()
        await self.client.close()

    @property
    def problem(self) -> str | None:
        """The cause if the copies of the cluster are unreliable; None if they are reliable."""
        problem = self._health.problem
        if problem != errors.UNAUTHORIZED:
            return problem
        return f"{problem}: {replacement(self._credential)}"

    @property
    def loss(self) -> str | None:
        """The cause if the cluster has not answered for minutes; None if it has."""
        return self._health.loss

    @property
    def loading(self) -> bool:
        """True if the cluster answers and its objects are still being read."""
        return self.problem == LOADING

    @property
    def children(self) -> ChildIndex:
        """Index of the children in the copies, by their owner's uid."""
        return self.watches.children

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the objects that a requirement names, or the cause if they are unknown."""
        if problem := self.problem:
            return Unknown(problem, loading=problem == LOADING, since=self._health.unreachable_since or "")
        resource = resource_for(requirement.api_version, requirement.kind)
        if resource in KINDS:
            return self._capacity.find(resource)
        if refusal := self.watches.refusal(resource, requirement.namespace):
            return Unknown(refusal)
        if resource == NAMESPACES:
            self.watches.follow_namespace(requirement.name)
        # Without a copy, the kind was looked for, and nothing has been written since.
        copies = self.watches.copies_for(resource, requirement)
        for informer in copies:
            if not informer.synced:
                return Unknown(informer.problem or LOADING, loading=not informer.problem)
            if problem := silence_of(informer):
                return Unknown(problem)
        return tuple(item for informer in copies for item in informer if requirement.matches(item))

    async def look_for(self, uid: str, namespace: str) -> tuple[Object, ...]:
        """List an owner's children on the cluster itself, not in the copies.

        They are in the namespace of the owner's name. If it has no copies of any owner, the access is given
        back.
        """
        selector = f"{labels.OWNER_UID}={uid}"
        found: list[Object] = []
        # One after the other: a deletion is not urgent.
        for resource in child_kinds():
            if is_scoped(resource):
                found += await self.watches.copies_of(resource, selector, namespace)
                continue
            try:
                found += await self.watches.ours(resource, selector)
            except errors.Forbidden:
                if not self.watches.may_do_without(resource):
                    raise
        if not found:
            await self.watches.give_back(namespace)
        return tuple(found)

    async def apply(self, manifest: Mapping[str, Any], *, force: bool) -> Object:
        """Apply an object, and create its namespace if it is missing."""
        resource = await self.client.find_resource(manifest)
        self.watches.expect(resource)
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        with traces.open_span(
            "write", cluster=self.name, kind=manifest["kind"], namespace=namespace, name=name
        ):
            try:
                written = await self._write(resource, manifest, force=force)
            except errors.NotFound as error:
                if not error.is_of_namespace(namespace):
                    raise
                await self._create_namespace(namespace)
                written = await self._write(resource, manifest, force=force)
        self.watches.remember(resource, written)
        return written

    async def _write(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool) -> Object:
        """Apply an object; of a scoped kind, once the access to its namespace is there."""
        if not is_scoped(resource):
            return await self.client.apply(manifest, force=force)
        access, namespace = self.watches.access, manifest["metadata"]["namespace"]
        await access.before_write(resource, namespace)
        try:
            return await self.client.apply(manifest, force=force)
        except errors.Forbidden:
            # The access may have been taken away since; if not, the object itself is refused.
            if not await access.take(resource, namespace):
                raise
        return await self.client.apply(manifest, force=force)

    async def _create_namespace(self, name: str) -> None:
        with suppress(errors.Conflict):
            await self.client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": name, "labels": dict(cluster_namespace.MADE)},
                }
            )

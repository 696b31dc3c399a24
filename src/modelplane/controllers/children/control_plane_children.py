"""Children on the control plane: their index by owner, and their informers.

Children of our own kinds are in the informers that every reconcile reads. A third-party kind that has a row
for the control plane gets an informer as soon as its CustomResourceDefinition is installed. A kind that every
API server serves gets one at the start.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from modelplane.api import labels
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.workload_kinds import ROWS, Place, on_control_plane, row_of
from modelplane.controllers.children import ownership
from modelplane.controllers.children.ownership import ChildIndex, Identity, identity
from modelplane.controllers.fleet_resources import of_row
from modelplane.controllers.runnable import Runnable, cancel_all
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Handler, Informer
from modelplane.kube.resources import Object, Resource

_POLL_S = 0.1

_Kind = tuple[str, str]
"""``apiVersion`` and kind."""


class ControlPlaneChildren(Runnable):
    """Watches children on the control plane; ``index`` has them by their owner's uid."""

    name = "children"

    def __init__(
        self, client: Client, ours: Mapping[str, Informer], definitions: Informer, on_change: Handler
    ) -> None:
        """``on_change`` is called with changed children of third-party kinds, and once a kind can be written.

        ``definitions`` is the copy of the CustomResourceDefinitions.
        """
        self.index = ChildIndex(ownership.controller_uid)
        self._client = client
        self._on_change = on_change
        self._informers: dict[_Kind, Informer] = {}
        self._unwritten: dict[_Kind, dict[Identity, Object]] = defaultdict(dict)
        self._tasks: list[asyncio.Task[None]] = []
        for informer in ours.values():
            self._follow(informer)
        definitions.add_handler(self._definition_changed)

    def _follow(self, informer: Informer) -> None:
        self._informers[informer.resource.api_version, informer.resource.kind] = informer
        self.index.follow(informer)

    def _definition_changed(self, definition: Object) -> None:
        for row in ROWS.values():
            if row.definition == definition["metadata"]["name"] and (
                row.place is Place.CONTROL_PLANE or row.of_front
            ):
                self._watch(of_row(row), SYSTEM_NAMESPACE if row.of_front and row.namespaced else None)

    def _watch(self, resource: Resource, namespace: str | None) -> None:
        if (resource.api_version, resource.kind) in self._informers:
            return  # an informer outlives its definition: what is not served is not there
        ours = f"{labels.MANAGED_BY}=modelplane"
        informer = Informer(
            self._client, resource, namespace=namespace, labels=ours, on_change=self._on_change
        )
        self._follow(informer)
        self._tasks.append(asyncio.create_task(self._run(informer), name=f"informer {resource.plural}"))

    async def _run(self, informer: Informer) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            await informer.wait_until_synced()
            waiting = self._unwritten.pop((informer.resource.api_version, informer.resource.kind), {})
            for manifest in waiting.values():
                self._on_change(manifest)

    async def start(self) -> None:
        """Wait for the children of every installed kind, so that none counts as missing."""
        for row in ROWS.values():
            if row.built_in:
                self._watch(of_row(row), None)
        for informer in tuple(self._informers.values()):
            while not (informer.synced or informer.problem):
                await asyncio.sleep(_POLL_S)

    async def close(self) -> None:
        """Stop every watch of third-party kinds."""
        await cancel_all(self._tasks)

    def informer(self, manifest: Object) -> Informer:
        """Return the informer that observes a child once it is written.

        Raises ``NotInstalled`` if there is no CustomResourceDefinition of the kind, and ``ApiError`` if the
        kind has no row for the control plane or cannot be read: nothing would correct such a child or
        delete it.
        """
        api_version, kind = manifest["apiVersion"], manifest["kind"]
        informer = self._informers.get((api_version, kind))
        if on_control_plane(manifest) is None and (informer is None or row_of(manifest) is not None):
            message = f'kind "{kind}" of "{api_version}" has no row for the control plane'
            raise errors.Invalid(400, "BadRequest", f"{message} in compose/workload_kinds.py")
        if informer is None:
            self._unwritten[api_version, kind][identity(manifest)] = manifest
            raise errors.NotInstalled(kind, api_version)
        if informer.problem and not informer.synced:
            self._unwritten[api_version, kind][identity(manifest)] = manifest
            message = f"cannot read {informer.resource.plural}: {informer.problem}"
            raise errors.ApiError(503, "ServiceUnavailable", message)
        return informer

"""Finalization: delete an owner's children, then release the owner once nothing needs it.

Children on the control plane are deleted first, so that an endpoint is gone before its engines stop.

A cluster that cannot be reached holds its owners, because their workloads may still run there. Deleting the
InferenceCluster abandons them: at once if nothing needs the cluster, otherwise after it has been unreachable
for minutes.
"""

import logging
from collections.abc import Iterable, Mapping

from modelplane.api import labels
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import listing
from modelplane.api.meta import kind_name
from modelplane.compose import guards
from modelplane.compose.composition import Guard, Requirement
from modelplane.compose.conditions import SYNCED
from modelplane.compose.guards import recorded
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.readiness import condition_of
from modelplane.controllers import adoption, ownership
from modelplane.controllers.children import ChildIndex, identity
from modelplane.controllers.clusters.connection import Connection
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.health import LOST_S
from modelplane.controllers.fleet_resources import resource_of
from modelplane.controllers.helm.releases import Releases
from modelplane.controllers.reporter import Reporter
from modelplane.controllers.writer import delete
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer, key_of
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 5.0

_OURS = frozenset({ownership.FINALIZER, ownership.IN_USE})


class Finalizer:
    """Cleans up for owners that are being deleted."""

    def __init__(
        self,
        client: Client,
        informers: Mapping[str, Informer],
        clusters: Clusters,
        children: ChildIndex,
        releases: Releases,
        reporter: Reporter,
    ) -> None:
        self._client = client
        self._informers = informers
        self._clusters = clusters
        self._children = children
        self._releases = releases
        self._reporter = reporter

    @staticmethod
    def requirements(owner: Object) -> tuple[Requirement, ...]:
        """Return the requirements of an owner that is being deleted."""
        workload = resources.DEPLOYMENTS
        own = {labels.OWNER_UID: owner["metadata"]["uid"]}
        remote = tuple(
            Requirement(name, workload.api_version, workload.kind, labels=own, cluster=name)
            for name in recorded(owner)
        )
        return (*guards.on_deletion(owner), *remote)

    async def finalize(self, owner: Object) -> float | None:
        """Clean up, then release the owner; return the seconds until the next attempt, if there is one."""
        if not _OURS.intersection(owner["metadata"].get("finalizers", ())):
            return None
        # A child that needs its owner is deleted once nothing else does, and holds it until then.
        users = [str(guard) for guard in self._guards(owner) if not self._is_child(owner, guard)]
        waiting = users or await self._left(owner)
        if waiting:
            message = f"waiting for {listing(waiting)} to go{self._patience(owner)}"
            await self._reporter.deleting(owner, message)
            return _LOOK_AGAIN_S
        await self._release(owner)
        return None

    def _guards(self, owner: Object) -> tuple[Guard, ...]:
        """Return the objects that need an owner; none if its cluster is lost."""
        target = guards.Dependency(owner["kind"], *key_of(owner))
        users = guards.users_of(
            target,
            (
                item
                for requirement in guards.on_deletion(owner)
                for item in self._informers[requirement.kind]
                if requirement.matches(item)
            ),
        )
        problem = self._clusters.lost(target.name) if COMPOSERS[target.kind].connects else ""
        if problem and users:
            _log.warning(
                "cluster %s is deleted with %s on it: %s", target.name, listing(map(str, users)), problem
            )
            return ()
        return users

    def _is_child(self, owner: Object, guard: Guard) -> bool:
        named = (guard.kind, guard.namespace, guard.name)
        return any(identity(child)[1:] == named for child in self._children.of(owner["metadata"]["uid"]))

    def _patience(self, owner: Object) -> str:
        """Return when the deletion of an unreachable cluster stops waiting."""
        connection = self._clusters.get(owner["metadata"]["name"])
        if not COMPOSERS[owner["kind"]].connects or connection is None or connection.loading:
            return ""
        if not connection.problem:
            return ""
        minutes = f"{LOST_S / 60:.0f} minutes"
        return f"; it cannot be reached ({connection.problem}), and after {minutes} they are given up"

    async def _left(self, owner: Object) -> list[str]:
        """Delete the remaining children, here and on the recorded clusters, and return them."""
        children = self._children.of(owner["metadata"]["uid"])
        for child in children:
            await delete(self._client, child)
        left = [_with_problem(child) for child in children if COMPOSERS[owner["kind"]].waits_for_children]
        reached: list[Connection] = []
        for name in recorded(owner):
            connection = self._clusters.get(name)
            if connection is not None and not connection.problem:
                reached.append(connection)
            elif self._informers[kind_name(InferenceCluster)].get(name) is not None:
                problem = self._clusters.problem(name)
                left.append(f'what is on "{name}", which cannot be reached ({problem}),')
            else:
                _log.warning(
                    "%s is released, and its objects on cluster %s are abandoned", key_of(owner), name
                )
        for connection in reached:
            left += await self._delete(connection, adoption.children_of(owner, connection.children))
        if left:
            return left
        # The clusters themselves decide: a copy may be stale, and there is no later check.
        for connection in reached:
            try:
                left += await self._delete(connection, await adoption.look_for(owner, connection))
            except errors.KubernetesError as error:
                left.append(f'what is on "{connection.name}" ({error})')
        # Last: the charts' controllers finish the deletion of the objects above.
        return left or self._left_releases(owner)

    def _left_releases(self, owner: Object) -> list[str]:
        """Uninstall the remaining Helm releases, and return them."""
        left: list[str] = []
        for name in ownership.helm_releases(owner):
            if not name or self._informers[kind_name(InferenceCluster)].get(name) is not None:
                left += self._releases.left(owner, name)
            else:
                _log.warning("%s: its Helm releases on cluster %s are abandoned", key_of(owner), name)
        return left

    @staticmethod
    async def _delete(connection: Connection, children: Iterable[Object]) -> list[str]:
        """Request the deletion of children, and return them as messages name them."""
        left = []
        for child in children:
            named = f'{child["kind"]} "{child["metadata"]["name"]}" on "{connection.name}"'
            try:
                await delete(connection.client, child)
            except errors.KubernetesError as error:
                named += f" ({error})"
            left.append(named)
        return left

    async def _release(self, owner: Object) -> None:
        metadata = owner["metadata"]
        finalizers = [name for name in metadata["finalizers"] if name not in _OURS]
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}
        try:
            await self._client.patch(resource_of(owner), metadata["name"], patch, metadata.get("namespace"))
        except errors.NotFound:
            return


def _with_problem(child: Object) -> str:
    """Return a child as messages name it, with the error that its provider reports."""
    named = f'{child["kind"]} "{child["metadata"]["name"]}"'
    synced = condition_of(child, SYNCED)
    return f"{named} ({synced['message']})" if synced.get("status") == "False" else named

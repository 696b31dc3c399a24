"""Finalization: delete an owner's children, then release the owner once nothing needs it.

Children on the control plane are deleted first, so that an endpoint is gone before its engines stop.

A cluster that cannot be reached holds its owners, because their workloads may still run there. It makes no
difference whether it does not answer or whether there is no credential for it. Only a person gives it up, by
deleting the InferenceCluster: at once if nothing needs the cluster, otherwise minutes after the deletion and
after the last answer. Events of the InferenceCluster and of its owners tell what may still run there.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from modelplane.api import labels
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import listing
from modelplane.api.meta import kind_name
from modelplane.compose import guards
from modelplane.compose.composition import Requirement
from modelplane.compose.conditions import SYNCED
from modelplane.compose.guards import recorded
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.readiness import condition_of
from modelplane.controllers.child_writer import delete
from modelplane.controllers.children import adoption, ownership
from modelplane.controllers.children.ownership import ChildIndex, identity
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.watch_health import LOST_S
from modelplane.controllers.condition_events import Decision, Recorder
from modelplane.controllers.fleet_resources import resource_of
from modelplane.controllers.helm.release_control import Releases
from modelplane.controllers.status_writer import StatusWriter
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer, build_key
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 5.0

_MINUTES = f"{LOST_S / 60:.0f} minutes"

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
        status_writer: StatusWriter,
    ) -> None:
        self._client = client
        self._informers = informers
        self._clusters = clusters
        self._children = children
        self._releases = releases
        self._status_writer = status_writer
        self._recorder = Recorder(client)

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
        needing = guards.users_of(
            guards.Dependency(owner["kind"], *build_key(owner)),
            (
                item
                for requirement in guards.on_deletion(owner)
                for item in self._informers[requirement.kind]
                if requirement.matches(item)
            ),
        )
        # A child that needs its owner is deleted once nothing else does, and holds it until then.
        children = {identity(child)[1:] for child in self._children.of(owner["metadata"]["uid"])}
        users = [str(guard) for guard in needing if (guard.kind, guard.namespace, guard.name) not in children]
        given_up, abandoned = self._start_clock_or_give_up(owner), self._abandoned(owner)
        if users and not given_up:
            await self._status_writer.deleting(
                owner, f"waiting for {listing(users)} to go{self._patience(owner)}"
            )
            return _LOOK_AGAIN_S
        if left := await self._delete_remaining(owner, abandoned):
            await self._status_writer.deleting(owner, f"waiting for {listing(left)} to go")
            return _LOOK_AGAIN_S
        # Events first: a process that ends here repeats them, and releases nothing in silence.
        if users:
            on_it = f"{listing(users)} on the cluster, whose objects can still be running"
            await self._warn(owner, f"abandoned with {on_it} ({given_up})")
        for cluster, cause in abandoned.items():
            await self._warn_of(owner, cluster, cause)
        metadata = owner["metadata"]
        finalizers = [name for name in metadata["finalizers"] if name not in _OURS]
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}
        with suppress(errors.NotFound):
            await self._client.patch(resource_of(owner), metadata["name"], patch, metadata.get("namespace"))
        return None

    def _patience(self, owner: Object) -> str:
        """Return when the deletion of an unreachable cluster stops waiting."""
        name = owner["metadata"]["name"]
        connection, problem = self._clusters.get(name), self._clusters.problem(name)
        is_loading = connection is not None and connection.loading
        if not COMPOSERS[owner["kind"]].connects or not problem or is_loading:
            return ""
        return (
            f"; the cluster cannot be reached ({problem}), and after {_MINUTES} these objects are abandoned"
        )

    def _start_clock_or_give_up(self, cluster: Object) -> str | None:
        """Return why a cluster is given up: no answer for minutes, also after its deletion; else None.

        For a cluster without a connection the minutes begin with the first call.
        """
        if not COMPOSERS[cluster["kind"]].connects:
            return None
        # Also before its deletion.
        self._clusters.start_waiting(cluster["metadata"]["name"])
        deleted = cluster["metadata"].get("deletionTimestamp")
        if not deleted or timestamps.measure_age_s(deleted) <= LOST_S:
            return None
        return self._clusters.find_loss(cluster["metadata"]["name"])

    def _abandoned(self, owner: Object) -> dict[str, str]:
        """Return the clusters with an owner's objects that hold it no more, and the cause for each."""
        found: dict[str, str] = {}
        for name in dict.fromkeys((*recorded(owner), *filter(None, ownership.helm_releases(owner)))):
            connection = self._clusters.get(name)
            if connection is not None and not connection.problem:
                continue
            cluster = self._informers[kind_name(InferenceCluster)].get(name)
            cause = (
                "the InferenceCluster is deleted"
                if cluster is None
                else self._start_clock_or_give_up(cluster)
            )
            if cause:
                found[name] = cause
        return found

    async def _warn_of(self, owner: Object, name: str, cause: str) -> None:
        """Record that an owner is released while its objects on a cluster may still run."""
        label = f"{labels.OWNER_UID}={owner['metadata']['uid']}"
        left = f'its objects on InferenceCluster "{name}", with label {label}, can still be running'
        await self._warn(owner, f"released, but {left} ({cause})")
        if (cluster := self._informers[kind_name(InferenceCluster)].get(name)) is not None:
            await self._warn(
                cluster, f'{owner["kind"]} "{build_key(owner)}" is released, but {left} ({cause})'
            )

    async def _warn(self, about: Object, note: str) -> None:
        _log.warning('%s "%s": %s', about["kind"], build_key(about), note)
        await self._recorder.tell(about, Decision("Abandoned", "Deleting", note), warning=True)

    async def _delete_remaining(self, owner: Object, abandoned: Collection[str]) -> list[str]:
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
            elif name not in abandoned:
                problem = self._clusters.problem(name)
                left.append(f'what is on "{name}", which cannot be reached ({problem}),')
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
        installed = (name for name in ownership.helm_releases(owner) if name not in abandoned)
        return left or [text for name in installed for text in self._releases.uninstall_all(owner, name)]

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


def _with_problem(child: Object) -> str:
    """Return a child as messages name it, with the error that its provider reports."""
    named = f'{child["kind"]} "{child["metadata"]["name"]}"'
    synced = condition_of(child, SYNCED)
    return f"{named} ({synced['message']})" if synced.get("status") == "False" else named

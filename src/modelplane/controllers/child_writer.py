"""ChildWriter: apply the children that differ, and prune children that are no longer desired (``_Pruning``).

Pruning comes last, and only after every write succeeded: the replacement of a child exists before the child
is deleted.

A server may normalize a value (the quantity ``0.5`` to ``500m``), and admission may change one. Compared with
its manifest, such an object would differ for ever and be applied in every reconcile. The server's spelling is
therefore remembered, and the object is compared with it.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any

from modelplane.api import labels
from modelplane.api.listing import in_order
from modelplane.api.rejected import Rejected
from modelplane.compose import guards
from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.guards import recorded
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.workload_kinds import has_pods, is_release
from modelplane.controllers.children import adoption, ownership
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.children.ownership import ChildIndex, Identity, identity
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.fleet_resources import resource_of
from modelplane.controllers.helm.release_control import Releases, place_of
from modelplane.controllers.status_writer import StatusWriter
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer, Key, build_key, name_object
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

_AT_ONCE = 8
"""Children of one kind that are written to the control plane at the same time."""


class Settled:
    """The server's spelling of manifests that it stored otherwise, by the object's uid."""

    def __init__(self) -> None:
        self._spellings: dict[str, Object] = {}

    def remember(self, manifest: Mapping[str, Any], written: Mapping[str, Any]) -> None:
        """Record the object with which the server answered an applied manifest."""
        uid = written["metadata"]["uid"]
        if ownership.is_current(manifest, written):
            self._spellings.pop(uid, None)
        else:
            self._spellings[uid] = _spelling(manifest, written)

    def forget(self, item: Mapping[str, Any]) -> None:
        """Forget an object that is being deleted."""
        self._spellings.pop(item["metadata"]["uid"], None)

    def is_current(self, manifest: Mapping[str, Any], observed: Mapping[str, Any]) -> bool:
        """Return True if applying the manifest would not change the object."""
        if ownership.is_current(manifest, observed):
            return True
        spelling = self._spellings.get(observed["metadata"]["uid"])
        return (
            spelling is not None
            and ownership.applied(spelling) == ownership.applied(manifest)
            and ownership.is_current(spelling, observed)
        )


def _spelling(part: Any, whole: Any) -> Any:
    """Return what ``whole`` has in the places of ``part``."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return {key: _spelling(value, whole[key]) for key, value in part.items() if key in whole}
    if isinstance(part, list | tuple) and isinstance(whole, list | tuple) and len(part) == len(whole):
        return [_spelling(p, w) for p, w in zip(part, whole, strict=True)]
    return whole


class ChildWriter:
    """Applies and prunes children, on the control plane and on the clusters."""

    def __init__(
        self,
        client: Client,
        informers: Mapping[str, Informer],
        clusters: Clusters,
        children: ControlPlaneChildren,
        releases: Releases,
        status_writer: StatusWriter,
    ) -> None:
        self._client = client
        self._informers = informers
        self._clusters = clusters
        self._children = children
        self._releases = releases
        self._status_writer = status_writer
        self._settled = Settled()

    async def write(
        self, owner: Object, observed: Mapping[str, Object], composition: Composition
    ) -> Rejected | None:
        """Apply and prune an owner's children; return what could not be written, None if all was."""
        desired = [child for child in composition.children if isinstance(child, Desired)]
        problems: list[str] = []
        silent: set[str] = set()
        try:
            # Each object that the owner needs gets the finalizer before it is used.
            for kind, namespace, name in guards.list_needed(owner):
                if (item := self._informers[kind].get(name, namespace)) is not None:
                    await self._add_finalizer(item, ownership.IN_USE)
            # The owner has the finalizer, and records the clusters, before the first write: children must be
            # found again.
            on_clusters = any(child.cluster for child in desired)
            releases = [place for child in desired if (place := place_of(child))]
            if on_clusters or releases or (desired and COMPOSERS[owner["kind"]].waits_for_children):
                record = ownership.recorded_releases(owner, releases)
                annotations = {labels.HELM_RELEASES: record} if releases else {}
                await self._add_finalizer(owner, ownership.FINALIZER, annotations)
            if on_clusters and not set(recorded({"status": composition.status})) <= set(recorded(owner)):
                await self._status_writer.recorded(owner, composition)
            for cluster, some in _in_turn(desired):
                if cluster in silent:
                    continue
                for problem, is_silent in await self._attempts(owner, some, observed):
                    problems += [problem] if problem is not None and problem not in problems else []
                    silent |= {cluster} if is_silent else set()
            if not problems:
                await self._delete_dropped(owner, observed, composition)
                self._releases.prune(owner, composition)
        except errors.KubernetesError as error:
            problems.append(str(error))
        return Rejected(detail=in_order(problems, separator="; ")) if problems else None

    async def _add_finalizer(
        self, item: Object, finalizer: str, annotations: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        metadata = item["metadata"]
        finalizers = metadata.get("finalizers", [])
        is_held = finalizer in finalizers and annotations.items() <= metadata.get("annotations", {}).items()
        if is_held or "deletionTimestamp" in metadata:
            return
        body: Object = {"resourceVersion": metadata["resourceVersion"]}
        if finalizer not in finalizers:
            body["finalizers"] = [*finalizers, finalizer]
        if annotations:
            body["annotations"] = dict(annotations)
        written = await self._client.patch(
            resource_of(item), metadata["name"], {"metadata": body}, metadata.get("namespace")
        )
        self._informers[item["kind"]].remember(written)

    async def _attempts(
        self, owner: Object, some: list[Desired], observed: Mapping[str, Object]
    ) -> list[tuple[str | None, bool]]:
        """Write children at the same time; a single one needs no task for it."""
        if len(some) == 1:
            return [await self._attempt(owner, some[0], observed.get(some[0].key))]
        async with asyncio.TaskGroup() as group:
            attempts = [
                group.create_task(self._attempt(owner, child, observed.get(child.key))) for child in some
            ]
        return [attempt.result() for attempt in attempts]

    async def _attempt(
        self, owner: Object, child: Desired, observed: Object | None
    ) -> tuple[str | None, bool]:
        """Write a child; return the problem, None if there is none, and whether nobody answered."""
        try:
            await self._write(owner, child, observed)
        except errors.ApiError as error:
            # One rejected child does not hold up the others.
            return f"cannot write {name_object(child.manifest)}: {error}", False
        except errors.KubernetesError as error:
            # A cluster that does not answer is tried once, and does not hold up the others.
            return str(error), True
        return None, False

    async def _write(self, owner: Object, child: Desired, observed: Object | None) -> None:
        if is_release(child.manifest):
            self._releases.want(owner, child)
            return
        manifest = ownership.stamp(owner, child)
        if observed is not None and identity(observed) != identity(manifest):
            observed = None
        if observed is not None and self._settled.is_current(manifest, observed):
            return
        # Fields of an object that was not known to be ours are not taken from other field managers.
        force = observed is not None
        if child.cluster:
            connection = self._clusters.get(child.cluster)
            if connection is None:
                problem = self._clusters.problem(child.cluster)
                raise errors.Unreachable(f'cannot reach cluster "{child.cluster}": {problem}')
            if observed is None:
                _leave_to_its_owner(owner, identity(manifest), connection.children)
            written = await connection.apply(manifest, force=force)
        else:
            informer = self._children.informer(manifest)
            written = await self._client.apply(manifest, force=force)
            informer.remember(written)
        self._settled.remember(manifest, written)

    async def _delete_dropped(
        self, owner: Object, observed: Mapping[str, Object], composition: Composition
    ) -> None:
        connections = self._clusters.recorded(owner)
        wanted = frozenset(
            (child.cluster, identity(child.manifest))
            for child in composition.children
            if isinstance(child, Desired)
        )
        current = frozenset(cluster for cluster, _ in wanted if cluster)
        rule = _Pruning(
            kept=frozenset(child.key for child in composition.children if isinstance(child, Keep)),
            wanted=wanted,
            current=current,
            on_current=frozenset(
                child["metadata"]["uid"]
                for connection in connections
                if connection.name in current
                for child in adoption.children_of(owner, connection.children)
            ),
            # A Release is stored nowhere, and has no uid.
            seen=frozenset(child["metadata"].get("uid", "") for child in observed.values()),
            successors_serve=bool(current and composition.ready),
        )
        places = [("", self._client, self._children.index)]
        places += [(member.name, member.client, member.children) for member in connections]
        for cluster, client, children in places:
            for child in adoption.children_of(owner, children):
                if not rule.stays(cluster, child):
                    await delete(client, child)
                    self._settled.forget(child)


@dataclass(frozen=True, slots=True)
class _Pruning:
    """Decides which children of an owner stay; every other one is deleted."""

    kept: frozenset[str]
    """Keys of the children that the composition keeps as they are."""
    wanted: frozenset[tuple[str, Identity]]
    """Cluster and identity of the children that it wants."""
    current: frozenset[str]
    """Clusters of these children."""
    on_current: frozenset[str]
    """Uids of the children that exist on these clusters."""
    seen: frozenset[str]
    """Uids of the children that the composition saw."""
    successors_serve: bool
    """True if the children on the current clusters are ready."""

    def stays(self, cluster: str, child: Object) -> bool:
        """Return True if a child on a cluster stays; the control plane is the empty name."""
        if ownership.child_key(child) in self.kept or (cluster, identity(child)) in self.wanted:
            return True
        if not cluster or cluster in self.current:
            return False
        # The owner has left the cluster. Two clusters may be one API server, where a child replaces itself.
        uid = child["metadata"]["uid"]
        if uid in self.on_current:
            return True
        # The composition dropped each child that it saw. Any other is deleted once its successor serves.
        return uid not in self.seen and not self.successors_serve


def _in_turn(desired: list[Desired]) -> Iterator[tuple[str, list[Desired]]]:
    """Yield the children that are written at once, and their cluster.

    On a cluster, that is one. On the control plane it is several of one kind, such as the replicas of a
    deployment: each of them starts a reconcile of its own.
    """
    for (cluster, _), alike in groupby(desired, lambda child: (child.cluster, child.manifest["kind"])):
        rest = list(alike)
        at_once = 1 if cluster else _AT_ONCE
        while rest:
            yield cluster, rest[:at_once]
            del rest[:at_once]


def _leave_to_its_owner(owner: Object, child: Identity, children: ChildIndex) -> None:
    """Raise ``Conflict`` if an object on a cluster belongs to another owner.

    An owner takes over the objects of a former owner of the same name: it was recreated, perhaps with its
    whole control plane. If they are then taken over from it, both owners live, and would restart each other's
    engines for ever.
    """
    uid = owner["metadata"]["uid"]
    if children.holder(child) in ("", uid):
        return
    kind, namespace, name = ownership.owner_of(children.get(child))
    if (kind, Key(namespace, name)) != (owner["kind"], build_key(owner)):
        message = f'it belongs to {kind} "{namespace}/{name}": rename or delete one of them'
    elif children.find_former_owner(child) == uid:
        message = (
            f'another control plane has taken it over for its own {kind} "{namespace}/{name}": register '
            "the cluster with only one control plane"
        )
    else:
        return
    raise errors.Conflict(409, "Conflict", message)


async def delete(client: Client, child: Object) -> None:
    """Request a child's deletion, unless it is being deleted or another object has its name."""
    metadata = child["metadata"]
    if "deletionTimestamp" in metadata:
        return
    resource = await client.find_resource(child)
    try:
        await client.delete(
            resource,
            metadata["name"],
            metadata.get("namespace"),
            uid=metadata["uid"],
            propagation="Foreground" if has_pods(child) else "Background",
        )
    except errors.Conflict:
        _log.debug("%s was replaced meanwhile", name_object(child))
    except errors.ApiError as error:
        raise errors.ApiError(
            error.code, error.reason, f"cannot delete {name_object(child)}: {error}"
        ) from error

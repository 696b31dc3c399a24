"""Making what was composed so.

One reconcile reads an owner, its children and what it requires from local
copies, composes, writes the children that differ, deletes those that the
composition let go, and writes the status last, if it changed. All state is in
the objects: a controller that dies half-way is taken up by the next one.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from modelplane.api.decode import InvalidObject, decode_as
from modelplane.api.reasons import ReadyReason
from modelplane.compose.composition import Composition, Desired, Keep, Request, Requirement, Unknown
from modelplane.compose.conditions import READY, SYNCED, Condition, false
from modelplane.controllers import ownership, status
from modelplane.controllers.children import ChildIndex, identity
from modelplane.controllers.clusters import Clusters, Connection
from modelplane.controllers.events import Recorder
from modelplane.controllers.interests import Interests, OwnerKey, matches
from modelplane.controllers.kinds import KINDS
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, resource_of

_log = logging.getLogger(__name__)

_WAIT_FOR_CLEAN_S = 5.0


class NotYet(Exception):
    """Something could not be written; the message says what, and it is tried again."""


class Reconciler:
    """Reconciles one owner at a time, as often as it is asked to."""

    def __init__(
        self,
        client: Client,
        informers: Mapping[str, Informer],
        clusters: Clusters,
        interests: Interests,
        front_door: Callable[[], str],
    ) -> None:
        self._client = client
        self._informers = informers
        self._clusters = clusters
        self._interests = interests
        self._front_door = front_door
        self._recorder = Recorder(client)
        self._children = ChildIndex(ownership.controller_uid)
        for informer in informers.values():
            self._children.follow(informer)

    async def reconcile(self, key: OwnerKey) -> float | None:
        """Bring one owner up to date; return after how many seconds to look again, if at all.

        Raises ``NotYet`` where something is to be tried again soon.
        """
        owner = self._informers[key.kind].get(key.name, key.namespace)
        if owner is None:
            self._interests.forget(key)
            return None
        if "deletionTimestamp" in owner["metadata"]:
            self._interests.forget(key)
            return await self._finalize(owner)
        kind = KINDS[key.kind]
        try:
            decoded = decode_as(kind.type, owner)
        except InvalidObject as error:
            await self._write_doubt(owner, str(error))
            return None
        requirements = kind.requirements(decoded)
        self._interests.set(key, requirements)
        required = {requirement.key: self._find(requirement) for requirement in requirements}
        if any(isinstance(found, Unknown) and found.loading for found in required.values()):
            return None
        observed = self._observed(owner)
        composition = kind.compose(Request(decoded, observed, required, self._front_door()))
        if composition.doubt:
            await self._write_doubt(owner, composition.doubt)
            return None
        self._interests.set_short(key, composition.short)
        problem = await self._write_children(owner, observed, composition)
        await self._write_status(owner, observed, composition, problem)
        if problem:
            raise NotYet(problem)
        return None

    def _find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        if requirement.cluster:
            return self._clusters.find(requirement)
        informer = self._informers[requirement.kind]
        if requirement.name:
            found = informer.get(requirement.name, requirement.namespace)
            return () if found is None else (found,)
        return tuple(item for item in informer if matches(requirement, item))

    def _observed(self, owner: Object) -> dict[str, Object]:
        uid = owner["metadata"]["uid"]
        observed = self._children.keyed(uid)
        for connection in self._recorded(owner):
            observed |= connection.children.keyed(uid)
        return observed

    def _recorded(self, owner: Object) -> list[Connection]:
        names = owner.get("status", {}).get("clusters", ())
        if not all(isinstance(name, str) for name in names):
            return []  # a ModelCache lists its clusters with their phase
        return [connection for name in names if (connection := self._clusters.get(name))]

    async def _write_children(
        self, owner: Object, observed: Mapping[str, Object], composition: Composition
    ) -> str:
        """Write what differs, then delete what was let go; return what could not be done."""
        try:
            if any(isinstance(child, Desired) and child.cluster for child in composition.children):
                await self._hold(owner, composition)
            for child in composition.children:
                if isinstance(child, Desired):
                    await self._write(owner, child, observed.get(child.key))
            await self._delete_dropped(owner, composition)
        except errors.KubernetesError as error:
            return str(error)
        except NotYet as error:
            return str(error)
        return ""

    async def _hold(self, owner: Object, composition: Composition) -> None:
        """Before the first write to a cluster, see to it that what is written will be found again."""
        metadata = owner["metadata"]
        resource = resource_of(owner)
        if ownership.FINALIZER not in metadata.get("finalizers", ()):
            finalizers = [*metadata.get("finalizers", ()), ownership.FINALIZER]
            patch = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}
            written = await self._client.patch(resource, metadata["name"], patch, metadata.get("namespace"))
            self._informers[owner["kind"]].remember(written)
        recorded = owner.get("status", {}).get("clusters", ())
        if not set(composition.status.get("clusters", ())) <= set(recorded):
            conditions = owner.get("status", {}).get("conditions", ())
            await self._apply_status(owner, {**composition.status, "conditions": list(conditions)})

    async def _write(self, owner: Object, child: Desired, observed: Object | None) -> None:
        manifest = ownership.stamp(owner, child)
        if (
            observed is not None
            and identity(observed) == identity(manifest)
            and ownership.is_current(manifest, observed)
        ):
            return
        if child.cluster:
            await self._connection(child.cluster).apply(manifest)
        else:
            written = await self._client.apply(manifest)
            self._informers[written["kind"]].remember(written)

    def _connection(self, name: str) -> Connection:
        connection = self._clusters.get(name)
        if connection is None:
            raise NotYet(f'cannot reach cluster "{name}": {self._clusters.problem(name)}')
        return connection

    async def _delete_dropped(self, owner: Object, composition: Composition) -> None:
        uid = owner["metadata"]["uid"]
        kept = {child.key for child in composition.children if isinstance(child, Keep)}
        wanted = {
            (child.cluster, identity(child.manifest))
            for child in composition.children
            if isinstance(child, Desired)
        }
        for child in self._children.of(uid):
            if ownership.child_key(child) not in kept and ("", identity(child)) not in wanted:
                await _delete(self._client, child)
        for connection in self._recorded(owner):
            for child in connection.children.of(uid):
                if (
                    ownership.child_key(child) not in kept
                    and (connection.name, identity(child)) not in wanted
                ):
                    await _delete(connection.client, child)

    async def _write_status(
        self, owner: Object, observed: Mapping[str, Object], composition: Composition, problem: str
    ) -> None:
        before = owner.get("status", {}).get("conditions", ())
        own = composition.conditions
        conditions = (*own, status.ready(composition, observed, before), status.synced(problem))
        now = _now()
        wire = status.with_times(conditions, before, owner["metadata"]["generation"], now)
        await self._apply_status(owner, {**composition.status, "conditions": wire})
        for condition in status.transitions(own, before):
            await self._recorder.record(owner, condition)

    async def _write_doubt(self, owner: Object, cause: str) -> None:
        """Leave the status as it is, but say that it could not be brought up to date."""
        known = owner.get("status", {})
        others = [old for old in known.get("conditions", ()) if old["type"] != SYNCED]
        synced = status.with_times(
            [status.synced(cause)], known.get("conditions", ()), owner["metadata"]["generation"], _now()
        )
        await self._apply_status(owner, {**known, "conditions": [*others, *synced]})

    async def _apply_status(self, owner: Object, wanted: Mapping[str, Any]) -> None:
        if status.same(owner.get("status", {}), wanted):
            return
        metadata = {key: owner["metadata"][key] for key in ("name", "namespace") if key in owner["metadata"]}
        manifest = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            # The uid makes it an error, not a new object, when the owner is gone meanwhile.
            "metadata": {**metadata, "uid": owner["metadata"]["uid"]},
            "status": wanted,
        }
        try:
            written = await self._client.apply(manifest, subresource="status")
        except (errors.NotFound, errors.Conflict):
            return
        self._informers[owner["kind"]].remember(written)

    async def _finalize(self, owner: Object) -> float | None:
        """Clean every recorded cluster, then let the owner go."""
        metadata = owner["metadata"]
        if ownership.FINALIZER not in metadata.get("finalizers", ()):
            return None
        waiting = []
        for name in owner.get("status", {}).get("clusters", ()):
            connection = self._clusters.get(name)
            if connection is None or connection.problem:
                # A person who deletes an InferenceCluster declares it gone.
                if self._informers["InferenceCluster"].get(name) is not None:
                    waiting.append(f'cluster "{name}" cannot be reached: {self._clusters.problem(name)}')
                continue
            children = connection.children.of(metadata["uid"])
            for child in children:
                await _delete(connection.client, child)
            waiting += [f'{child["kind"]} "{child["metadata"]["name"]}" on "{name}"' for child in children]
        if waiting:
            message = f"waiting for {'; '.join(sorted(waiting)[:3])} to go"
            await self._write_deleting(owner, false(READY, ReadyReason.DELETING, message))
            return _WAIT_FOR_CLEAN_S
        finalizers = [name for name in metadata["finalizers"] if name != ownership.FINALIZER]
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}}
        try:
            await self._client.patch(resource_of(owner), metadata["name"], patch, metadata.get("namespace"))
        except errors.NotFound:
            return None
        except errors.KubernetesError as error:
            raise NotYet(str(error)) from error
        return None

    async def _write_deleting(self, owner: Object, condition: Condition) -> None:
        known = owner.get("status", {})
        before = known.get("conditions", ())
        others = [old for old in before if old["type"] != READY]
        ready = status.with_times([condition], before, owner["metadata"]["generation"], _now())
        await self._apply_status(owner, {**known, "conditions": [*others, *ready]})


async def _delete(client: Client, child: Object) -> None:
    metadata = child["metadata"]
    if "deletionTimestamp" in metadata:
        return
    resource = resource_of(child)
    # Foreground: a Deployment is gone only when its pods are, and their devices are free.
    propagation: Literal["Foreground", "Background"] = (
        "Foreground" if resource == resources.DEPLOYMENTS else "Background"
    )
    try:
        await client.delete(
            resource,
            metadata["name"],
            metadata.get("namespace"),
            uid=metadata["uid"],
            propagation=propagation,
        )
    except errors.Conflict:
        _log.debug("%s %s was replaced meanwhile", child["kind"], metadata["name"])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

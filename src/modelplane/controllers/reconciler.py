"""Reconcile one owner: observe, compose, apply, prune, report status.

The owner, its children and the objects that it requires are read from local copies. The status is written
last, if it changed. All state is in the objects: after a crash the next controller continues.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import filterfalse
from typing import Any

from msgspec.structs import replace

from modelplane.api.meta import Model
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose import guards
from modelplane.compose.composition import Blocked, Composition, Request, Requirement, Unknown
from modelplane.compose.kinds import COMPOSERS, Composer, Lane
from modelplane.controllers.child_writer import ChildWriter
from modelplane.controllers.fact_sources import FactSource, FactSources
from modelplane.controllers.finalizer import Finalizer
from modelplane.controllers.gateway.fleet_routes import Composed
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.local_copies import LocalCopies
from modelplane.controllers.status_writer import StatusWriter
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.telemetry import traces


class Reconciler:
    """Reconciles one owner at a time, as often as it is asked to."""

    def __init__(
        self,
        client: Client,
        copies: LocalCopies,
        interests: Interests,
        sources: Iterable[FactSource],
        wake: Callable[[OwnerKey], None] = lambda _key: None,
    ) -> None:
        self._informers = copies.informers
        self._find, self._observed = copies.find, copies.observed
        self._releases = copies.releases
        self._interests = interests
        self._facts = FactSources(sources)
        self._wake = wake
        self.watching_since: datetime | None = None
        """Time of the first request; a controller may wait long to become the leader."""
        places = (client, copies.informers, copies.clusters)
        self._status_writer = StatusWriter(client, copies.informers)
        self._writer = ChildWriter(*places, copies.children, copies.releases, self._status_writer)
        self._finalizer = Finalizer(*places, copies.children.index, copies.releases, self._status_writer)

    async def reconcile(self, key: OwnerKey) -> float | Rejected | None:
        """Bring one owner up to date; return after how many seconds to look again, if at all.

        ``Rejected`` is what could not be written, which is tried again soon. Raises ``KubernetesError``.
        """
        owner = self._informers[key.kind].get(key.name, key.namespace)
        if owner is None:
            self._interests.forget(key)
            return None
        if "deletionTimestamp" in owner["metadata"]:
            self._interests.set(key, self._finalizer.requirements(owner))
            return await self._finalizer.finalize(owner)
        kind = COMPOSERS[key.kind]
        try:
            decoded = decode_as(kind.type, owner)
        except InvalidObject as error:
            await self._status_writer.blocked(owner, str(error))
            return None
        requirements = self._requirements(kind, decoded)
        # What the last composition watched triggers another one until this one says anew what it watches.
        watched = self._interests.of(key)
        self._interests.set(
            key, (*requirements, *(requirement for requirement in watched if requirement not in requirements))
        )
        clusters = _clusters(requirements)
        observed = self._observed(owner, clusters)
        request = self._request(kind, decoded, observed, requirements)
        unread = any(isinstance(found, Unknown) and found.loading for found in request.required.values())
        if unread or self._releases.loading(owner):
            return None  # its loading ends with another reconcile
        composition = await _composed(key.kind, request)
        if isinstance(composition, Blocked):
            self._interests.set_unsatisfied(key, True)
            late = self._changed_since(request, requirements)
            await self._status_writer.blocked(owner, composition.cause)
            return 0.0 if late else None
        self._interests.set(key, (*requirements, *composition.also_watch))
        # What triggers it only from now on may have changed while it was composed.
        known = {(requirement.kind, requirement.name) for requirement in watched}
        wider = any(
            (requirement.kind, requirement.name) not in known for requirement in composition.also_watch
        )
        late = (wider or composition.unsatisfied) and self._changed_since(request, requirements)
        self._interests.set_unsatisfied(key, composition.unsatisfied)
        unwritten = await self._write(owner, observed, composition)
        written = self._observed(self._informers[key.kind].get(key.name, key.namespace) or owner, clusters)
        if not unwritten and written != observed:
            # Report the written children now, not first that they are being created.
            after = await _composed(key.kind, replace(request, observed=written))
            if isinstance(after, Composition):
                composition, observed = after, written
        await self._status_writer.composed(owner, observed, composition, unwritten)
        return unwritten or (0.0 if late else composition.again_in_s)

    async def _write(
        self, owner: Object, observed: Mapping[str, Object], composition: Composition
    ) -> Rejected | None:
        """Write a composition and record what it decided; return what could not be written."""
        unwritten = await self._writer.write(owner, observed, composition)
        if not unwritten:
            await self._status_writer.decided(owner, observed, composition)
            for reference in composition.wakes:
                self._wake(OwnerKey(reference.kind, reference.namespace, reference.name))
        return unwritten

    def _changed_since(self, request: Request[Any, Any], requirements: tuple[Requirement, ...]) -> bool:
        return any(
            self._find(requirement) != request.required[requirement.key] for requirement in requirements
        )

    def compose(self, key: OwnerKey) -> Composed | None:
        """Compose an owner from the local copies, and write nothing; return None if it is gone."""
        owner = self._informers[key.kind].get(key.name, key.namespace)
        if owner is None:
            return None
        kind = COMPOSERS[key.kind]
        try:
            decoded = decode_as(kind.type, owner)
            requirements = self._requirements(kind, decoded)
            observed = self._observed(owner, _clusters(requirements))
            composition = kind.compose(self._request(kind, decoded, observed, requirements))
        except InvalidObject as error:
            return Composed((), Blocked(str(error)))
        return Composed(requirements, composition)

    def _request(
        self,
        kind: Composer,
        owner: Model,
        observed: Mapping[str, Object],
        requirements: tuple[Requirement, ...],
    ) -> Request[Any, Any]:
        now = datetime.now(UTC)
        self.watching_since = self.watching_since or now
        required = {requirement.key: self._find(requirement) for requirement in requirements}
        return Request(owner, observed, required, self._facts.of(kind.name, owner), now)

    def _requirements(self, kind: Composer, decoded: Model) -> tuple[Requirement, ...]:
        """Return what an owner requires, except its users: the finalizer looks for them on deletion."""
        return tuple(filterfalse(guards.matters_only_on_deletion, kind.required(decoded, self._find)))


def _clusters(requirements: tuple[Requirement, ...]) -> set[str]:
    return {requirement.cluster for requirement in requirements}


async def _composed(kind: str, request: Request[Any, Any]) -> Composition | Blocked:
    """Compose an owner.

    A placement runs in a thread of its own: it can take seconds, and the lease must be renewed meanwhile.
    """
    if COMPOSERS[kind].lane is Lane.DECISIONS:
        return await asyncio.to_thread(_compose, kind, request)
    return _compose(kind, request)


def _compose(kind: str, request: Request[Any, Any]) -> Composition | Blocked:
    """Compose, in a span; that of a deployment tells what its placement was found among, and came to."""
    places = COMPOSERS[kind].lane is Lane.DECISIONS
    with traces.open_span("placement" if places else "compose", kind=kind) as span:
        composition: Composition | Blocked
        try:
            composition = COMPOSERS[kind].compose(request)
        except InvalidObject as error:
            composition = Blocked(str(error))
        if places:
            placed = Composition(unsatisfied=True) if isinstance(composition, Blocked) else composition
            span.set(
                clusters=len(request.found("clusters")),
                replicas=len(request.found("replicas")),
                placed=placed.status.get("replicas", {}).get("total", 0),
                short=placed.unsatisfied,
            )
    return composition

"""Status writer: the status of an owner with its observedGeneration, and events for its changes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from modelplane.api.conditions.reasons import ReadyReason, list_types
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose import guards, owner_status
from modelplane.compose.composition import Composition
from modelplane.compose.conditions import READY, SYNCED, Condition, false
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.condition_events import Recorder, decisions
from modelplane.kube import timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.telemetry import traces


class StatusWriter:
    """Writes statuses that differ."""

    def __init__(self, client: Client, informers: Mapping[str, Informer]) -> None:
        self._client = client
        self._informers = informers
        self._recorder = Recorder(client)

    async def composed(
        self,
        owner: Object,
        observed: Mapping[str, Object],
        composition: Composition,
        unwritten: Rejected | None,
    ) -> None:
        """Write the status of a composition; ``unwritten`` says which children could not be written."""
        before = owner.get("status", {}).get("conditions", ())
        own = composition.conditions
        conditions = (
            *own,
            owner_status.derive_ready(composition, observed, before),
            owner_status.derive_synced(unwritten),
        )
        generation = owner["metadata"]["generation"]
        wire = owner_status.encode_conditions(conditions, before, generation, timestamps.format_now())
        # Events follow the status, so that a status that cannot be written repeats none.
        await self.apply(owner, {**composition.status, "observedGeneration": generation, "conditions": wire})
        for condition in owner_status.list_transitions(own, before):
            await self._recorder.record(owner, condition)

    async def recorded(self, owner: Object, composition: Composition) -> None:
        """Write the status of a composition before its children; the conditions are those of before."""
        known = owner.get("status", {})
        kept = {name: known[name] for name in ("observedGeneration", "conditions") if name in known}
        await self.apply(owner, {**composition.status, "conditions": [], **kept})

    async def decided(self, owner: Object, observed: Mapping[str, Object], composition: Composition) -> None:
        """Record the decisions of a composition that has been written."""
        for decision in decisions(owner, observed, composition):
            await self._recorder.tell(owner, decision)

    async def blocked(self, owner: Object, cause: str) -> None:
        """Say why nothing was decided, and leave the rest of the status as it is."""
        await self._replace(owner, SYNCED, owner_status.derive_synced(Rejected(detail=cause)))

    async def deleting(self, owner: Object, message: str) -> None:
        """Write what the owner's deletion waits for."""
        await self._replace(owner, READY, false(READY, ReadyReason.DELETING, message))

    async def _replace(self, owner: Object, type_: str, condition: Condition) -> None:
        # The clusters that the creation of an owner without a status recorded stay recorded.
        clusters = guards.recorded(owner)
        known = owner.get("status") or ({"clusters": [*clusters]} if clusters else {})
        before = known.get("conditions", ())
        # Another version may have written types that this one does not have.
        others = [old for old in before if old["type"] in list_types(owner["kind"]) - {type_}]
        written = owner_status.encode_conditions(
            [condition], before, owner["metadata"]["generation"], timestamps.format_now()
        )
        await self.apply(owner, {**known, "conditions": [*others, *written]})

    async def apply(self, owner: Object, wanted: Mapping[str, Any]) -> None:
        """Write a status, unless it is what the owner has; ``NotFound`` when the owner is gone."""
        known = owner.get("status", {})
        if owner_status.is_same(known, wanted) or owner_status.is_same(
            _drop_server_fields(owner, known), _drop_server_fields(owner, wanted)
        ):
            return
        metadata = {key: owner["metadata"][key] for key in ("name", "namespace") if key in owner["metadata"]}
        manifest = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            # The uid makes it an error, not a new object, when the owner is gone meanwhile.
            "metadata": {**metadata, "uid": owner["metadata"]["uid"]},
            "status": wanted,
        }
        with traces.open_span("write status", kind=owner["kind"], **metadata):
            written = await self._client.apply(manifest, subresource="status")
        self._informers[owner["kind"]].remember(written)


def _drop_server_fields(owner: Object, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a status says without what a server fills in."""
    try:
        decoded = decode_as(COMPOSERS[owner["kind"]].type, {**owner, "status": said})
    except InvalidObject:
        return said
    told: Mapping[str, Any] = msgspec.to_builtins(decoded)["status"]
    return told

"""Events: what happened to an object, in the words of its conditions.

The decisions of a placement are events too: the replicas that a deployment gets, and those that it does not
get. One reconcile has at most one sentence for each, however many replicas it concerns.
"""

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from modelplane.api.conditions.reasons import is_warning
from modelplane.api.listing import count_noun, listing
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.composition import Composition, Desired
from modelplane.compose.conditions import Condition
from modelplane.kube import errors, events, timestamps
from modelplane.kube.client import Client

_log = logging.getLogger(__name__)

_MOST_NAMED: Final = 8

CONTROLLER = "modelplane.ai/controller"


class Decision(NamedTuple):
    """One event: its reason, its action, and its note."""

    reason: str
    action: str
    note: str


def decisions(owner: Object, observed: Mapping[str, Object], composition: Composition) -> Iterator[Decision]:
    """Yield what a composition changes about the replicas of a ModelDeployment; nothing for other kinds."""
    if owner["kind"] != kind_name(ModelDeployment):
        return
    replica = kind_name(ModelReplica)
    there = {key: item for key, item in observed.items() if item["kind"] == replica}
    placed = [
        child.manifest
        for child in composition.children
        if isinstance(child, Desired) and child.manifest["kind"] == replica and child.key not in there
    ]
    stay = {child.key for child in composition.children}
    removed = [
        item for key, item in there.items() if key not in stay and "deletionTimestamp" not in item["metadata"]
    ]
    if placed:
        yield Decision("ReplicasPlaced", "Placing", f"placed {_counted(placed, 'on')}")
    if removed:
        yield Decision("ReplicasRemoved", "Removing", f"removed {_counted(removed, 'from')}")


def _counted(replicas: list[Object], where: str) -> str:
    named = (
        f"{replica['metadata']['name']} {where} {replica['spec']['clusterName']}" for replica in replicas
    )
    return f"{count_noun(len(replicas), 'replica')}: {listing(named, _MOST_NAMED)}"


class Recorder:
    """Writes an event when a condition changed, or replicas were decided (``events.k8s.io/v1``)."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._instance = f"{socket.gethostname()}-{os.getpid()}"[:128]

    async def record(self, owner: Mapping[str, Any], condition: Condition) -> None:
        """Record that a condition changed."""
        warning = is_warning(condition.type, condition.reason, holds=condition.holds)
        await self.tell(owner, Decision(condition.reason, condition.type, condition.message), warning=warning)

    async def tell(self, owner: Mapping[str, Any], said: Decision, *, warning: bool = False) -> None:
        """Record what happened to an object; an event that cannot be written is not worth a retry."""
        metadata = owner["metadata"]
        about = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata["uid"],
        }
        written = events.build_event(
            about,
            at=timestamps.format_now_micro(),
            warning=warning,
            reason=said.reason,
            action=said.action,
            note=said.note,
            controller=CONTROLLER,
            instance=self._instance,
        )
        try:
            await self._client.create(written)
        except errors.KubernetesError as error:
            _log.debug("cannot record an event of %s %s: %s", owner["kind"], metadata["name"], error)

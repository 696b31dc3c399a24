"""Events about a pod, shown by ``kubectl describe pod`` (``events.k8s.io/v1``, "Event").

Events are best effort: nothing waits for one, and during a long outage of the API server the newest are
dropped. A repeated event increments the count of the existing one.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from modelplane.kube import errors, events, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.resources import Object

AGENT = "modelplane.ai/agent"

_WAITING = 256
_REMEMBERED = 512

_log = logging.getLogger(__name__)


class Reason(StrEnum):
    """Reasons of events about containers, as the kubelet has them where it does."""

    PULLING = "Pulling"
    STARTED = "Started"
    FAILED_TO_START = "FailedToStart"
    NOT_ISOLATED = "NotIsolated"
    UNHEALTHY = "Unhealthy"
    KILLING = "Killing"
    BACK_OFF = "BackOff"


_ACTIONS = {
    Reason.PULLING: "Pulling",
    Reason.STARTED: "Starting",
    Reason.FAILED_TO_START: "Starting",
    Reason.NOT_ISOLATED: "Starting",
    Reason.UNHEALTHY: "Probing",
    Reason.KILLING: "Stopping",
    Reason.BACK_OFF: "Restarting",
}
_WARNINGS = frozenset({Reason.FAILED_TO_START, Reason.NOT_ISOLATED, Reason.UNHEALTHY, Reason.BACK_OFF})


@dataclass(frozen=True, slots=True)
class _Happening:
    namespace: str
    pod: str
    uid: str
    field_path: str
    reason: Reason
    note: str
    at: str


class Recorder:
    """Writes the events of one node's pods, in their order."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node
        self._waiting: asyncio.Queue[_Happening] = asyncio.Queue(_WAITING)
        self._written: OrderedDict[tuple[str, Reason, str], tuple[str, int]] = OrderedDict()

    def record(self, pod: Mapping[str, Any], reason: Reason, note: str, field: str = "containers") -> None:
        """Record an event about the container of a narrowed pod, to be written as soon as possible.

        ``field``: the list of the pod's spec that has the container.
        """
        metadata = pod["metadata"]
        happening = _Happening(
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            f"spec.{field}{{{pod['spec']['containers'][0]['name']}}}",
            reason,
            note,
            timestamps.format_now_micro(),
        )
        try:
            self._waiting.put_nowait(happening)
        except asyncio.QueueFull:
            _log.debug("no room for event %s of pod %s", reason, happening.pod)

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        while True:
            happening = await self._waiting.get()
            while not await self._written_down(happening):
                await asyncio.sleep(2.0)

    async def _written_down(self, happening: _Happening) -> bool:
        """Write one event; return False if the server does not answer and it must be tried again."""
        try:
            await self._write(happening)
        except errors.Unreachable:
            return False
        except errors.KubernetesError as error:
            _log.debug("cannot record event %s of pod %s: %s", happening.reason, happening.pod, error)
        return True

    async def _write(self, happening: _Happening) -> None:
        key = (happening.uid, happening.reason, happening.note)
        name, count = self._written.pop(key, ("", 0))
        if name:
            series = {"series": {"count": count + 1, "lastObservedTime": happening.at}}
            try:
                await self._client.patch(resources.EVENTS, name, series, happening.namespace)
            except errors.NotFound:
                name, count = "", 0  # the server forgets events after an hour
        if not name:
            written = await self._client.create(_event(happening, self._node))
            name = written["metadata"]["name"]
        self._written[key] = (name, count + 1)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)


def _event(happening: _Happening, node: str) -> Object:
    return events.build_event(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": happening.namespace,
            "name": happening.pod,
            "uid": happening.uid,
            "fieldPath": happening.field_path,
        },
        at=happening.at,
        warning=happening.reason in _WARNINGS,
        reason=str(happening.reason),
        action=_ACTIONS[happening.reason],
        note=happening.note,
        controller=AGENT,
        instance=node,
    )

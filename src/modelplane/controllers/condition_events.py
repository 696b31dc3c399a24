"""Events: what happened to an object, in the words of its conditions."""

import logging
import os
import socket
from collections.abc import Mapping
from typing import Any

from modelplane.api.conditions.reasons import is_warning
from modelplane.compose.conditions import Condition
from modelplane.controllers.decisions import Decision
from modelplane.kube import errors, events, timestamps
from modelplane.kube.client import Client

_log = logging.getLogger(__name__)

CONTROLLER = "modelplane.ai/controller"


class Recorder:
    """Writes an event when a condition changed, or replicas were decided (``events.k8s.io/v1``)."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._instance = f"{socket.gethostname()}-{os.getpid()}"[:128]

    async def record(self, owner: Mapping[str, Any], condition: Condition) -> None:
        """Record that a condition changed."""
        warning = is_warning(condition.type, condition.reason, holds=condition.holds)
        decision = Decision(condition.reason, condition.type, condition.message)
        await self.tell(owner, decision, warning=warning)

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

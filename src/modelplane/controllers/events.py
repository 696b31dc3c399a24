"""Events: what happened to an object, in the words of its conditions."""

import logging
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from modelplane.api.reasons import ALARMING
from modelplane.compose.conditions import Condition
from modelplane.kube import errors
from modelplane.kube.client import Client

_log = logging.getLogger(__name__)

CONTROLLER = "modelplane.ai/controller"
_LONGEST_NOTE = 1024


class Recorder:
    """Writes an event when a condition changed (``events.k8s.io/v1``)."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._instance = f"{socket.gethostname()}-{os.getpid()}"[:128]

    async def record(self, owner: Mapping[str, Any], condition: Condition) -> None:
        """Record that a condition changed; an event that cannot be written is not worth a retry."""
        metadata = owner["metadata"]
        now = datetime.now(UTC)
        alarming = not condition.holds and condition.reason in ALARMING
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name'][:180]}.{int(now.timestamp() * 1e6):x}",
                "namespace": metadata.get("namespace", "default"),
            },
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning" if alarming else "Normal",
            "reason": condition.reason,
            "action": condition.type,
            "note": condition.message[:_LONGEST_NOTE],
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "regarding": {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata["uid"],
            },
        }
        try:
            await self._client.create(event)
        except errors.KubernetesError as error:
            _log.debug("cannot record an event of %s %s: %s", owner["kind"], metadata["name"], error)

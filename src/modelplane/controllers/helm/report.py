"""Reports: a Release as provider-helm would report it, from Helm's storage. Pure.

``Ready`` tells that a revision of the release is in effect, ``Synced`` that it is the one that is asked for:
False after an error, Unknown while Helm is at work. So a release whose upgrade failed, and that was rolled
back, is ready and not synced.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.conditions import READY, SYNCED
from modelplane.compose.workload_kinds import RELEASE
from modelplane.controllers.helm.helm_storage import Details, History
from modelplane.kube.resources import Object

UNREADABLE = "Unreadable"
"""Reason while Helm's storage on the cluster cannot be read."""
NOT_OURS = "NotModelplanes"
"""Reason for a release of the name that is not Modelplane's."""
FAILED = "ReconcileError"
WAITING = "Waiting"
_SUCCESS = "ReconcileSuccess"
_ERRORS = (FAILED, NOT_OURS, UNREADABLE)


@dataclass(frozen=True, slots=True)
class Unsynced:
    """The reason for which a release differs from the desired one."""

    reason: str
    message: str


def report(manifest: Object, history: History | None, details: Details, unsynced: Unsynced | None) -> Object:
    """Return a Release with its status."""
    synced: dict[str, Any] = {"type": SYNCED, "status": "True", "reason": _SUCCESS}
    if unsynced is not None:
        synced = {
            "type": SYNCED,
            "status": "False" if unsynced.reason in _ERRORS else "Unknown",
            "reason": unsynced.reason,
            "message": unsynced.message,
        }
    status: dict[str, Any] = {"conditions": [_ready(history, unsynced), synced], "synced": unsynced is None}
    if history is not None:
        status["atProvider"] = {
            "state": history.last.status,
            "revision": history.last.number,
            "releaseDescription": details.description,
        }
    return {**manifest, "status": status}


def _ready(history: History | None, unsynced: Unsynced | None) -> dict[str, Any]:
    if history is not None and history.is_deployed:
        # Also while the cluster cannot be read: it is the last that is known.
        return {"type": READY, "status": "True", "reason": "Available"}
    if unsynced is None:
        return {"type": READY, "status": "False", "reason": "Unavailable"}
    status = "Unknown" if unsynced.reason == UNREADABLE else "False"
    return {"type": READY, "status": status, "reason": unsynced.reason, "message": unsynced.message}


def stored(history: History, details: Details) -> Object:
    """Return the Release of a stored release that no composition has asked for yet, or asks for no longer."""
    metadata: Mapping[str, Any] = {
        "name": history.id.name,
        "namespace": SYSTEM_NAMESPACE,
        "labels": {labels.OWNER_UID: history.owner_uid},
        "annotations": {labels.EXTERNAL_NAME: history.id.name, labels.CHILD: history.key},
    }
    chart = {"name": details.chart, "version": details.version}
    provided = {"chart": chart, "namespace": history.id.namespace, "values": dict(details.values)}
    return {
        "apiVersion": RELEASE.api_version,
        "kind": RELEASE.kind,
        "metadata": metadata,
        "spec": {"forProvider": provided},
    }

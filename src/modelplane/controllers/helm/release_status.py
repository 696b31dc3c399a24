"""Status of a Release as provider-helm would report it, and failures of runs of Helm. Pure.

``Ready`` tells that a revision of the release is in effect, ``Synced`` that it is the one that is asked for:
False after an error, Unknown while Helm is at work. So a release whose upgrade failed, and that was rolled
back, is ready and not synced.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.compose.conditions import READY, SYNCED
from modelplane.compose.workload_kinds import RELEASE
from modelplane.controllers.helm.helm_storage import Action, Details, History
from modelplane.controllers.helm.instruction import ReleaseId
from modelplane.controllers.queue import delay_s
from modelplane.kube.resources import Object

FIRST_RETRY_S: Final = 20.0
_LAST_RETRY_S = 1800.0
_CHANGES = (Action.INSTALL, Action.UPGRADE)

UNREADABLE = "Unreadable"
"""Reason while Helm's storage on the cluster cannot be read."""
NOT_OURS = "NotModelplanes"
"""Reason for a release of the name that is not Modelplane's."""
FAILED = "ReconcileError"
WAITING = "Waiting"
_ERRORS = (FAILED, NOT_OURS, UNREADABLE)


@dataclass(frozen=True, slots=True)
class _Failure:
    digest: str
    message: str
    attempts: int
    not_before: float


class Failures:
    """The last failure of each release: of its changes, and of what repairs or removes it."""

    def __init__(self, first_retry_s: float) -> None:
        self._first_retry_s = first_retry_s
        self._failed: dict[tuple[ReleaseId, bool], _Failure] = {}

    def add(self, release: ReleaseId, action: Action, digest: str, message: str, now: float) -> None:
        """Record a failure; the delay before the next attempt doubles each time."""
        known = self._failed.get((release, action in _CHANGES))
        attempts = known.attempts + 1 if known and known.digest == digest else 1
        not_before = now + delay_s(self._first_retry_s, attempts - 1, _LAST_RETRY_S)
        self._failed[release, action in _CHANGES] = _Failure(digest, message, attempts, not_before)

    def succeeded(self, release: ReleaseId, action: Action) -> None:
        """Forget what a success makes obsolete; after a repair, the change that it repairs stays failed."""
        self._failed.pop((release, False), None)
        if action in _CHANGES:
            self._failed.pop((release, True), None)

    def forget(self, release: ReleaseId) -> None:
        """Forget the failures of a release that is as it should be."""
        for is_change in (True, False):
            self._failed.pop((release, is_change), None)

    def message(self, release: ReleaseId) -> str | None:
        """Return the failure of the last change of a release; None if it did not fail."""
        known = self._failed.get((release, True))
        return known.message if known else None

    def blocking(
        self, release: ReleaseId, action: Action, digest: str, retries: int | None, now: float
    ) -> str | None:
        """Return the failure after which it is too early for an action; None if it is due."""
        known = self._failed.get((release, action in _CHANGES))
        if known is None or known.digest != digest:
            return None
        if action in _CHANGES and retries is not None and known.attempts > retries:
            return f"{known.message}; not tried again after {known.attempts} attempts (spec.rollbackLimit)"
        return known.message if now < known.not_before else None

    def pause_s(self, now: float) -> float:
        """Return the time until the next attempt."""
        later = [failure.not_before - now for failure in self._failed.values() if failure.not_before > now]
        return max(0.05, min(later, default=_LAST_RETRY_S))


@dataclass(frozen=True, slots=True)
class Unsynced:
    """The reason for which a release differs from the desired one."""

    reason: str
    message: str


def report(manifest: Object, history: History | None, details: Details, unsynced: Unsynced | None) -> Object:
    """Return a Release with its status."""
    synced: dict[str, Any] = {"type": SYNCED, "status": "True", "reason": "ReconcileSuccess"}
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

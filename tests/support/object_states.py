"""Objects with the status that a reconcile writes, and as they are in the moments around a reconcile."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from golden.test_composition import compose
from modelplane.api.kinds import KINDS
from modelplane.compose import owner_status
from modelplane.compose.composition import Blocked
from support.goldens import GOLDENS

RECORD = Path(__file__).parents[1] / "golden" / "health.json"
"""What tools of deployment call each state: its health by Argo CD, and its status by kstatus."""
NOW = "2026-01-01T00:00:00Z"
Object = dict[str, Any]


@cache
def states() -> Mapping[str, Object]:
    """Return objects by what they are: the owner of each golden case that composes, and those of moments."""
    return {**dict(_composed()), **dict(_moments())}


def recorded() -> dict[str, dict[str, str]]:
    """Return the record."""
    lines: dict[str, dict[str, str]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return lines


def _composed() -> Iterator[tuple[str, Object]]:
    for name in GOLDENS.names():
        case = GOLDENS.input(name)
        done = compose(case)
        if not isinstance(done, Blocked):
            yield name, with_status(case["owner"], done, case.get("observed", {}))


def with_status(owner: Object, composition: Any, observed: Mapping[str, Any]) -> Object:
    """Return an owner with the status of a composition, after its children were written."""
    before = owner.get("status", {}).get("conditions", ())
    ready = owner_status.derive_ready(composition, observed, before)
    generation = owner["metadata"].get("generation", 1)
    conditions = owner_status.encode_conditions(
        (*composition.conditions, ready, owner_status.derive_synced(None)), before, generation, NOW
    )
    metadata = {**owner["metadata"], "generation": generation}
    status_ = {**composition.status, "observedGeneration": generation, "conditions": conditions}
    encoded = msgspec.json.encode({**owner, "metadata": metadata, "status": status_})
    return msgspec.json.decode(encoded, type=dict)


def _moments() -> Iterator[tuple[str, Object]]:
    """Yield an object of every kind as it is created, waits, serves, is edited and fails."""
    written = _said("Synced", "True", "ReconcileSuccess")
    said: dict[str, tuple[Object, ...]] = {
        "created": (),
        "waits": (_said("Ready", "False", "Creating"), written),
        "serves": (_said("Ready", "True", "Available"), written),
        "serves and was edited": (
            _said("Ready", "True", "Available", 1),
            _said("Synced", "True", "ReconcileSuccess", 1),
        ),
        "cannot be written": (
            _said("Ready", "True", "Available"),
            _said("Synced", "False", "ReconcileError"),
        ),
        "is paused": (_said("Ready", "True", "Available"), _said("Synced", "False", "ReconcilePaused")),
        "served": (_said("Ready", "False", "Unavailable"), written),
    }
    for kind in KINDS:
        names = {"apiVersion": kind.api_version, "kind": kind.name}
        new = {**names, "metadata": {"name": "it", "generation": 2}, "spec": {}}
        for moment, conditions in said.items():
            yield f"{kind.name} {moment}", {**new, **_status(conditions)}


def _status(conditions: tuple[Object, ...]) -> Object:
    """Return a status of the generation of its conditions; none without any."""
    if not conditions:
        return {}
    seen = conditions[0]["observedGeneration"]
    return {"status": {"observedGeneration": seen, "conditions": list(conditions)}}


def _said(type_: str, holds: str, reason: str, generation: int = 2) -> Object:
    return {
        "type": type_,
        "status": holds,
        "reason": reason,
        "message": f"{type_} is {holds}",
        "lastTransitionTime": NOW,
        "observedGeneration": generation,
    }

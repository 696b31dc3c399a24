"""How the readiness of a child is read from what is observed of it."""

from collections.abc import Mapping
from typing import Any

from modelplane.api import labels
from modelplane.compose.composition import Object, Readiness
from modelplane.compose.workload_kinds import row_of


def exists(_child: Object) -> bool:
    """Ready as soon as it is there."""
    return True


def condition_of(child: Object, type_: str) -> Mapping[str, Any]:
    """Return a condition of an object in wire form, empty where it has none of that type."""
    # A definition that was created this moment has null for conditions.
    for condition in child.get("status", {}).get("conditions") or ():
        if condition["type"] == type_:
            return dict(condition)
    return {}


def is_true(child: Object, type_: str) -> bool:
    """Whether a condition of an object is True, whatever generation it speaks of."""
    return condition_of(child, type_).get("status") == "True"


def holds(child: Object, type_: str) -> bool:
    """Whether a condition of an object is True and speaks of its present generation."""
    seen = condition_of(child, type_).get("observedGeneration")
    return is_true(child, type_) and (seen is None or seen >= child["metadata"].get("generation", 0))


def when_condition(type_: str) -> Readiness:
    """Ready while a condition of the child is True."""
    return lambda child: holds(child, type_)


def is_ready(child: Object) -> bool:
    """Whether an object of a cluster is ready, as the row of its kind says it."""
    row = row_of(child)
    return row is not None and (row.ready is None or row.ready.hold(child))


def is_behind(desired: Object, child: Object) -> bool:
    """Whether a workload does not run yet as it is to: it was not edited yet, or has not replaced every copy.

    Until then its counts may be of the copies from before the edit.
    """
    status, metadata = child.get("status", {}), child["metadata"]
    wanted = desired["metadata"]["annotations"][labels.SPEC_HASH]
    updated = int(status.get("updatedReplicas", 0))
    return (
        # One that was made before there was a hash is given it at once.
        (metadata.get("annotations") or {}).get(labels.SPEC_HASH, wanted) != wanted
        or status.get("observedGeneration", metadata.get("generation", 0)) < metadata.get("generation", 0)
        or updated < max(int(desired["spec"]["replicas"]), int(status.get("replicas", 0)))
    )


def refusal(child: Object) -> str:
    """Return why a gateway does not take a route or a pool; empty where none says so of its present form.

    A gateway that has not spoken yet, or only of an earlier form, refuses nothing.
    """
    generation = child["metadata"].get("generation", 0)
    for parent in child.get("status", {}).get("parents", ()):
        for condition in parent.get("conditions", ()):
            current = condition.get("observedGeneration", generation) >= generation
            if (
                condition["type"] in ("Accepted", "ResolvedRefs")
                and condition["status"] == "False"
                and current
            ):
                return f"{condition['reason']}: {condition['message']}"
    return ""

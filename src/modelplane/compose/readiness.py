"""Readiness of children, as observed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.api.schema.untyped import get_list, get_map
from modelplane.compose.conditions import READY, SYNCED
from modelplane.compose.workload_kinds import row_of

if TYPE_CHECKING:
    from modelplane.compose.composition import Readiness


def exists(_child: Object) -> bool:
    """Ready once it exists."""
    return True


def condition_of(child: Object, type_: str) -> Mapping[str, Any]:
    """Return a condition of an object in wire form; empty if it has none of that type."""
    # The conditions of a new CustomResourceDefinition are null.
    for condition in get_list(child, "status", "conditions"):
        if condition["type"] == type_:
            return dict(condition)
    return {}


def is_true(child: Object, type_: str) -> bool:
    """Return True if a condition of an object is True, of any generation."""
    return condition_of(child, type_).get("status") == "True"


def holds(child: Object, type_: str) -> bool:
    """Return True if a condition of an object is True and of its present generation."""
    seen = condition_of(child, type_).get("observedGeneration")
    return is_true(child, type_) and (seen is None or seen >= child["metadata"].get("generation", 0))


def observed_generation(item: Object, type_: str) -> int:
    """Return the generation of an object that a condition is about; zero if there is no condition.

    Crossplane gives the conditions of a function none. Then it is that of Crossplane's own condition, which
    it writes after them.
    """
    found, synced = condition_of(item, type_), condition_of(item, SYNCED)
    return int(found.get("observedGeneration", synced.get("observedGeneration", 0))) if found else 0


class ObjectState(NamedTuple):
    """State of an object as every view shows it."""

    word: str
    """One word: Available, or the reason of the first condition that keeps the object from being ready."""
    cause: str
    """The message of that condition; empty if the object is ready without a doubt."""
    is_ready: bool

    def summarize(self) -> str:
        """Return the word and the cause; only the cause of an object without a status."""
        return self.cause if self.word == _UNKNOWN else f"{self.word}: {self.cause}"


_UNKNOWN = "Unknown"


def read_state(item: Object) -> ObjectState:
    """Return the state of an object, from its status."""
    ready = condition_of(item, READY)
    word, is_ready = str(ready.get("reason") or _UNKNOWN), ready.get("status") == "True"
    cause = str(ready.get("message") or "")
    if not is_ready and not cause:
        cause = "the status doesn't contain a reason" if ready else "no status yet"
    return ObjectState(word, cause, is_ready)


def when_condition(type_: str) -> "Readiness":
    """Ready while a condition of the child is True."""
    return lambda child: holds(child, type_)


def is_ready(child: Object) -> bool:
    """Return True if an object on a cluster is ready by the row of its kind."""
    row = row_of(child)
    return row is not None and (row.ready is None or row.ready.hold(child))


def is_behind(desired: Object, child: Object) -> bool:
    """Return True if a workload is not up to date: not edited yet, or still replacing copies.

    Until then its counts may include copies from before the edit.
    """
    status, metadata, row = child.get("status", {}), child["metadata"], row_of(child)
    wanted = desired["metadata"]["annotations"][labels.SPEC_HASH]
    updated = int(status.get("updatedReplicas", 0))
    return (
        # A workload without a hash, from an earlier version, gets it at once.
        get_map(metadata, "annotations").get(labels.SPEC_HASH, wanted) != wanted
        or status.get("observedGeneration", metadata.get("generation", 0)) < metadata.get("generation", 0)
        or (
            (row is None or row.counts_updates)
            and updated < max(int(desired["spec"]["replicas"]), int(status.get("replicas", 0)))
        )
    )


def refusal(child: Object) -> str | None:
    """Return why a gateway rejects a route or a pool; None if none rejects its present generation.

    A gateway that has not reported yet, or only on an earlier generation, rejects nothing.
    """
    generation = child["metadata"].get("generation", 0)
    for condition in _of_parents(child):
        is_current = condition.get("observedGeneration", generation) >= generation
        is_decisive = condition["type"] in ("Accepted", "ResolvedRefs")
        if is_decisive and is_current and condition["status"] == "False":
            return f"{condition['reason']}: {condition['message']}"
    return None


def _of_parents(child: Object) -> list[Mapping[str, Any]]:
    parents = get_list(child, "status", "parents")
    return [condition for parent in parents for condition in parent.get("conditions", ())]


def accepted(child: Object) -> bool:
    """Return True if a gateway has accepted a route and rejects no part of it."""
    return not refusal(child) and any(
        reported["type"] == "Accepted" and reported["status"] == "True" for reported in _of_parents(child)
    )

"""Decisions of a placement, in plain words: the replicas that a deployment gets, and those that it loses.

One reconcile has at most one sentence for each, however many replicas it concerns.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from modelplane.api.listing import listing, number_of
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.composition import Composition, Desired

_MOST_NAMED: Final = 8


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
    return f"{number_of(len(replicas), 'replica')}: {listing(named, _MOST_NAMED)}"

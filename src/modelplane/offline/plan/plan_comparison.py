"""Comparison of two plans: what a change of manifests moves, adds, removes and costs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal

from modelplane.api.listing import count_noun
from modelplane.api.report_tables import Columns
from modelplane.offline.files.diagnostics import ObjectName
from modelplane.offline.files.report_documents import Output, Report
from modelplane.offline.plan.placements import CostReport, Deployment, Plan, Replica, State


class Change(StrEnum):
    """Change of a deployment."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Side(Output, frozen=True, kw_only=True):
    """A deployment in one of the plans."""

    wanted: int
    placed: int
    diagnosis: str
    """Causes and remedies on one line; empty if nothing is wrong."""
    cost: CostReport | None
    """Null if no pool of the fleet has a price."""


class PlaceChange(Output, frozen=True, kw_only=True):
    """Numbers of replicas at a place."""

    cluster: str
    pools: tuple[str, ...]
    before: int
    after: int


class DeploymentChange(Output, frozen=True, kw_only=True):
    """A deployment whose plans differ."""

    name: ObjectName
    change: Change
    before: Side | None
    """Null for one that is added."""
    after: Side | None
    """Null for one that is removed."""
    places: tuple[PlaceChange, ...]
    """Only those with another number of replicas."""


class PlanComparison(Report, frozen=True, kw_only=True):
    """The document of ``modelplane plan --compare -o json``."""

    kind: Literal["PlanComparison"] = "PlanComparison"
    placed: bool
    """True if every replica of the plan is placed."""
    changes: tuple[DeploymentChange, ...]


def compare(before: Plan, after: Plan) -> PlanComparison:
    """Return the deployments whose plans differ."""
    old, new = _by_name(before), _by_name(after)
    changes = (_change(old.get(name), new.get(name)) for name in sorted({*old, *new}))
    return PlanComparison(
        placed=after.placed, changes=tuple(change for change in changes if change is not None)
    )


def describe(comparison: PlanComparison) -> str:
    """Return the result as one line."""
    if not comparison.changes:
        return "No deployment changes"
    counts = Counter(change.change for change in comparison.changes)
    sentence = ", ".join(f"{counts[change]} {change}" for change in Change if counts[change])
    return f"{count_noun(len(comparison.changes), 'deployment')}: {sentence}"


def _named(change: DeploymentChange) -> str:
    return f"{change.name.namespace}/{change.name.name}"


DEPLOYMENTS: Final = Columns[DeploymentChange](
    ("DEPLOYMENT", _named),
    ("CHANGE", lambda change: change.change),
    ("REPLICAS", lambda change: _compare_sides(change, lambda side: str(side.wanted))),
    ("PLACED", lambda change: _compare_sides(change, lambda side: str(side.placed))),
    ("COST/HOUR", lambda change: _compare_sides(change, _price)),
)
PLACES: Final = Columns[tuple[DeploymentChange, PlaceChange]](
    ("DEPLOYMENT", lambda row: _named(row[0])),
    ("CLUSTER", lambda row: row[1].cluster),
    ("POOLS", lambda row: ", ".join(row[1].pools)),
    ("BEFORE", lambda row: str(row[1].before)),
    ("AFTER", lambda row: str(row[1].after)),
)


def list_places(comparison: PlanComparison) -> Iterator[tuple[DeploymentChange, PlaceChange]]:
    """Yield each place with another number of replicas."""
    yield from ((change, place) for change in comparison.changes for place in change.places)


def list_refused(comparison: PlanComparison) -> Iterator[str]:
    """Yield a line for each deployment with a replica that has no place after the change."""
    for change in comparison.changes:
        if change.after is not None and change.after.diagnosis:
            yield f"{change.name}: {change.after.diagnosis}"


def _by_name(plan: Plan) -> Mapping[tuple[str, str], Deployment]:
    return {(deployment.name.namespace, deployment.name.name): deployment for deployment in plan.deployments}


def _change(before: Deployment | None, after: Deployment | None) -> DeploymentChange | None:
    present = after if before is None else before
    if present is None:
        return None
    sides = (_side(before), _side(after))
    places = tuple(_places(_counts(before), _counts(after)))
    if sides[0] == sides[1] and not places:
        return None
    change = Change.ADDED if before is None else Change.REMOVED if after is None else Change.CHANGED
    return DeploymentChange(name=present.name, change=change, before=sides[0], after=sides[1], places=places)


def _side(deployment: Deployment | None) -> Side | None:
    if deployment is None:
        return None
    return Side(
        wanted=deployment.wanted,
        placed=deployment.placed,
        diagnosis=deployment.diagnosis,
        cost=deployment.cost,
    )


_Place = tuple[str, tuple[str, ...]]


def _counts(deployment: Deployment | None) -> Counter[_Place]:
    replicas = () if deployment is None else deployment.replicas
    return Counter(_place(replica) for replica in replicas if replica.state is not State.REMOVED)


def _place(replica: Replica) -> _Place:
    pools = dict.fromkeys(member.pool for engine in replica.engines for member in engine.members)
    return replica.cluster, tuple(pools)


def _places(before: Counter[_Place], after: Counter[_Place]) -> Iterator[PlaceChange]:
    for place in sorted({*before, *after}):
        if before[place] != after[place]:
            cluster, pools = place
            yield PlaceChange(cluster=cluster, pools=pools, before=before[place], after=after[place])


def _compare_sides(change: DeploymentChange, describe: Callable[[Side], str]) -> str:
    before, after = ("-" if side is None else describe(side) for side in (change.before, change.after))
    return before if before == after else f"{before} -> {after}"


def _price(side: Side) -> str:
    if side.cost is None:
        return "-"
    unknown = f" + {side.cost.unpriced_replicas} unknown" if side.cost.unpriced_replicas else ""
    return f"{side.cost.per_hour} {side.cost.currency}{unknown}"

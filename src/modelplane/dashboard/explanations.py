"""Explanations and plans as titled tables: the texts of ``modelplane explain`` and ``modelplane plan``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from modelplane.api.columns import Table
from modelplane.api.conditions.reasons import ModelDeploymentCondition, ModelDeploymentReason
from modelplane.api.fields.deployment.canary_settings import CanaryPhase
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.readiness import condition_of
from modelplane.dashboard.snapshot import EVENT, Snapshot
from modelplane.offline.explain import explanation_tables
from modelplane.offline.explain.replica_explanation import explain_replica
from modelplane.offline.explain.service_explanation import explain_service
from modelplane.offline.files import store
from modelplane.offline.files.edits import get_identity
from modelplane.offline.files.sources import Source
from modelplane.offline.plan import placement_tables, placements
from modelplane.offline.plan.fleet_of_files import Files, assemble
from modelplane.offline.plan.placements import Deployment
from modelplane.user_error import UserError

_MOST_ROWS: Final = 20
"""Rows of one table; a note counts the others."""

MOST_BYTES: Final = 256 * 1024
"""Maximum of a manifest to plan."""

_VERDICTS = {
    CanaryPhase.PROMOTED: "Promoted",
    CanaryPhase.ABORTED: "Aborted",
}


@dataclass(frozen=True, slots=True)
class ShownCanary:
    """State of a canary in words; ``note`` has the answers or the cause."""

    step: str
    weight: str
    revision: str
    verdict: str
    note: str
    well: bool


def describe_canary(item: Object) -> ShownCanary | None:
    """Return the canary of a deployment; None without one, or if the deployment cannot be read."""
    try:
        owner = decode_as(ModelDeployment, item)
    except InvalidObject:
        return None
    settings = owner.spec.rollout.canary if owner.spec.rollout else None
    status = owner.status.rollout.canary if owner.status.rollout else None
    if settings is None or status is None:
        return None
    condition = condition_of(item, ModelDeploymentCondition.PROGRESSING)
    holds = condition.get("reason") == ModelDeploymentReason.CANARY_HOLDS
    began = status.step_start_time is not None
    running = ("Held" if holds else "Undecided") if began else "Waits for its replicas"
    is_running = status.phase is CanaryPhase.RUNNING
    return ShownCanary(
        step=f"{status.step} of {len(settings.steps)}",
        weight=f"{status.weight}%" if began else "none yet" if is_running else "none",
        revision=status.revision,
        verdict=_VERDICTS.get(status.phase, running),
        note=str(condition.get("message", "")) if holds else status.message,
        well=status.phase is not CanaryPhase.ABORTED and not holds,
    )


@dataclass(frozen=True, slots=True)
class Explained:
    """A verdict in one line, tables, and notes."""

    verdict: str
    well: bool
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def explain(snapshot: Snapshot, item: Object) -> Explained:
    """Explain a ModelDeployment, ModelService or ModelReplica."""
    fleet = _known(_ById(snapshot))
    if (named := get_identity(item)) not in fleet:
        try:
            fleet[named] = _EXPLAIN[item["kind"]](_files(snapshot), item)
        except UserError as error:
            fleet[named] = Explained(f"Cannot be explained: {error}", well=False)
    return fleet[named]


def plan(snapshot: Snapshot, text: str) -> Explained:
    """Place the ModelDeployments of a manifest on the fleet, and write nothing."""
    given = store.load([Source("manifest", text)])
    if given.problems:
        problems = tuple(str(problem) for problem in given.problems[:_MOST_ROWS])
        return Explained("The manifest has errors", well=False, notes=problems)
    if not any(item["kind"] == kind_name(ModelDeployment) for item in given.objects):
        return Explained("The manifest has no ModelDeployment to place: paste one that has one", well=False)
    try:
        result = placements.plan_manifests(_objects(snapshot), given.objects, live=True)
    except UserError as error:
        return Explained(f"Cannot be planned: {error}", well=False)
    places = placement_tables.list_places(result.deployments)
    tables = [placement_tables.REPLICAS.tabulate("Replicas", places, _MOST_ROWS)]
    for deployment in result.deployments:
        tables += [_refusals(f"Refused by: {deployment.name.name}", deployment), _remedies(deployment)]
    notes = (
        *(
            f"{deployment.name}: {deployment.diagnosis}"
            for deployment in result.deployments
            if deployment.diagnosis
        ),
        *filter(None, map(placement_tables.describe_cost, result.deployments)),
    )
    return Explained(
        placement_tables.describe_placed(result.deployments), result.placed, _filled(tables), notes
    )


def _objects(snapshot: Snapshot) -> tuple[Object, ...]:
    return tuple(item for kind, items in snapshot.objects.items() if kind != EVENT for item in items)


class _ById:
    """A snapshot as a key of the cache: snapshots are compared by identity."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.snapshot is self.snapshot

    def __hash__(self) -> int:
        return id(self.snapshot)


@lru_cache(maxsize=1)
def _assembled(key: _ById) -> Files:
    return assemble(_objects(key.snapshot), live=True)


@lru_cache(maxsize=1)
def _known(_key: _ById) -> dict[tuple[str, str, str], Explained]:
    """Return the explanations of a snapshot that a page has asked for: each tab asks for its own again."""
    return {}


def _files(snapshot: Snapshot) -> Files:
    """Return a snapshot as the explanations read it; assembled once for each snapshot."""
    return _assembled(_ById(snapshot))


def _deployment(files: Files, item: Object) -> Explained:
    result = placements.explain_briefly(files, item, _MOST_ROWS)
    deployment = result.deployment
    tables = [
        placement_tables.WHERE.tabulate(
            "Replicas", placement_tables.list_replica_places(deployment.replicas), _MOST_ROWS
        ),
        _remedies(deployment),
        _refusals("Refused by", deployment),
        placement_tables.ALTERNATIVES.tabulate(
            "One more replica would fit on", result.alternatives, _MOST_ROWS
        ),
        placement_tables.CAPACITY.tabulate(
            "Remaining capacity", placement_tables.list_amounts(result.pools), _MOST_ROWS
        ),
    ]
    cost = placement_tables.describe_cost(deployment)
    verdict = deployment.diagnosis or placement_tables.describe_placed([deployment])
    return Explained(verdict, result.placed, _filled(tables), (*deployment.notes, *([cost] if cost else [])))


def _refusals(title: str, deployment: Deployment) -> Table:
    closest = placement_tables.select_closest(deployment.refusals, _MOST_ROWS)
    left_out = len(deployment.refusals) - len(closest)
    return placement_tables.REFUSALS.tabulate(title, closest)._replace(left_out=left_out)


def _remedies(deployment: Deployment) -> Table:
    return placement_tables.REMEDIES.tabulate("To place one more, one of", deployment.remedies, _MOST_ROWS)


def _service(files: Files, item: Object) -> Explained:
    result = explain_service(files, item)
    chosen = explanation_tables.select_endpoints(result.endpoints, everything=False)
    tables = [
        explanation_tables.ENDPOINTS.tabulate("Endpoints", chosen, _MOST_ROWS),
        explanation_tables.ABSENT.tabulate(
            "Selected, but without an endpoint", result.without_endpoint, _MOST_ROWS
        ),
    ]
    return Explained(explanation_tables.describe_service(result), result.ready, _filled(tables), result.notes)


def _replica(files: Files, item: Object) -> Explained:
    result = explain_replica(files, item)
    placed = () if result.placement is None else (result.placement,)
    tables = [
        placement_tables.WHERE.tabulate("Where it is", placement_tables.list_replica_places(placed)),
        explanation_tables.ROUTING.tabulate("Services that select it", result.services, _MOST_ROWS),
    ]
    notes = (f"Endpoint: {result.endpoint or 'none'}", *result.notes)
    return Explained(explanation_tables.describe_replica(result), result.ready, _filled(tables), notes)


def _filled(tables: Iterable[Table]) -> tuple[Table, ...]:
    return tuple(table for table in tables if table.rows)


_EXPLAIN: Final[dict[str, Callable[[Files, Object], Explained]]] = {
    kind_name(ModelDeployment): _deployment,
    kind_name(ModelService): _service,
    kind_name(ModelReplica): _replica,
}

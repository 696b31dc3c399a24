"""Explanations and plans as titled tables: the texts of ``modelplane explain`` and ``modelplane plan``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from modelplane.api.conditions.reasons import ModelDeploymentCondition, ModelDeploymentReason
from modelplane.api.fields.deployment.rollout_settings import CanaryPhase
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.report_tables import Explained
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.readiness import condition_of
from modelplane.dashboard.snapshot import Snapshot
from modelplane.offline.explain import explanation_tables
from modelplane.offline.explain.replica_explanation import explain_replica
from modelplane.offline.explain.service_explanation import explain_service
from modelplane.offline.files import store
from modelplane.offline.files.identities import get_identity
from modelplane.offline.files.sources import Source
from modelplane.offline.plan import placement_tables, placements
from modelplane.offline.plan.fleet_of_files import Files
from modelplane.user_error import UserError

_MOST_ROWS: Final = 20
"""Rows of one table; a note counts the others."""

MOST_BYTES: Final = 256 * 1024
"""Maximum of a manifest to plan."""

_VERDICTS = {CanaryPhase.PROMOTED: "Promoted", CanaryPhase.ABORTED: "Aborted"}


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


def explain(snapshot: Snapshot, item: Object) -> Explained:
    """Explain a ModelDeployment, ModelService or ModelReplica."""
    if (named := get_identity(item)) not in snapshot.explained:
        try:
            snapshot.explained[named] = _EXPLAIN[item["kind"]](snapshot.files, item)
        except UserError as error:
            snapshot.explained[named] = Explained(f"Cannot be explained: {error}", well=False)
    return snapshot.explained[named]


def plan(snapshot: Snapshot, text: str) -> Explained:
    """Place the ModelDeployments of a manifest on the fleet, and write nothing."""
    given = store.load([Source("manifest", text)])
    if given.problems:
        problems = tuple(str(problem) for problem in given.problems[:_MOST_ROWS])
        return Explained("The manifest has errors", well=False, notes=problems)
    if not any(item["kind"] == kind_name(ModelDeployment) for item in given.objects):
        return Explained(
            "The manifest contains no ModelDeployment: paste a manifest that contains one", well=False
        )
    try:
        result = placements.plan_manifests(snapshot.without_events, given.objects, live=True)
    except UserError as error:
        return Explained(f"Cannot be planned: {error}", well=False)
    places = placement_tables.list_places(result.deployments)
    tables = [placement_tables.REPLICAS.tabulate("Replicas", places, _MOST_ROWS)]
    for deployment in result.deployments:
        name = deployment.name.name
        tables += [
            placement_tables.tabulate_refusals(
                f"Clusters that don't fit: {name}", deployment.refusals, _MOST_ROWS
            ),
            placement_tables.REMEDIES.tabulate(
                "Changes that place one more replica", deployment.remedies, _MOST_ROWS
            ),
        ]
    diagnosed = (deployment for deployment in result.deployments if deployment.diagnosis)
    notes = (
        *(f"{deployment.name}: {deployment.diagnosis}" for deployment in diagnosed),
        *filter(None, map(placement_tables.describe_cost, result.deployments)),
    )
    filled = tuple(table for table in tables if table.rows)
    return Explained(placement_tables.describe_placed(result.deployments), result.placed, filled, notes)


def _deployment(files: Files, item: Object) -> Explained:
    return placement_tables.report_deployment(placements.explain_briefly(files, item, _MOST_ROWS), _MOST_ROWS)


def _service(files: Files, item: Object) -> Explained:
    return explanation_tables.report_service(explain_service(files, item), _MOST_ROWS)


def _replica(files: Files, item: Object) -> Explained:
    return explanation_tables.report_replica(explain_replica(files, item), _MOST_ROWS)


_EXPLAIN: Final[dict[str, Callable[[Files, Object], Explained]]] = {
    kind_name(ModelDeployment): _deployment,
    kind_name(ModelService): _service,
    kind_name(ModelReplica): _replica,
}

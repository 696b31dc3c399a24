"""Demands of a deployment: how many replicas there are to be of each revision, for the scheduler.

Beside a canary, replicas keep the stable template, so that the canary keeps its share of the replicas while
their number changes. Where an edit may not fit their places, they are pinned: each keeps its place and its
template, until the canary takes it over because it has too few replicas without it. Without the stable
template, or without its ModelCache, no replica is placed beside the canary: with the new template, the canary
would be promoted by their number. Offline no revisions are read, and they are placed as in any rollout.
"""

from modelplane import scheduler
from modelplane.api.listing import number_of
from modelplane.api.meta import kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.deployment import fleet_snapshot
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.replica_lifecycle import Phase
from modelplane.compose.deployment.rollout.canary import Canary, has_revision
from modelplane.compose.deployment.rollout.rollout_order import limits, serves
from modelplane.compose.deployment.rollout.stable_template import Stable, find_stable


def list_demands(
    request: DeploymentRequest, deployment: scheduler.Deployment, trial: Canary | None
) -> tuple[tuple[scheduler.Demand, ...], scheduler.Surge]:
    """Return the demand of the new revision, beside a canary that of the stable one, and the surge."""
    limit = limits(request.owner)
    if trial is None or not trial.phase.has_stable:
        return (scheduler.Demand(deployment.replicas),), scheduler.Surge(limit.surge, paused=limit.paused)
    is_running = trial.phase is Phase.RUNNING
    step = min(trial.status.replicas, deployment.replicas) if is_running else 0
    new = frozenset(
        item["metadata"]["name"]
        for item in request.observed.values()
        if item["kind"] == kind_name(ModelReplica) and has_revision(item, trial.status.revision)
    )
    stable = find_stable(request, trial)
    rest = scheduler.Demand(
        deployment.replicas - step,
        _template(request, deployment, stable),
        pinned=_list_pinned(request, trial, stable),
        blocked=bool(stable.problem) and request.now is not None,
    )
    surge = scheduler.Surge(limit.surge if is_running else 0, paused=limit.paused)
    return (scheduler.Demand(step, replicas=new), rest), surge


def _template(
    request: DeploymentRequest, deployment: scheduler.Deployment, stable: Stable
) -> scheduler.Template | None:
    """Return the stable template; None if its replicas have the places of the deployment's."""
    if stable.template is None or stable.has_places_of(request.owner.replica_template()):
        return None
    cache = stable.cache if stable.other_cache else deployment.cache
    return fleet_snapshot.template(stable.template, cache)


def _list_pinned(request: DeploymentRequest, trial: Canary, stable: Stable) -> tuple[str, ...]:
    """Return the replicas that keep their place and template, in the order in which a canary takes them over.

    None if both templates have the same places, because then none can lose its place by the edit.
    """
    current = request.owner.replica_template()
    if stable.template is not None and fleet_snapshot.same_needs(stable.template, current):
        return ()
    older = [
        (has_revision(item, trial.status.stable_revision), serves(item), key, item["metadata"]["name"])
        for key, item in request.observed.items()
        if item["kind"] == kind_name(ModelReplica)
        and not has_revision(item, trial.status.revision)
        # One whose cluster was changed by hand is not where its key says.
        and key.removeprefix(f"replica-{item['spec']['clusterName']}-").isdecimal()
    ]
    return tuple(name for *_, name in sorted(older))


def explain_blocked(request: DeploymentRequest, trial: Canary | None, placement: scheduler.Placement) -> str:
    """Return why replicas are not placed beside a canary, and the remedy; empty if none is missing."""
    if trial is None or not placement.blocked:
        return ""
    name = f"md/{request.owner.metadata.name} -n {request.owner.metadata.namespace}"
    return (
        f"{number_of(placement.blocked, 'replica')} with the template of the other replicas cannot be "
        f"placed, because {find_stable(request, trial).problem}, or go on without a canary with `modelplane "
        f"rollout promote {name}`"
    )

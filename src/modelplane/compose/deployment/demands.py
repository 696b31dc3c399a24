"""Demands of a deployment: the number of replicas of each revision and its template, for the scheduler.

Beside a canary, replicas keep the stable template, so that the canary keeps its share of the replicas while
their number changes. Where an edit may not fit their places, they are pinned: each keeps its place and its
template, until the canary takes it over because it has too few replicas without it. Without the stable
template, or without its ModelCache, no replica is placed beside the canary: with the new template, the canary
would be promoted by their number. Offline no revisions are read, and they are placed as in any rollout.

The stable template is read from its ControllerRevision, and its ModelCache from the namespace.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from modelplane import scheduler
from modelplane.api.listing import count_noun
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment, ReplicaSpec, ReplicaTemplate
from modelplane.api.schema.decode import InvalidObject, convert
from modelplane.compose.composition import Requirement
from modelplane.compose.deployment import scheduler_input
from modelplane.compose.deployment.canary import Canary, has_revision
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.replica_lifecycle import Phase
from modelplane.compose.deployment.replica_state import list_replicas, serves
from modelplane.compose.deployment.revisions import revision, revision_name, template_of
from modelplane.compose.deployment.rollout_limits import compute_limits

CACHES: Final = "caches-of-namespace"


class Stable(msgspec.Struct, frozen=True):
    """The template that a canary is compared with, as far as it is known."""

    template: ReplicaTemplate | None = None
    """None if it is not known."""
    cache: scheduler.CacheFootprint | None = None
    """The clusters that its cache covers, if it has another one than the new template."""
    other_cache: bool = False
    """True if it has another cache than the new template, or none where that has one."""
    problem: str = ""
    """Reason for which no replica is placed with it, and a remedy; empty if there is none."""


def list_demands(
    request: DeploymentRequest, deployment: scheduler.Deployment, trial: Canary | None
) -> tuple[tuple[scheduler.Demand, ...], scheduler.Surge]:
    """Return the demand of the new revision, beside a canary that of the stable one, and the surge."""
    limit = compute_limits(request.owner)
    if trial is None or not trial.phase.has_stable:
        return (scheduler.Demand(deployment.replicas),), scheduler.Surge(limit.surge, paused=limit.paused)
    is_running = trial.phase is Phase.RUNNING
    step = min(trial.status.replicas, deployment.replicas) if is_running else 0
    new = frozenset(
        item["metadata"]["name"]
        for item in list_replicas(request.observed).values()
        if has_revision(item, trial.status.revision)
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


def explain_blocked(request: DeploymentRequest, trial: Canary | None, placement: scheduler.Placement) -> str:
    """Return why replicas are not placed beside a canary, and the remedy; empty if none is missing."""
    if trial is None or not placement.blocked:
        return ""
    name = f"md/{request.owner.metadata.name} -n {request.owner.metadata.namespace}"
    return (
        f"{count_noun(placement.blocked, 'replica')} with the template of the other replicas cannot be "
        f"placed, because {find_stable(request, trial).problem}, or continue without a canary with "
        f"`modelplane rollout promote {name}`"
    )


def stable_requirements(deployment: ModelDeployment) -> tuple[Requirement, ...]:
    """Return what stable replicas require: the ModelCaches that former templates may name."""
    if deployment.spec.rollout is None or deployment.spec.rollout.canary is None:
        return ()
    return (Requirement(CACHES, API_VERSION, kind_name(ModelCache), deployment.metadata.namespace),)


def find_stable(request: DeploymentRequest, state: Canary) -> Stable:
    """Return the template that a canary is compared with, as far as it is known."""
    owner, revision_hash = request.owner, state.status.stable_revision
    template = stable_template(owner, state, request.observed)
    if template is None:
        kept = f'ControllerRevision "{revision_name(owner, revision_hash)}"'
        why = (
            f"{kept} with the template of revision {revision_hash}, which other replicas use, does not exist"
        )
        return Stable(problem=f"{why}: apply that template to the deployment again")
    name = template.model_cache_name
    if name == owner.replica_template().model_cache_name:
        return Stable(template)
    cache = _cache(request, name) if name else None
    if isinstance(cache, str):
        return Stable(template, problem=f'ModelCache "{name}" of revision {revision_hash} {cache}')
    return Stable(template, cache, other_cache=True)


def stable_template(
    owner: ModelDeployment, state: Canary | None, observed: Mapping[str, Object]
) -> ReplicaTemplate | None:
    """Return the template that a canary is compared with; None without a canary, or if it is not known."""
    if state is None or not state.phase.has_stable:
        return None
    try:
        stored = convert(template_of(state.status.stable_revision, observed), ReplicaSpec)
    except msgspec.ValidationError:
        return None
    found = _with(owner, stored).replica_template()
    # A revision that another wrote is no template of this deployment.
    return found if revision(found) == state.status.stable_revision else None


def _cache(request: DeploymentRequest, name: str) -> scheduler.CacheFootprint | str:
    """Return the clusters that a ModelCache covers, or why they are not known, as part of a sentence."""
    if unknown := request.unknown(CACHES):
        return f"cannot be read: {unknown.cause}: wait"
    found = [item for item in request.found(CACHES) if item["metadata"]["name"] == name]
    try:
        cache = scheduler_input.read_footprint(found)
    except InvalidObject as error:
        return f"cannot be read: {error}: correct it"
    return cache if cache.known else "does not exist: create it again"


def _with(owner: ModelDeployment, stored: ReplicaSpec) -> ModelDeployment:
    """Return a deployment with the fields that a revision keeps."""
    fields = {
        "engines": stored.engines,
        "model_cache_ref": stored.model_cache_ref,
        "serving": stored.serving,
    }
    spec, template = owner.spec, owner.spec.template
    if template is None:
        spec = msgspec.structs.replace(spec, **fields)
    else:
        inner = msgspec.structs.replace(template.spec, **fields)
        spec = msgspec.structs.replace(spec, template=msgspec.structs.replace(template, spec=inner))
    return msgspec.structs.replace(owner, spec=spec)


def _template(
    request: DeploymentRequest, deployment: scheduler.Deployment, stable: Stable
) -> scheduler.Template | None:
    """Return the stable template; None if its replicas have the places of the deployment's."""
    if stable.template is None:
        return None
    current = request.owner.replica_template()
    if not stable.other_cache and scheduler_input.has_same_needs(stable.template, current):
        return None
    return scheduler_input.read_template(
        stable.template, stable.cache if stable.other_cache else deployment.cache
    )


def _list_pinned(request: DeploymentRequest, trial: Canary, stable: Stable) -> tuple[str, ...]:
    """Return the replicas that keep their place and template, in the order in which a canary takes them over.

    None if both templates have the same places, because then none can lose its place by the edit.
    """
    current = request.owner.replica_template()
    if stable.template is not None and scheduler_input.has_same_needs(stable.template, current):
        return ()
    older = [
        (has_revision(item, trial.status.stable_revision), serves(item), key, item["metadata"]["name"])
        for key, item in list_replicas(request.observed).items()
        if not has_revision(item, trial.status.revision)
        # One whose cluster was changed by hand is not where its key says.
        and key.removeprefix(f"replica-{item['spec']['clusterName']}-").isdecimal()
    ]
    return tuple(name for *_, name in sorted(older))

"""Stable replicas: those that are placed during a canary and are not part of it.

They have the template of the stable revision, so that a canary keeps its share of the replicas while their
number changes. The template is read from its ControllerRevision. Without one, or with another ModelCache,
whose size is not read here, they have the new template as in any rollout.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from modelplane import scheduler
from modelplane.api.canary import CanaryPhase
from modelplane.api.decode import convert
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment, ReplicaSpec, ReplicaTemplate
from modelplane.api.model_replica import ModelReplica
from modelplane.compose import fleet
from modelplane.compose.canary import Canary, has_revision
from modelplane.compose.revisions import template_of
from modelplane.compose.rollout import revision, serves


def stable_template(
    owner: ModelDeployment, state: Canary | None, observed: Mapping[str, Object]
) -> ReplicaTemplate | None:
    """Return the template that a canary is compared with; None without a canary, or if it is not known."""
    if state is None or state.status.phase is CanaryPhase.PROMOTED or not state.has_older:
        return None
    try:
        stored = convert(template_of(state.status.stable_revision, observed), ReplicaSpec)
    except msgspec.ValidationError:
        return None
    found = _with(owner, stored).replica_template()
    # A revision that another wrote is no template of this deployment.
    is_its_own = revision(found) == state.status.stable_revision
    return (
        found if is_its_own and found.model_cache_name == owner.replica_template().model_cache_name else None
    )


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


def excess(state: Canary | None, observed: Mapping[str, Object]) -> frozenset[str]:
    """Return the names of the replicas that a running canary does not need: they go first.

    Else the replicas that are left could all have the new revision, without a decision.
    """
    if state is None or not state.is_running:
        return frozenset()
    new = [
        each
        for each in observed.values()
        if each["kind"] == kind_name(ModelReplica) and has_revision(each, state.status.revision)
    ]
    new.sort(key=lambda each: (not serves(each), each["metadata"]["name"]))
    return frozenset(each["metadata"]["name"] for each in new[_needed(state) :])


def with_stable(
    placement: scheduler.Placement,
    owner: ModelDeployment,
    state: Canary | None,
    observed: Mapping[str, Object],
    again: Callable[[ReplicaTemplate], scheduler.Placement],
) -> scheduler.Placement:
    """Return a placement whose new replicas have the stable template, but for those that the canary lacks.

    ``again`` places the deployment with another template, which may need other devices.
    """
    new = [each for each in placement.assignments if not each.replica]
    template = stable_template(owner, state, observed)
    if not new or template is None or state is None:
        return placement
    new.sort(key=lambda each: (not each.surge, each.cluster, each.index))
    names = {each.replica for each in placement.assignments if not each.leaving}
    there = sum(
        each["metadata"]["name"] in names and has_revision(each, state.status.revision)
        for each in observed.values()
    )
    lacking = max(0, _needed(state) - there)
    trial, rest = new[:lacking], new[lacking:]
    if not rest:
        return placement
    own = [each for each in placement.assignments if each.replica]
    if fleet.same_needs(template, owner.replica_template()):
        stable, diagnosis = rest, placement.diagnosis
    else:
        # Those of the canary are placed first: the others follow once they are observed.
        other = again(template)
        stable = [] if trial else [each for each in other.assignments if not each.replica][: len(rest)]
        diagnosis = placement.diagnosis if trial or len(stable) == len(rest) else other.diagnosis
    placed = [*own, *trial, *(replace(each, stable=True) for each in stable)]
    placed.sort(key=lambda each: (each.cluster, each.index, each.replica))
    return replace(placement, assignments=tuple(placed), diagnosis=diagnosis)


def _needed(state: Canary) -> int:
    """Return how many replicas of the new revision there are to be."""
    return state.status.replicas if state.is_running and not state.unsupported else 0

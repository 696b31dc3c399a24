"""Stable replicas: those that are placed during a canary and are not part of it.

They have the template of the stable revision (`stable_template`), so that a canary keeps its share of the
replicas while their number changes. Without it, or without its ModelCache, they are not placed: with the new
template, the canary would be promoted by their number. Offline no revisions are read, and they are placed as
in any rollout.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api.listing import number_of
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.rollout.canary import Canary, has_revision
from modelplane.compose.deployment.rollout.rollout_order import serves
from modelplane.compose.deployment.rollout.stable_template import Stable, stable


def excess(state: Canary | None, observed: Mapping[str, Object]) -> frozenset[str]:
    """Return the names of the replicas that a running canary does not need: they go first.

    Else the replicas that are left could all have the new revision, without a decision.
    """
    if state is None or not state.is_running:
        return frozenset()
    new = [
        item
        for item in observed.values()
        if item["kind"] == kind_name(ModelReplica) and has_revision(item, state.status.revision)
    ]
    new.sort(key=lambda item: (not serves(item), item["metadata"]["name"]))
    return frozenset(item["metadata"]["name"] for item in new[needed(state) :])


def with_stable(
    placement: scheduler.Placement,
    request: DeploymentRequest,
    state: Canary | None,
    count: int,
    again: Callable[[Stable, Collection[str], int], scheduler.Placement],
) -> scheduler.Placement:
    """Return a placement whose new replicas have the stable template, but for those that the canary lacks.

    `count` replicas are asked for, surge replicas included. ``again`` places so many in addition to those of
    these names, with the stable template, which needs other devices or another cache.
    """
    if state is None or not state.has_stable:
        return placement
    known = stable(request, state)
    new = [assignment for assignment in placement.assignments if not assignment.replica]
    new.sort(key=lambda assignment: (not assignment.surge, assignment.cluster, assignment.index))
    own = [assignment for assignment in placement.assignments if assignment.replica]
    names = {assignment.replica for assignment in own if not assignment.leaving}
    there = sum(
        item["metadata"]["name"] in names and has_revision(item, state.status.revision)
        for item in request.observed.values()
    )
    lacking = max(0, needed(state) - there)
    trial, rest = new[:lacking], new[lacking:]
    missing = count - len(names) - lacking
    is_offline = request.now is None
    if missing <= 0 or (known.problem and is_offline):
        return placement
    if known.problem:
        return replace(
            placement,
            assignments=_sorted([*own, *trial]),
            displaces=placement.displaces if len(trial) < lacking else (),
            stable_problem=_unplaced(request.owner, missing, known.problem),
        )
    diagnosis = placement.diagnosis
    if not known.has_places_of(request.owner.replica_template()):
        # Those of the canary are placed first: the others follow once they are observed.
        rest = []
        if not trial:
            other = again(known, names, missing)
            rest = [assignment for assignment in other.assignments if not assignment.replica][:missing]
            diagnosis = other.diagnosis if len(rest) < missing else diagnosis
            asked = request.owner.spec.replicas
            diagnosis = replace(diagnosis, placed=min(asked, len(names) + len(rest)), wanted=asked)
    stable_ones = (replace(assignment, stable=True) for assignment in rest)
    return replace(placement, assignments=_sorted([*own, *trial, *stable_ones]), diagnosis=diagnosis)


def _sorted(assignments: Iterable[scheduler.Assignment]) -> tuple[scheduler.Assignment, ...]:
    return tuple(
        sorted(assignments, key=lambda assignment: (assignment.cluster, assignment.index, assignment.replica))
    )


def _unplaced(owner: ModelDeployment, missing: int, problem: str) -> str:
    name = f"md/{owner.metadata.name} -n {owner.metadata.namespace}"
    return (
        f"{number_of(missing, 'replica')} with the template of the other replicas cannot be placed, because "
        f"{problem}, or go on without a canary with `modelplane rollout promote {name}`"
    )


def needed(state: Canary) -> int:
    """Return how many replicas of the new revision there are to be."""
    return state.status.replicas if state.is_running and not state.unsupported else 0

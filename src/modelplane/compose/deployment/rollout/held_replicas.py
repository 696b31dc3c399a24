"""Held replicas: those of older revisions, while a canary tries an edit that may not fit their places.

Each keeps its place and its template. The canary takes as many of them as it lacks, one after the other: such
a replica is edited in place if it fits, and else leaves when its replacement, which has the new template,
serves. If both templates have the same places, none is held, because none can lose its place by the edit.
"""

from collections.abc import Collection

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api.meta import kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.deployment import fleet_snapshot
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.rollout.canary import Canary, has_revision, is_paused
from modelplane.compose.deployment.rollout.rollout_order import serves
from modelplane.compose.deployment.rollout.stable_replicas import needed
from modelplane.compose.deployment.rollout.stable_template import stable_template


def held(request: DeploymentRequest, state: Canary | None) -> tuple[str, ...]:
    """Return the names of the replicas that are held, in the order in which a canary takes them."""
    if state is None or not state.has_stable:
        return ()
    template = stable_template(request.owner, state, request.observed)
    if template is not None and fleet_snapshot.same_needs(template, request.owner.replica_template()):
        return ()
    older = [
        (has_revision(each, state.status.stable_revision), serves(each), key, each["metadata"]["name"])
        for key, each in request.observed.items()
        if each["kind"] == kind_name(ModelReplica)
        and not has_revision(each, state.status.revision)
        # One whose cluster was changed by hand is not where its key says.
        and key.removeprefix(f"replica-{each['spec']['clusterName']}-").isdecimal()
    ]
    return tuple(name for *_, name in sorted(older))


def holding(
    there: scheduler.Fleet, deployment: scheduler.Deployment, names: Collection[str] | None = None
) -> scheduler.Fleet:
    """Return a fleet in which a deployment's replicas of these names are held; without names, all of them."""
    if names is not None and not names:
        return there
    replicas = (
        replace(replica, held=True)
        if replica.deployment_uid == deployment.uid and (names is None or replica.name in names)
        else replica
        for replica in there.replicas
    )
    return replace(there, replicas=tuple(replicas))


def taken(request: DeploymentRequest, state: Canary | None, placement: scheduler.Placement) -> int:
    """Return how many held replicas a canary takes, because it has too few without them."""
    if state is None or not any(assignment.held for assignment in placement.assignments):
        return 0
    own = [
        assignment
        for assignment in placement.assignments
        if not (assignment.leaving or assignment.held or assignment.stable)
    ]
    lacking = max(0, needed(state) - len(own))
    if not is_paused(request.owner):
        return lacking
    # One that was taken before a pause goes on making room for its replacement.
    names = {assignment.replica for assignment in own}
    begun = (
        item
        for item in request.observed.values()
        if has_revision(item, state.status.revision)
        and item["kind"] == kind_name(ModelReplica)
        and item["metadata"]["name"] not in names
    )
    return min(lacking, sum(1 for _ in begun))

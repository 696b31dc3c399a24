"""A ModelDeployment composes one ModelReplica per placement.

The scheduler chooses clusters, ``rollout`` decides when an edit reaches a replica, and this module composes
the result. A replica is removed in two steps: first it is told to withdraw its endpoint, so that gateways
send it no more requests, and then it is deleted.
"""

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelDeploymentCondition as Type
from modelplane.api.conditions.reasons import ModelDeploymentReason as Reason
from modelplane.api.conditions.reasons import ModelReplicaCondition
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment, ReplicaCounts
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import encode
from modelplane.cel import SelectorError
from modelplane.compose.composition import (
    Blocked,
    Composition,
    Desired,
    Keep,
    Reference,
    Requirement,
    keep_all,
)
from modelplane.compose.conditions import READY, Condition, false, true
from modelplane.compose.deployment import fleet_snapshot, lost_replicas, placement_status, preferred
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.rollout import (
    canary_replicas,
    held_replicas,
    stable_replicas,
    stable_template,
)
from modelplane.compose.deployment.rollout.canary import Canary, canary
from modelplane.compose.deployment.rollout.revisions import is_revision, revisions
from modelplane.compose.deployment.rollout.rollout_order import (
    Rollout,
    is_draining,
    is_surge,
    limits,
    plan,
    surge_replicas,
)
from modelplane.compose.deployment.rollout.rollout_progress import progress
from modelplane.compose.deployment.standby import standby
from modelplane.compose.deployment.wanted_replicas import Wanted, replica_key, wanted_replicas
from modelplane.compose.deployment.withdrawals import soonest
from modelplane.compose.quota import priorities, scheduler_quotas
from modelplane.compose.readiness import condition_of, when_condition
from modelplane.compose.replica import engine_variables


def requirements(deployment: ModelDeployment) -> tuple[Requirement, ...]:
    """Return the requirements of a placement: the whole fleet, and the cache's footprint."""
    needed = [
        # Clusters and replicas of other deployments matter only while this deployment waits for capacity.
        Requirement("clusters", API_VERSION, kind_name(InferenceCluster), triggers=False),
        Requirement("replicas", API_VERSION, kind_name(ModelReplica), triggers=False),
        *preferred.requirements(deployment),
        *stable_template.requirements(deployment),
        scheduler_quotas.QUOTAS,
    ]
    cache = deployment.replica_template().model_cache_name
    if cache:
        needed.append(
            Requirement(
                "cache", API_VERSION, kind_name(ModelCache), deployment.metadata.namespace, name=cache
            )
        )
    return tuple(needed)


def compose(request: DeploymentRequest) -> Composition | Blocked:
    """Compose the replicas and endpoints of a deployment."""
    for key in ("clusters", "replicas"):
        if unknown := request.unknown(key):
            return Blocked(f"cannot list the fleet's {key}: {unknown.cause}")
    decided = standby(request)
    request = decided.request
    try:
        placement = place(request)
    except SelectorError as error:
        return decided.joined(_invalid(request, str(error)))
    return decided.joined(placed(request, placement))


def place(request: DeploymentRequest) -> scheduler.Placement:
    """Place the replicas on the fleet that a request shows.

    Raises ``SelectorError``, and ``InvalidObject`` for a replica that cannot be read.
    """
    there, deployment = situation(request)
    trial = canary(request)
    there = canary_replicas.without_requests(there, deployment, trial, request.observed)
    held = held_replicas.held(request, trial)
    placement = _place(request, held_replicas.holding(there, deployment, held), deployment, trial)
    if count := held_replicas.taken(request, trial, placement):
        fewer = held_replicas.holding(there, deployment, held[count:])
        return _place(request, fewer, deployment, trial, held[:count])
    return placement


def _place(
    request: DeploymentRequest,
    snapshot: scheduler.Fleet,
    deployment: scheduler.Deployment,
    trial: Canary | None,
    taken: Collection[str] = (),
) -> scheduler.Placement:
    """Place the replicas on a fleet in which some of them may be held, and some are taken by a canary."""
    limit = limits(request.owner)
    excess = stable_replicas.excess(trial, request.observed)

    def with_stable(placement: scheduler.Placement, surge: int = 0) -> scheduler.Placement:
        def again(stable: stable_template.Stable, there: Collection[str], more: int) -> scheduler.Placement:
            cache = stable.cache if stable.other_cache else deployment.cache
            other = fleet_snapshot.with_template(deployment, stable.template or current, cache)
            # Those that leave for the canary would stay with the stable template.
            staying = len(there) + sum(name not in there for name in taken)
            return scheduler.schedule(
                held_replicas.holding(scheduler.unmark_surge(snapshot, deployment, excess), deployment),
                replace(other, replicas=staying + more),
            )

        current, count = request.owner.replica_template(), deployment.replicas + surge
        return stable_replicas.with_stable(placement, request, trial, count, again)

    if not limit.surge:
        unmarked = scheduler.unmark_surge(snapshot, deployment, excess)
        return with_stable(scheduler.schedule(unmarked, deployment))
    marked = scheduler.mark_surge(snapshot, deployment, excess)
    placement = scheduler.schedule(marked, deployment)
    wanted = wanted_replicas(request, with_stable(placement), trial)
    names = {assignment.replica for assignment in placement.assignments}
    standing = [
        child
        for child in request.observed.values()
        if is_surge(child) and child["metadata"]["name"] not in names
    ]
    limit = replace(limit, surge=canary_replicas.limited(limit, trial, request.observed, wanted))
    held = _held(placement)
    surge = surge_replicas(wanted, request.observed, limit, len(standing), held)
    return with_stable(scheduler.place_surge(marked, deployment, placement, surge, excess), surge)


def _held(placement: scheduler.Placement) -> frozenset[str]:
    return frozenset(
        replica_key(assignment.cluster, assignment.index)
        for assignment in placement.assignments
        if assignment.held
    )


def situation(request: DeploymentRequest) -> tuple[scheduler.Fleet, scheduler.Deployment]:
    """Return the fleet and the deployment that a request shows. Raises ``InvalidObject``."""
    deployment = request.owner
    footprint, _ = _cache(request)
    replicas = _replicas(request)
    clusters = fleet_snapshot.clusters(request.found("clusters"), replicas)
    clusters, wanted = lost_replicas.situation(
        request, clusters, fleet_snapshot.deployment(deployment, footprint)
    )
    known = scheduler_quotas.of_fleet(request)
    bound = scheduler.index_by_namespace(known)
    others = priorities.others(request, bound)
    there = scheduler.Fleet(
        clusters,
        replicas,
        fleet_snapshot.stuck_before(request.now),
        known,
        others,
        fleet_snapshot.evicted_before(request.now),
    )
    return there, replace(wanted, priority=priorities.of(deployment, bound))


def placed(request: DeploymentRequest, placement: scheduler.Placement) -> Composition:
    """Compose the replicas, status and conditions of a placement."""
    deployment = request.owner
    _, cache_conditions = _cache(request)
    trial = canary(request)
    wanted = wanted_replicas(request, placement, trial)
    wanted = canary_replicas.marked(wanted, trial, request.observed)
    surge = {
        replica_key(assigned.cluster, assigned.index) for assigned in placement.assignments if assigned.surge
    }
    missing = placement_status.missing(request, placement)
    first = canary_replicas.first(trial, request.observed)
    held = _held(placement)
    rollout = plan(wanted, request.observed, limits(deployment), surge, missing, first, held)
    rollout = canary_replicas.narrowed(rollout, trial, request.observed, wanted, held)
    reached = progress(request, placement, rollout, trial)
    children = (
        *_children(request, placement, wanted, rollout, trial),
        *revisions(deployment, request.observed),
    )
    scheduled = placement_status.scheduled(request, placement)
    ready, ready_condition = placement_status.ready_replicas(request, placement, rollout)
    staying = [assignment for assignment in placement.assignments if not assignment.leaving]
    return Composition(
        children=children,
        status={
            "replicas": placement_status.counts(staying, ready, len(rollout.updated)),
            "selector": _selector(deployment),
            **placement_status.cost(placement),
            **lost_replicas.status(request),
            **reached.status,
        },
        conditions=(
            scheduled,
            ready_condition,
            *placement_status.template_accepted(request, placement),
            *cache_conditions,
            *engine_variables.conditions(deployment),
            *lost_replicas.conditions(request),
            *reached.conditions,
        ),
        again_in_s=soonest(request, reached.again_in_s),
        wakes=_displaced(placement),
        ready=scheduled.holds and ready_condition.holds,
        unsatisfied=len(staying) < deployment.spec.replicas
        or bool(placement.surge_problem)
        or any(assigned.leaving or assigned.waits for assigned in placement.assignments),
        also_watch=tuple(
            Requirement("", API_VERSION, kind_name(InferenceCluster), name=name)
            for name in sorted({assignment.cluster for assignment in placement.assignments})
        ),
    )


def _displaced(placement: scheduler.Placement) -> tuple[Reference, ...]:
    """Return the deployments whose replicas are to leave for one that is missing."""
    names = {(displace.namespace, displace.deployment_name) for displace in placement.displaces}
    return tuple(Reference(kind_name(ModelDeployment), namespace, name) for namespace, name in sorted(names))


def _selector(deployment: ModelDeployment) -> str:
    return f"{labels.DEPLOYMENT}={deployment.metadata.name}"


def _replicas(request: DeploymentRequest) -> tuple[scheduler.Replica, ...]:
    # A deployment's own children can be newer than the list of all replicas.
    own = {
        _full_name(child): _with_index_of(key, fleet_snapshot.replica(child))
        for key, child in request.observed.items()
        if child["kind"] == kind_name(ModelReplica)
    }
    before = fleet_snapshot.stuck_before(request.now)
    others = (
        fleet_snapshot.without_devices(found, before)
        for found in request.found("replicas")
        if not own or _full_name(found) not in own
    )
    return (*others, *own.values())


def _with_index_of(key: str, replica: scheduler.Replica) -> scheduler.Replica:
    """Return a replica with the index of its key, because its label may have been changed."""
    index = key.removeprefix(f"replica-{replica.cluster}-")
    return replace(replica, index=int(index)) if index.isdecimal() else replica


def _full_name(item: Object) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _cache(
    request: DeploymentRequest,
) -> tuple[scheduler.CacheFootprint | None, tuple[Condition, ...]]:
    name = request.owner.replica_template().model_cache_name
    if not name:
        return None, ()
    type_ = Type.MODEL_CACHE_RESOLVED
    if unknown := request.unknown("cache"):
        message = f'cannot read ModelCache "{name}": {unknown.cause}'
        return fleet_snapshot.footprint(()), (false(type_, Reason.MODEL_CACHE_UNRESOLVED, message),)
    found = request.found("cache")
    footprint = fleet_snapshot.footprint(found)
    if not footprint.known:
        message = f'there is no ModelCache "{name}" in namespace "{request.owner.metadata.namespace}"'
        return footprint, (false(type_, Reason.MODEL_CACHE_NOT_FOUND, message),)
    return footprint, (true(type_, Reason.MODEL_CACHE_RESOLVED, f'ModelCache "{name}" is read'),)


def _invalid(request: DeploymentRequest, problem: str) -> Composition:
    _, cache_conditions = _cache(request)
    counts = request.owner.status.replicas or ReplicaCounts(total=0, ready=0)
    return Composition(
        children=keep_all(request.observed),
        status={
            "replicas": {"total": counts.total, "ready": counts.ready, "updated": counts.updated},
            "selector": _selector(request.owner),
        },
        conditions=(
            false(Type.REPLICAS_SCHEDULED, Reason.INVALID_NODE_SELECTOR, problem),
            false(
                Type.REPLICAS_READY,
                Reason.NO_REPLICAS_SCHEDULED,
                "replicas stay as they are until the node selector is corrected",
            ),
            *cache_conditions,
            *lost_replicas.conditions(request),
        ),
        ready=False,
    )


def _children(
    request: DeploymentRequest,
    placement: scheduler.Placement,
    wanted: Wanted,
    rollout: Rollout,
    trial: Canary | None,
) -> Iterator[Desired | Keep]:
    for assignment in placement.assignments:
        key = replica_key(assignment.cluster, assignment.index)
        if assignment.leaving or key in rollout.waiting:
            if (found := request.observed.get(key)) is not None:
                told = Desired(key, _told(found, draining=False), when_condition(READY))
                is_back = is_draining(found) and not canary_replicas.is_aborted(found)
                yield told if is_back else Keep(key)
            continue
        manifest = encode(wanted[key])
        if canary_replicas.is_withdrawn(wanted[key], trial):
            manifest["spec"]["draining"] = True
        elif "draining" in request.observed.get(key, {}).get("spec", {}):
            # Written although it is the default: without it one that drained would still drain, and one that
            # has it as false would be a new generation, which no cluster has reported on.
            manifest["spec"]["draining"] = False
        yield Desired(key, manifest, when_condition(READY))
    staying = {replica.metadata.name for replica in wanted.values()}
    staying |= {assignment.replica for assignment in placement.assignments if assignment.leaving}
    for key, child in sorted(request.observed.items()):
        if is_revision(child):
            continue
        if child["metadata"]["name"] not in staying and not _withdrawn(child):
            yield Desired(key, _told(child, draining=True), when_condition(READY))


def _withdrawn(replica: Object) -> bool:
    """Return True if a replica reports that it has no endpoint; one without a report may have one."""
    said = condition_of(replica, ModelReplicaCondition.ANNOUNCED)
    generation = replica["metadata"].get("generation", 0)
    # A condition from the first withdrawal does not count for a second one.
    return said.get("status") == "False" and said.get("observedGeneration", generation) >= generation


def _told(replica: Object, *, draining: bool) -> Object:
    """Return an observed replica with the instruction to withdraw its endpoint, or to have one again."""
    metadata = {field: replica["metadata"].get(field) for field in ("name", "namespace", "labels")}
    if is_surge(replica):
        metadata["annotations"] = {labels.SURGE: "true"}
    return {
        "apiVersion": API_VERSION,
        "kind": kind_name(ModelReplica),
        "metadata": metadata,
        "spec": {**replica["spec"], "draining": draining},
    }

"""A ModelDeployment composes one ModelReplica per placement.

The scheduler chooses clusters, ``replica_lifecycle`` decides when an edit reaches a replica, and this module
composes the result. A replica is removed in two steps: first it is told to withdraw its endpoint, so that
gateways send it no more requests, and then it is deleted.
"""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.conditions.reasons import (
    ModelDeploymentCondition as Type,
    ModelDeploymentReason as Reason,
)
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import API_VERSION, Object, get_full_name, kind_name
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
from modelplane.compose.deployment import (
    deployment_failover,
    placement_status,
    preferred,
    scheduler_input,
    scheduler_quotas,
)
from modelplane.compose.deployment.canary import Canary, canary, has_revision
from modelplane.compose.deployment.demands import explain_blocked, list_demands, stable_requirements
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.placed_replicas import Placed, build_replicas, list_policy, list_slots
from modelplane.compose.deployment.replica_lifecycle import Action, Phase, Plans, SlotPlan, plan_slots
from modelplane.compose.deployment.replica_state import has_template, is_surge, list_replicas
from modelplane.compose.deployment.revisions import revisions
from modelplane.compose.deployment.rollout_progress import progress
from modelplane.compose.deployment.standby import standby
from modelplane.compose.readiness import when_condition
from modelplane.compose.replica import engine_variables

_AFTER_S = 0.1
"""Times are compared, and the deadline itself is not before itself."""


def requirements(deployment: ModelDeployment) -> tuple[Requirement, ...]:
    """Return the requirements of a placement: the whole fleet, and the cache's footprint."""
    needed = [
        # Clusters and replicas of other deployments matter only while this deployment waits for capacity.
        Requirement("clusters", API_VERSION, kind_name(InferenceCluster), triggers=False),
        Requirement("replicas", API_VERSION, kind_name(ModelReplica), triggers=False),
        *preferred.requirements(deployment),
        *stable_requirements(deployment),
        scheduler_quotas.QUOTAS,
    ]
    if cache := deployment.replica_template().model_cache_name:
        namespace = deployment.metadata.namespace
        needed.append(Requirement("cache", API_VERSION, kind_name(ModelCache), namespace, name=cache))
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
        return decided.joined(_reject_selector(request, str(error)))
    return decided.joined(compose_placement(request, placement))


def place(request: DeploymentRequest) -> scheduler.Placement:
    """Place the replicas on the fleet that a request shows.

    Raises ``SelectorError``, and ``InvalidObject`` for a replica that cannot be read.
    """
    fleet, deployment = read_situation(request)
    return scheduler.schedule(fleet, deployment, *list_demands(request, deployment, canary(request)))


def read_situation(request: DeploymentRequest) -> tuple[scheduler.Fleet, scheduler.Deployment]:
    """Return the fleet and the deployment that a request shows. Raises ``InvalidObject``."""
    deployment = request.owner
    footprint, _ = _read_cache(request)
    # A deployment's own children can be newer than the list of all replicas.
    trial = canary(request)
    own = {
        get_full_name(child): _read_own_replica(request, key, child, trial)
        for key, child in list_replicas(request.observed).items()
    }
    before = scheduler_input.stuck_before(request.now)
    replicas = (
        *(
            scheduler_input.drop_devices(found, before)
            for found in request.found("replicas")
            if not own or get_full_name(found) not in own
        ),
        *own.values(),
    )
    clusters = scheduler_input.read_clusters(request.found("clusters"), replicas)
    clusters, wanted = deployment_failover.apply_failover(
        request, clusters, scheduler_input.read_deployment(deployment, footprint)
    )
    known = scheduler_quotas.of_fleet(request)
    bound = scheduler.index_by_namespace(known)
    there = scheduler.Fleet(
        clusters,
        replicas,
        scheduler_input.stuck_before(request.now),
        known,
        scheduler_quotas.other_deployments(request, bound),
        scheduler_input.evicted_before(request.now),
    )
    return there, replace(wanted, priority=scheduler_quotas.derive_priority(deployment, bound))


def compose_placement(request: DeploymentRequest, placement: scheduler.Placement) -> Composition:
    """Compose the replicas, status and conditions of a placement."""
    deployment = request.owner
    _, cache_conditions = _read_cache(request)
    trial = canary(request)
    replicas = build_replicas(request, placement, trial)
    slots = tuple(list_slots(request, placement, replicas, trial))
    plans = {plan.key: plan for plan in plan_slots(slots, list_policy(request, trial))}
    blocked = explain_blocked(request, trial, placement)
    reached = progress(request, placement, plans, trial, blocked)
    scheduled = placement_status.scheduled(request, placement, blocked)
    ready, ready_condition = placement_status.ready_replicas(request, placement, slots, plans)
    staying = [assignment for assignment in placement.assignments if not assignment.leaving]
    displaced = {(displace.namespace, displace.deployment_name) for displace in placement.displaces}
    return Composition(
        children=(*_apply_plans(request, replicas, plans), *revisions(deployment, request.observed)),
        status={
            "replicas": placement_status.counts(
                staying, ready, sum(plan.is_updated for plan in plans.values())
            ),
            "summary": placement_status.summary(staying, ready, deployment.spec.replicas),
            "selector": _format_selector(deployment),
            **placement_status.cost(placement),
            **deployment_failover.build_status(request),
            **reached.status,
        },
        conditions=(
            scheduled,
            ready_condition,
            *placement_status.template_accepted(request, placement),
            *cache_conditions,
            *engine_variables.conditions(deployment),
            *deployment_failover.build_conditions(request),
            *reached.conditions,
        ),
        again_in_s=find_next_withdrawal(request, reached.again_in_s),
        # The deployments whose replicas are to leave for one that is missing.
        wakes=tuple(Reference(kind_name(ModelDeployment), *names) for names in sorted(displaced)),
        ready=scheduled.holds and ready_condition.holds,
        unsatisfied=len(staying) < deployment.spec.replicas
        or bool(placement.surge_problem)
        or any(assigned.leaving or assigned.waits for assigned in placement.assignments),
        also_watch=tuple(
            Requirement("", API_VERSION, kind_name(InferenceCluster), name=name)
            for name in sorted({assignment.cluster for assignment in placement.assignments})
        ),
    )


def find_next_withdrawal(request: DeploymentRequest, others: float | None) -> float | None:
    """Return the seconds until the next replica is to be withdrawn, or until the others if that is sooner."""
    before = scheduler_input.evicted_before(request.now)
    replicas = map(scheduler_input.read_replica, list_replicas(request.observed).values())
    times = [
        replica.evicted_at for replica in replicas if replica.evicted_at and replica.evicted_at >= before
    ]
    if request.now is None or not times:
        return others
    left = datetime.fromisoformat(min(times)) - scheduler_input.WITHDRAWN_WITHIN - request.now
    own = max(left.total_seconds(), 0.0) + _AFTER_S
    return own if others is None else min(own, others)


def _format_selector(deployment: ModelDeployment) -> str:
    return f"{labels.DEPLOYMENT}={deployment.metadata.name}"


def _read_own_replica(
    request: DeploymentRequest, key: str, child: Object, trial: Canary | None
) -> scheduler.Replica:
    """Return a replica of the deployment itself, of which more is known."""
    replica = scheduler_input.read_replica(child)
    # The index of its key, because its label may have been changed.
    index = key.removeprefix(f"replica-{replica.cluster}-")
    # One of an aborted canary gets no requests, so no other replica leaves for it.
    is_withdrawn = (
        trial is not None and trial.phase is Phase.ABORTED and has_revision(child, trial.status.revision)
    )
    return replace(
        replica,
        index=int(index) if index.isdecimal() else replica.index,
        draining=replica.draining or is_withdrawn,
        behind=not has_template(child, request.owner.replica_template()),
    )


def _read_cache(
    request: DeploymentRequest,
) -> tuple[scheduler.CacheFootprint | None, tuple[Condition, ...]]:
    name = request.owner.replica_template().model_cache_name
    if not name:
        return None, ()
    type_ = Type.MODEL_CACHE_RESOLVED
    if unknown := request.unknown("cache"):
        message = f'cannot read ModelCache "{name}": {unknown.cause}'
        return scheduler_input.read_footprint(()), (false(type_, Reason.MODEL_CACHE_UNRESOLVED, message),)
    footprint = scheduler_input.read_footprint(request.found("cache"))
    if not footprint.known:
        message = f'ModelCache "{name}" does not exist in namespace "{request.owner.metadata.namespace}"'
        return footprint, (false(type_, Reason.MODEL_CACHE_NOT_FOUND, message),)
    return footprint, (true(type_, Reason.MODEL_CACHE_RESOLVED, f'ModelCache "{name}" is read'),)


def _reject_selector(request: DeploymentRequest, problem: str) -> Composition:
    _, cache_conditions = _read_cache(request)
    counts = request.owner.status.replicas or ReplicaCounts(total=0, ready=0)
    return Composition(
        children=keep_all(request.observed),
        status={
            "replicas": {"total": counts.total, "ready": counts.ready, "updated": counts.updated},
            "selector": _format_selector(request.owner),
        },
        conditions=(
            false(Type.REPLICAS_SCHEDULED, Reason.INVALID_NODE_SELECTOR, problem),
            false(
                Type.REPLICAS_READY,
                Reason.NO_REPLICAS_SCHEDULED,
                "replicas don't change until you correct the node selector",
            ),
            *cache_conditions,
            *deployment_failover.build_conditions(request),
        ),
        ready=False,
    )


def _apply_plans(request: DeploymentRequest, placed: Placed, plans: Plans) -> Iterator[Desired | Keep]:
    """Yield what a plan makes of each replica; one that is to be deleted is left out."""
    for key, plan in plans.items():
        child = request.observed.get(key)
        if plan.action in (Action.CREATE, Action.WRITE):
            yield Desired(key, _build_manifest(placed[key], child, plan), when_condition(READY))
        elif child is None or plan.action is Action.DELETE:
            continue
        elif plan.action is Action.KEEP:
            yield Keep(key)
        else:
            yield Desired(
                key, _instruct(child, draining=plan.action is Action.WITHDRAW), when_condition(READY)
            )


def _build_manifest(replica: ModelReplica, child: Object | None, plan: SlotPlan) -> Object:
    """Return a replica with its share of the requests, and the instruction to withdraw if it gets none."""
    manifest = encode(replica)
    if plan.share is not None:
        metadata = manifest["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), labels.CANARY_WEIGHT: plan.share}
    if plan.is_withdrawn or "draining" in (child or {}).get("spec", {}):
        # Written although it is the default: without it one that drained would still drain, and one that has
        # it as false would be a new generation, which no cluster has reported on.
        manifest["spec"]["draining"] = plan.is_withdrawn
    return manifest


def _instruct(replica: Object, *, draining: bool) -> Object:
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

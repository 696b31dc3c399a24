"""An InferenceCluster publishes the devices of its pools and the address of its gateway.

A cluster of a cloud is composed as an object of the cloud's kind, which lists the Secret of its kubeconfig.
With that, a ServingStack is composed, which installs what serving needs. The request has the gateway and the
API groups that were found on the cluster.
"""

from typing import Any

import msgspec

from modelplane.api.clouds.cloud_rows import Cloud, get_cache_storage
from modelplane.api.clouds.cluster_origin import Source
from modelplane.api.clouds.serving_stack import KEY as STACK_KEY
from modelplane.api.conditions.reasons import (
    InferenceClusterCondition as Type,
    InferenceClusterReason as Reason,
)
from modelplane.api.fields.cluster.node_pools import NodePool
from modelplane.api.fields.cluster.stack_components import ServingProfile
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import listing
from modelplane.api.meta import API_VERSION, GATEWAY_NAME, SYSTEM_NAMESPACE, kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.api.names import child_name
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import decode_as
from modelplane.compose import guards
from modelplane.compose.clouds import provisioned
from modelplane.compose.cluster import (
    cluster_stack,
    drain_progress,
    gateway_status,
    live_capacity,
    noticed_nodes,
)
from modelplane.compose.cluster.cluster_facts import ClusterRequest
from modelplane.compose.cluster.reachability import list_unreachable
from modelplane.compose.composition import Composition, Desired, Requirement, Silence, Unknown, keep_all
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.definition_owner import CRD_API_VERSION
from modelplane.compose.deployment import deployment_failover
from modelplane.compose.serving_stack import cluster_gateway
from modelplane.compose.workload_kinds import capabilities


def requirements(cluster: InferenceCluster) -> tuple[Requirement, ...]:
    """Return the requirements of a cluster: its classes, its gateway and capabilities, and its users."""
    name = cluster.metadata.name
    return (
        *(
            Requirement(f"class-{class_name}", API_VERSION, kind_name(InferenceClass), name=class_name)
            for class_name in sorted({pool.class_name for pool in cluster.spec.node_pools})
        ),
        cluster_gateway.requirement(name),
        *(
            Requirement(key, CRD_API_VERSION, "CustomResourceDefinition", name=crd, cluster=name)
            for key, crd in capabilities().items()
        ),
        *drain_progress.requirements(cluster),
        *live_capacity.requirements(cluster),
        *noticed_nodes.requirements(cluster),
        *guards.requirements(kind_name(InferenceCluster), cluster.metadata),
    )


def compose(request: ClusterRequest) -> Composition:
    """Publish a cluster's pools, gateway and capabilities."""
    silence = _silence(request)
    asked = _provisioned(request)
    ready, backend = _conditions(request, asked, silence)
    desired = [asked] if isinstance(asked, Desired) else []
    if not isinstance(asked, Condition):
        is_running = asked is None or _creating(request, asked) is None
        stack = cluster_stack.asked(request, asked, is_running=is_running)
        desired += [stack] if isinstance(stack, Desired) else []
    status = _status(request, silence)
    capacity = live_capacity.report(request, status["gpuPools"])
    evictions = noticed_nodes.report(request, capacity.pools)
    named = {child.key for child in desired}
    drained, drain_conditions = drain_progress.progress(request)
    return Composition(
        children=(
            *desired,
            *keep_all(key for key in request.observed if key not in named),
        ),
        status={
            **status,
            "gpuPools": evictions.pools,
            **evictions.status,
            **drain_progress.published(drained),
        },
        conditions=(
            ready,
            backend,
            *gateway_status.report_mutual_tls(request),
            *drain_conditions,
            *capacity.conditions,
            *evictions.conditions,
            *deployment_failover.build_cluster_conditions(request),
        ),
        ready=ready.holds and backend.holds,
        guards=guards.find_guards(kind_name(InferenceCluster), request),
        again_in_s=min(filter(None, (capacity.again_in_s, evictions.again_in_s)), default=None),
    )


def _provisioned(request: ClusterRequest) -> Desired | Condition | None:
    """Return the cluster of the cloud, or a condition that says why none is composed; None if it exists."""
    cluster = request.owner
    classes = {pool.class_name: request.found(f"class-{pool.class_name}") for pool in cluster.spec.node_pools}
    missing = {name for name, found in classes.items() if not found}
    if missing:
        message = f"InferenceClass {listing(missing)} does not exist: create it, or correct className"
        return false(Type.CLUSTER_READY, Reason.WAITING_FOR_CLASSES, message)
    recipe = provisioned.recipe_of(cluster.spec.cluster)
    if recipe is None:
        return None
    read = {name: decode_as(InferenceClass, found[0]) for name, found in classes.items()}
    desired = provisioned.desired(recipe, cluster, read)
    if isinstance(desired, Rejected):
        return false(Type.CLUSTER_READY, Reason.INVALID_NODE_POOL, desired.message)
    return desired


def _creating(request: ClusterRequest, desired: Desired) -> Condition | None:
    """Return a condition while a cluster of a cloud is not ready; None once it is."""
    recipe = provisioned.recipe_of(request.owner.spec.cluster)
    observed = request.observed.get(desired.key)
    said = provisioned.progress(observed, recipe, request.owner.metadata.name) if recipe else None
    return false(Type.CLUSTER_READY, Reason.PROVISIONING, said) if said else None


def _conditions(
    request: ClusterRequest, asked: Desired | Condition | None, silence: Silence | None
) -> tuple[Condition, Condition]:
    refused = _creating(request, asked) if isinstance(asked, Desired) else asked
    if refused is not None:
        return refused, false(Type.BACKEND_READY, Reason.WAITING_FOR_CLUSTER, refused.message)
    if silence is not None:
        since = f"unreachable since {silence.since}: " if silence.since else ""
        message = f"{since}{request.facts.kubeconfig_problem or silence.cause}"
        return (
            false(Type.CLUSTER_READY, Reason.UNREACHABLE, message),
            false(Type.BACKEND_READY, Reason.WAITING_FOR_CLUSTER, message),
        )
    running = true(Type.CLUSTER_READY, Reason.CLUSTER_RUNNING, "the API server answers")
    if request.facts.kubeconfig_problem:
        # An earlier kubeconfig still connects, until the controllers are started again.
        problem = request.facts.kubeconfig_problem
        message = f"the API server answers, but the kubeconfig is no longer usable: {problem}"
        running = true(Type.CLUSTER_READY, Reason.CREDENTIAL_EXPIRING, message)
    elif request.facts.credential and request.facts.credential.problem:
        message = (
            f"the API server answers, but the credential expires at {request.facts.credential.expires} and "
            f"{request.facts.credential.problem}"
        )
        running = true(Type.CLUSTER_READY, Reason.CREDENTIAL_EXPIRING, message)
    elif request.facts.credential and request.facts.credential.installer:
        message = f"the API server answers, but {request.facts.credential.installer}"
        running = true(Type.CLUSTER_READY, Reason.CREDENTIAL_EXPIRING, message)
    return running, _backend(request)


def _backend(request: ClusterRequest) -> Condition:
    """Return whether a cluster that answers can serve.

    A cluster that could, still can while the gateway has an address: a component that degrades, or is
    installed later, is only reported.
    """
    stack = request.observed.get(STACK_KEY)
    said = cluster_stack.report(stack) if stack is not None else _without_stack(request)
    if (found := _capabilities(request)) and (
        lack := cluster_stack.lacks_backend(request.owner, found, stack)
    ):
        said = f"{said}; {lack}" if said else lack
    if not _gateway_address(request):
        message = f'Gateway "{GATEWAY_NAME}" in namespace "{SYSTEM_NAMESPACE}" has no address yet'
        return false(Type.BACKEND_READY, Reason.INSTALLING, f"{message}: {said}" if said else message)
    known = (
        condition for condition in request.owner.status.conditions if condition.type == Type.BACKEND_READY
    )
    could = any(condition.status == "True" for condition in known)
    if stack is not None and not cluster_stack.is_ready(stack) and not could:
        return false(Type.BACKEND_READY, Reason.INSTALLING, said or "")
    if request.facts.gateway_answer and not could:
        message = (
            f"the gateway doesn't respond at {_gateway_address(request)}: {request.facts.gateway_answer}"
        )
        return false(Type.BACKEND_READY, Reason.INSTALLING, f"{message}; {said}" if said else message)
    message = "the gateway has an address"
    return true(Type.BACKEND_READY, Reason.BACKEND_HEALTHY, f"{message}; {said}" if said else message)


def _without_stack(request: ClusterRequest) -> str | None:
    """Return what a cluster without a gateway lacks, by name; None if it gets a serving stack."""
    if request.owner.spec.serving_stack.profile is not ServingProfile.NONE or _gateway_address(request):
        return None
    found = _capabilities(request)
    lacks = cluster_stack.lacks(found) if found else ""
    install = "profile None installs nothing: install a gateway, or set another profile"
    return f"{install}; {lacks}" if lacks else install


def _silence(request: ClusterRequest) -> Silence | None:
    """Return why the cluster counts as unreachable; None while it answers.

    The status keeps the time at which it stopped answering until it answers again.
    """
    found = request.facts.silence
    gateway = request.required.get(cluster_gateway.KEY, Unknown("not fetched yet"))
    if found is None and isinstance(gateway, Unknown):
        found = Silence(gateway.cause, gateway.since)
    elif found is None and request.owner.status.capabilities is None and (unknown := _unknown(request)):
        found = Silence(unknown.cause)
    if found is None:
        name = request.owner.metadata.name
        found = list_unreachable(guards.users(kind_name(ModelReplica), request)).get(name)
    if found is None:
        return None
    known = request.owner.status.unreachable_since
    return Silence(found.cause, msgspec.to_builtins(known) if known else found.since)


def _unknown(request: ClusterRequest) -> Unknown | None:
    unknowns = (request.unknown(key) for key in (cluster_gateway.KEY, *capabilities()))
    return next(filter(None, unknowns), None)


def _gateway_address(request: ClusterRequest) -> str:
    """Return ``host`` or ``host:port`` of the cluster's gateway; the last known one if it is unreadable."""
    if request.unknown(cluster_gateway.KEY):
        known = request.owner.status.gateway
        return known.address if known else ""
    found = next((cluster_gateway.address(item) for item in request.found(cluster_gateway.KEY)), "")
    return found or cluster_stack.gateway_address(request.observed.get(STACK_KEY))


def _status(request: ClusterRequest, silence: Silence | None) -> dict[str, Any]:
    cluster = request.owner
    status: dict[str, Any] = {
        "providerConfigRef": {"name": child_name(cluster.metadata.name, "cluster-kubeconfig")},
        "namespace": SYSTEM_NAMESPACE,
        "gpuPools": [pool for node_pool in cluster.spec.node_pools if (pool := _pool(request, node_pool))],
    }
    if found := _capabilities(request):
        status["capabilities"] = found
    if published := gateway_status.encode_gateway_status(request, _gateway_address(request)):
        status["gateway"] = published
    if storage := _cache_storage(cluster):
        status["cache"] = {"storageClassName": storage}
    if request.facts.credential and request.facts.credential.expires:
        status["credential"] = {"expirationTime": request.facts.credential.expires}
    if silence is not None and silence.since:
        status["unreachableSince"] = silence.since
    return status


def _cache_storage(cluster: InferenceCluster) -> str:
    """Return the StorageClass for caches: the cloud's own, or the one that the operator names."""
    origin = cluster.spec.cluster
    if origin.source != Source.EXISTING:
        return get_cache_storage(Cloud(origin.source))
    cache = origin.existing.cache if origin.existing else None
    return (cache.storage_class_name if cache else None) or ""


def _pool(request: ClusterRequest, pool: NodePool) -> dict[str, Any]:
    found = request.found(f"class-{pool.class_name}")
    if not found:
        # An unreadable class leaves the published devices as they are.
        before = (known for known in request.owner.status.gpu_pools if known.name == pool.name)
        return next((msgspec.to_builtins(known) for known in before), {})
    spec = decode_as(InferenceClass, found[0]).spec
    published: dict[str, Any] = {
        "name": pool.name,
        "nodes": pool.max_node_count or pool.node_count,
        "accounting": str(pool.accounting),
        "devices": msgspec.to_builtins(spec.devices),
    }
    if pricing := pool.pricing or spec.pricing:
        published["pricing"] = msgspec.to_builtins(pricing)
    if fabric := pool.find_fabric_identity():
        published["fabric"] = fabric
    if pool.spot:
        published["spot"] = True
    return published


def _capabilities(request: ClusterRequest) -> dict[str, bool]:
    known = msgspec.to_builtins(request.owner.status.capabilities)
    if _unknown(request):
        return dict(known) if known else {}
    # Deleting a definition deletes its objects, so a terminating one is no capability.
    found = {
        key: any("deletionTimestamp" not in item["metadata"] for item in request.found(key))
        for key in capabilities()
    }
    # resource.k8s.io/v1 is on by default in every Kubernetes that Modelplane supports (1.34 and later).
    return {"dra": True, **found}

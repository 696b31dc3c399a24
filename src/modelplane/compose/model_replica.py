"""A ModelReplica composes what serves one copy of a model on one cluster.

Per Standalone engine a Deployment and its ResourceClaimTemplate; for the whole
replica a Service over the engines' pods and an HTTPRoute from the cluster's
gateway, at ``/<namespace>/<replica>/``. All of it lives on the replica's
cluster, in a namespace named like the replica's own.
"""

from collections.abc import Iterator

from modelplane.api import labels
from modelplane.api.engines import Role
from modelplane.api.listing import listing
from modelplane.api.meta import API_VERSION, SYSTEM_NAMESPACE
from modelplane.api.model_replica import ModelReplica, PlacedEngine, PlacedMember
from modelplane.api.reasons import ModelReplicaCondition as Type
from modelplane.api.reasons import ModelReplicaReason as Reason
from modelplane.compose import pods, workload
from modelplane.compose.composition import (
    Composition,
    Desired,
    Keep,
    Object,
    Request,
    Requirement,
    keep_all,
)
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.readiness import exists
from modelplane.routing.http_routes import GATEWAY_NAME


def requirements(replica: ModelReplica) -> tuple[Requirement, ...]:
    """Return what composing a replica needs to see: its cluster, and its pods there."""
    cluster = replica.spec.cluster_name
    return (
        Requirement("cluster", API_VERSION, "InferenceCluster", name=cluster),
        Requirement(
            "pods",
            "v1",
            "Pod",
            namespace=replica.metadata.namespace,
            labels={labels.SERVING: replica.metadata.name},
            cluster=cluster,
        ),
    )


def compose(request: Request[ModelReplica]) -> Composition:
    """Compose the workload of a replica."""
    replica = request.owner
    name = replica.spec.cluster_name
    if cause := request.unknown("cluster"):
        return Composition(doubt=f'cannot read InferenceCluster "{name}": {cause}')
    if not request.found("cluster"):
        waiting = f'there is no InferenceCluster "{name}"'
        return Composition(
            children=keep_all(request.observed),
            status=_status(replica),
            conditions=(
                false(Type.MODEL_ACCEPTED, Reason.WAITING_FOR_CLUSTER, waiting),
                false(Type.MODEL_READY, Reason.WAITING_FOR_MODEL, waiting),
            ),
            ready=False,
        )
    if cause := request.unknown("pods"):
        return Composition(doubt=f'cannot look at cluster "{name}": {cause}')
    gangs = [engine.name for engine in replica.spec.engines if _standalone(engine) is None]
    if gangs:
        message = f"engine {listing(gangs)} spans several pods, which this version cannot run"
        return Composition(
            children=keep_all(request.observed),
            status=_status(replica),
            conditions=(
                false(Type.MODEL_ACCEPTED, Reason.UNSUPPORTED_TOPOLOGY, message),
                false(Type.MODEL_READY, Reason.WAITING_FOR_MODEL, message),
            ),
            ready=False,
        )
    children = tuple(_children(request))
    accepted, ready = _conditions(request)
    return Composition(
        children=children,
        status=_status(replica),
        conditions=(accepted, ready),
        ready=ready.holds,
    )


def _status(replica: ModelReplica) -> Object:
    # Every cluster that was ever written to stays listed until the replica is gone from it.
    recorded = set(replica.status.clusters) | {replica.spec.cluster_name}
    return {"clusters": sorted(recorded)}


def _standalone(engine: PlacedEngine) -> PlacedMember | None:
    member = engine.members[0]
    return member if len(engine.members) == 1 and member.role == Role.STANDALONE else None


def _children(request: Request[ModelReplica]) -> Iterator[Desired | Keep]:
    replica = request.owner
    cluster = replica.spec.cluster_name
    for engine in replica.spec.engines:
        member = engine.members[0]
        claim = workload.claim_template(replica, engine, member)
        if claim is not None:
            key = f"resource-claim-{engine.name}-{member.role.lower()}-{claim['metadata']['name'][-5:]}"
            yield Desired(key, claim, exists, cluster)
        manifest = workload.deployment(replica, engine, member, claim)
        yield Desired(_workload_key(engine), manifest, serves, cluster)
    yield Desired("model-service", _service(replica), exists, cluster)
    yield Desired("model-route", _route(replica), exists, cluster)


def _workload_key(engine: PlacedEngine) -> str:
    return f"model-serving-{engine.name}"


def serves(child: Object) -> bool:
    """Whether at least one copy of an engine answers.

    Not the Deployment's own ``Available``: with one copy and ``maxUnavailable: 1`` that is True at zero.
    """
    return int(child.get("status", {}).get("availableReplicas", 0)) > 0


def _conditions(request: Request[ModelReplica]) -> tuple[Condition, Condition]:
    replica = request.owner
    where = f'cluster "{replica.spec.cluster_name}"'
    observed = {engine.name: request.observed.get(_workload_key(engine)) for engine in replica.spec.engines}
    missing = [name for name, child in observed.items() if child is None]
    if missing:
        message = f"engine {listing(missing)} is being created on {where}"
        return (
            false(Type.MODEL_ACCEPTED, Reason.DEPLOYING, message),
            false(Type.MODEL_READY, Reason.WAITING_FOR_MODEL, message),
        )
    accepted = true(Type.MODEL_ACCEPTED, Reason.ACCEPTED, f"every engine is on {where}")
    idle = [name for name, child in observed.items() if child is not None and not serves(child)]
    if idle:
        trouble = pods.trouble(request.found("pods"))
        message = f"engine {listing(idle)} is not serving yet on {where}"
        return accepted, false(
            Type.MODEL_READY, Reason.MODEL_STARTING, f"{message}: {trouble}" if trouble else message
        )
    return accepted, true(Type.MODEL_READY, Reason.SERVING, f"every engine serves on {where}")


def _service(replica: ModelReplica) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": replica.metadata.name, "namespace": replica.metadata.namespace},
        "spec": {
            "selector": {labels.SERVING: replica.metadata.name},
            "ports": [{"name": "http", "port": 80, "targetPort": workload.ENGINE_PORT, "protocol": "TCP"}],
        },
    }


def _route(replica: ModelReplica) -> Object:
    metadata = replica.metadata
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "spec": {
            "parentRefs": [{"name": GATEWAY_NAME, "namespace": SYSTEM_NAMESPACE}],
            "rules": [
                {
                    "matches": [
                        {"path": {"type": "PathPrefix", "value": f"/{metadata.namespace}/{metadata.name}/"}}
                    ],
                    "filters": [
                        {
                            "type": "URLRewrite",
                            "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
                        }
                    ],
                    "backendRefs": [{"name": metadata.name, "port": 80}],
                    # A stream lasts as long as the model speaks.
                    "timeouts": {"request": "0s"},
                }
            ],
        },
    }

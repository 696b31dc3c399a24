"""Status of a ModelReplica: where it has objects, and the notice of a node that is taken back under it.

A notice stays until the replica serves on nodes without one. So a replica that lost its pods is still being
replaced after their node is gone.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from modelplane.api.conditions.reasons import ModelReplicaCondition as Type
from modelplane.api.conditions.reasons import ModelReplicaReason as Reason
from modelplane.api.fields.cluster.node_pools import ReplicaEviction
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Object
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Desired, Keep
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.memo import per_version
from modelplane.compose.replica.pod_problems import has_ended
from modelplane.compose.replica.replica_facts import ReplicaRequest

CLUSTER_KEY = "cluster"
"""Key of the requirement for the replica's InferenceCluster."""

_DECODED_CLUSTERS = 256
"""A replica is composed several times in a row, and each of its neighbours reads the same cluster."""


def _decoded(found: Mapping[str, Any]) -> InferenceCluster:
    return decode_as(InferenceCluster, found)


decoded_cluster = per_version(_decoded, _DECODED_CLUSTERS)
"""Returns an InferenceCluster as its type; raises ``InvalidObject``."""


def pods_of(engine: str) -> str:
    """Return the key of the requirement for the pods of an engine."""
    return f"pods-{engine}"


def status(request: ReplicaRequest, *, serves: bool = False) -> Object:
    """Return the status of a replica that serves, or does not, or of which that is not known."""
    replica = request.owner
    # A cluster that was written to stays listed until the replica has no objects there.
    recorded = set(replica.status.clusters) | {replica.spec.cluster_name}
    found: dict[str, Any] = {"clusters": sorted(recorded)}
    if eviction := _eviction(request, serves=serves):
        found["eviction"] = msgspec.to_builtins(eviction)
    return found


def announced(replica: ModelReplica, serves: bool, endpoint: tuple[Desired | Keep, ...]) -> Condition:
    """Return the condition that tells whether services can send the replica requests."""
    if endpoint:
        message = f'ModelEndpoint "{replica.metadata.name}" announces it to services'
        return true(Type.ROUTING_READY, Reason.ENDPOINT_CREATED, message)
    if not serves:
        return false(Type.ROUTING_READY, Reason.NOT_SERVING, "services send it no requests until it serves")
    message = f'the gateway of cluster "{replica.spec.cluster_name}" has no address to announce yet'
    return false(Type.ROUTING_READY, Reason.NO_ADDRESS, message)


def eviction_conditions(request: ReplicaRequest, *, serves: bool) -> tuple[Condition, ...]:
    """Return the condition about the nodes under a replica; none if no notice was ever seen."""
    if eviction := _eviction(request, serves=serves):
        message = (
            f'node "{eviction.node}" is taken back by {eviction.deadline:%Y-%m-%dT%H:%M:%SZ} '
            f"({eviction.cause}): the replica is being replaced"
        )
        return (false(Type.NODES_KEPT, Reason.NODE_EVICTED, message),)
    if any(condition.type == Type.NODES_KEPT for condition in request.owner.status.conditions):
        return (true(Type.NODES_KEPT, Reason.NODES_KEPT, "no node under it has a notice of eviction"),)
    return ()


def _eviction(request: ReplicaRequest, *, serves: bool) -> ReplicaEviction | None:
    notices = _notices(request)
    nodes = {
        node
        for engine in request.owner.spec.engines
        for pod in request.found(pods_of(engine.name))
        if (node := _node_of(pod))
    }
    found = next((each for name, each in notices.items() if name in nodes), None)
    return found or (None if serves else request.owner.status.eviction)


def _node_of(pod: Mapping[str, Any]) -> str | None:
    """Return the node that a pod runs on; None for one that waits, or has ended."""
    return None if has_ended(pod) else pod.get("spec", {}).get("nodeName")


def _notices(request: ReplicaRequest) -> Mapping[str, ReplicaEviction]:
    """Return the notices of the cluster's nodes, the earliest deadline first."""
    try:
        clusters = [decoded_cluster(item) for item in request.found(CLUSTER_KEY)]
    except InvalidObject:
        return {}
    return {
        notice.node: ReplicaEviction(node=notice.node, cause=notice.cause, deadline=notice.deadline)
        for cluster in clusters
        for notice in cluster.status.eviction_notices
    }

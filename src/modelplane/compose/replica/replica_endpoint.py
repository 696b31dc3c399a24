"""The ModelEndpoint of a replica: announced, kept, marked as draining or as not serving, or moved.

A replica that does not serve has an endpoint too, which services do not route to.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from modelplane.api import labels
from modelplane.api.fields.cluster.mutual_tls_settings import EndpointMutualTLS
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import API_VERSION, Object, ObjectMeta, kind_name
from modelplane.api.model_endpoint import ModelEndpoint, ModelEndpointSpec
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import encode
from modelplane.api.schema.untyped import get_map
from modelplane.compose.composition import Desired, Keep
from modelplane.compose.conditions import READY
from modelplane.compose.facts import ReplicaRequest
from modelplane.compose.readiness import exists, when_condition
from modelplane.compose.replica import engine_command_lines, engine_variables
from modelplane.compose.replica.backends.table import workload_key
from modelplane.compose.replica.replica_status import CLUSTER_KEY, decoded_cluster

ENDPOINT_KEY = "endpoint"
"""Key of the ModelEndpoint."""


def _build(request: ReplicaRequest, cluster: InferenceCluster) -> tuple[Desired | Keep, ...]:
    """Return the endpoint of a serving replica; the existing one if its cluster has no address."""
    gateway = cluster.status.gateway
    if not (gateway and gateway.address):
        return keep_endpoint(request)
    metadata = request.owner.metadata
    path = f"/{metadata.namespace}/{metadata.name}/"
    endpoint = ModelEndpoint(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            labels=dict(list_shared_labels(metadata.labels)),
            annotations=build_annotations(request.owner),
        ),
        spec=ModelEndpointSpec(
            url=f"{'https' if gateway.server_name else 'http'}://{gateway.address}{path}v1",
            rewrite_path=path,
            region=cluster.find_region() or None,
            mutual_tls=EndpointMutualTLS(server_name=gateway.server_name) if gateway.server_name else None,
        ),
    )
    return (Desired(ENDPOINT_KEY, encode(endpoint), when_condition(READY)),)


def announce_not_serving(request: ReplicaRequest) -> tuple[Desired, ...]:
    """Return the endpoint of a replica that does not serve; nothing if its cluster never had an address."""
    announcing = (
        child.manifest
        for found in request.found(CLUSTER_KEY)
        for child in _build(request, decoded_cluster(found))
        if isinstance(child, Desired)
    )
    endpoint = next(announcing, request.observed.get(ENDPOINT_KEY))
    if endpoint is None:
        return ()
    return (Desired(ENDPOINT_KEY, mark_not_serving(endpoint), exists),)


def keep_endpoint(request: ReplicaRequest) -> tuple[Desired | Keep, ...]:
    """Return the existing endpoint, in the region that its cluster has by now."""
    endpoint = request.observed.get(ENDPOINT_KEY)
    if endpoint is None or is_placeholder(endpoint):
        return ()
    for found in request.found(CLUSTER_KEY):
        region = decoded_cluster(found).find_region()
        if endpoint.get("spec", {}).get("region", "") != region:
            return (Desired(ENDPOINT_KEY, set_region(endpoint, region), when_condition(READY)),)
    return (Keep(ENDPOINT_KEY),)


def build_or_keep(
    request: ReplicaRequest, cluster: InferenceCluster, *, serves: bool
) -> tuple[Desired | Keep, ...]:
    """Return the endpoint of a replica that serves; the existing one while an engine is unobserved."""
    if serves:
        return _build(request, cluster)
    workloads = {workload_key(request.owner, engine) for engine in request.owner.spec.engines}
    return keep_endpoint(request) if workloads & request.facts.unobserved else ()


def list_shared_labels(own: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the labels that an endpoint shares with its replica: those that services select by."""
    for key, value in own.items():
        of_users = not key.startswith((labels.PREFIX, labels.CROSSPLANE_PREFIX))
        if of_users or key in (labels.DEPLOYMENT, labels.CLUSTER, labels.REPLICA_INDEX):
            yield key, value


def build_annotations(replica: ModelReplica) -> dict[str, str]:
    """Return the annotations of an endpoint: the name of its model, and its share of a canary's requests."""
    # The gateway writes the name by which the first engine with such a flag knows its model into a request
    # that names the service, which no engine knows.
    containers = (
        engine_variables.with_served_name(replica, member.template.spec.engine)
        for engine in replica.spec.engines
        for member in engine.members
    )
    annotations = {}
    if named := next(filter(None, map(engine_command_lines.find_served_name, containers)), None):
        annotations[labels.SERVED_MODEL] = named
    # Written even if empty.
    if (share := replica.metadata.annotations.get(labels.CANARY_WEIGHT)) is not None:
        annotations[labels.CANARY_WEIGHT] = share
    return annotations


def mark_draining(endpoint: Object) -> Object:
    """Return an existing endpoint, marked as draining."""
    return _rebuild(endpoint, {labels.DRAINING: "true"}, endpoint["spec"])


def mark_not_serving(endpoint: Object) -> Object:
    """Return an existing endpoint, marked as one whose replica does not serve."""
    return _rebuild(endpoint, {labels.DRAINING: labels.NOT_SERVING}, endpoint["spec"])


def is_placeholder(endpoint: Object) -> bool:
    """Return True if the replica of an endpoint does not serve, so that services do not route to it."""
    return bool(get_map(endpoint, "metadata", "annotations").get(labels.DRAINING) == labels.NOT_SERVING)


def set_region(endpoint: Object, region: str) -> Object:
    """Return an existing endpoint in another region; an empty one removes it."""
    spec = {key: value for key, value in endpoint.get("spec", {}).items() if key != "region"}
    return _rebuild(endpoint, {}, {**spec, **({"region": region} if region else {})})


def _rebuild(endpoint: Object, annotations: Mapping[str, str], spec: Mapping[str, Any]) -> Object:
    metadata = endpoint["metadata"]
    known = metadata.get("annotations", {})
    kept = {key: known[key] for key in (labels.SERVED_MODEL, labels.CANARY_WEIGHT) if key in known}
    return {
        "apiVersion": API_VERSION,
        "kind": kind_name(ModelEndpoint),
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": dict(list_shared_labels(metadata.get("labels", {}))),
            "annotations": {**kept, **annotations},
        },
        "spec": spec,
    }

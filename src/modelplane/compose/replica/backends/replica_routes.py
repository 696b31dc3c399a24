"""Routes from the cluster's gateway to the pods that serve a replica's requests.

Each replica has a route at ``/<namespace>/<replica>/``. Its backend is a Service, which sends a request to
any pod, or an InferencePool, whose picker chooses the pod. A request needs the replica's token, which only
the fleet's gateway sends and no engine gets.
"""

from collections.abc import Iterator
from typing import Any

from modelplane.api.fields.pods.engines import ENGINE_PORT
from modelplane.api.meta import GATEWAY_NAME, SYSTEM_NAMESPACE, Object
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.composition import Desired, Keep
from modelplane.compose.gateway.fleet_gateway import ReplicaLink
from modelplane.compose.readiness import exists
from modelplane.compose.replica.backends.picker_workload import PORT, picker, picker_name, pool_name
from modelplane.compose.replica.backends.table import serving_labels
from modelplane.compose.replica.backends.workload import picks
from modelplane.gateway.tokens import HEADERS

ROUTE_KEY = "model-route"
"""Key of the HTTPRoute."""

POOL_KEY = "inference-pool"
"""Key of the InferencePool."""

_SERVICE_PORT = 80
_POOL_GROUP = "inference.networking.k8s.io"


def build_route_objects(replica: ModelReplica, link: ReplicaLink) -> Iterator[Desired | Keep]:
    """Yield the objects that route requests to a replica's pods."""
    cluster = replica.spec.cluster_name
    if picks(replica):
        yield from picker(replica)
        pool = {
            "apiVersion": f"{_POOL_GROUP}/v1",
            "kind": "InferencePool",
            "metadata": {"name": pool_name(replica), "namespace": replica.metadata.namespace},
            "spec": {
                "selector": {"matchLabels": dict(serving_labels(replica))},
                "targetPorts": [{"number": ENGINE_PORT}],
                "endpointPickerRef": {
                    "name": picker_name(replica),
                    "port": {"number": PORT},
                    # Better a request without its cached prefix than a failed one. The AI gateway 0.7 ignores
                    # it and answers 500, so a replica is ready only while a picker is.
                    "failureMode": "FailOpen",
                },
            },
        }
        yield Desired(POOL_KEY, pool, exists, cluster)
        backend: dict[str, Any] = {
            "group": _POOL_GROUP,
            "kind": "InferencePool",
            "name": pool_name(replica),
        }
    else:
        port = {"name": "http", "port": _SERVICE_PORT, "targetPort": ENGINE_PORT, "protocol": "TCP"}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": replica.metadata.name, "namespace": replica.metadata.namespace},
            "spec": {"selector": dict(serving_labels(replica)), "ports": [port]},
        }
        yield Desired("model-service", service, exists, cluster)
        backend = {"name": replica.metadata.name, "port": _SERVICE_PORT}
    yield (
        Keep(ROUTE_KEY)
        if link.is_unknown
        else Desired(ROUTE_KEY, _route(replica, backend, link), exists, cluster)
    )


def _route(replica: ModelReplica, backend: dict[str, Any], link: ReplicaLink) -> Object:
    metadata = replica.metadata
    match: dict[str, Any] = {
        "path": {"type": "PathPrefix", "value": f"/{metadata.namespace}/{metadata.name}/"}
    }
    if link.token is not None:
        match["headers"] = [{"type": "Exact", "name": link.token.header, "value": link.token.value}]
    removed = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": list(HEADERS)}}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "spec": {
            "parentRefs": [{"name": GATEWAY_NAME, "namespace": SYSTEM_NAMESPACE}],
            "rules": [
                {
                    "matches": [match],
                    "filters": [
                        *([] if link.is_of_one_machine else [removed]),
                        {
                            "type": "URLRewrite",
                            "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
                        },
                    ],
                    "backendRefs": [backend],
                    # A stream lasts as long as the model's response.
                    "timeouts": {"request": "0s"},
                }
            ],
        },
    }

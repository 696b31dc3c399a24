"""The AI gateway: when Envoy Gateway asks it, and how.

Envoy Gateway waits for the AI gateway's controller at every change of routes and endpoints once it has the
hooks. So it has them only while a replica of the cluster has an endpoint picker and the controller runs.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.fields.cluster.stack_components import ComponentName as Name
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.api.schema.untyped import get_map
from modelplane.compose.composition import Requirement
from modelplane.compose.readiness import is_ready
from modelplane.compose.replica.backends.workload import picks
from modelplane.compose.serving_stack.component import Plan, Values
from modelplane.compose.workload_kinds import INFERENCE_POOL

NAMESPACE: Final = "envoy-ai-gateway-system"

_REPLICAS: Final = "replicas"
"""Key of the requirement for the replicas of the cluster."""
_CONTROLLERS: Final = 2
"""Copies of the controller, because Envoy Gateway waits for it."""
_PORT: Final = 1063


def requirement(cluster: str) -> Requirement:
    """Return the requirement for the replicas of a cluster. It triggers only while none has a picker."""
    return Requirement(
        _REPLICAS, API_VERSION, kind_name(ModelReplica), labels={labels.CLUSTER: cluster}, triggers=False
    )


def values(_plan: Plan) -> Values:
    """Return the values of the AI gateway's chart."""
    return {"controller": {"replicaCount": _CONTROLLERS}}


def awaits_picker(plan: Plan) -> bool:
    """Return True if the first endpoint picker on the cluster would change Envoy Gateway."""
    can_have = Name.AI_GATEWAY in plan.chosen and _has_pools(plan)
    return can_have and not _is_used(plan.request.found(_REPLICAS))


def hooks(plan: Plan) -> dict[str, Any]:
    """Return the extension manager of Envoy Gateway's configuration; empty while no picker is used.

    It names InferencePool: without that definition, Envoy Gateway ends after two minutes.
    """
    is_used = Name.AI_GATEWAY in plan.chosen and _is_used(plan.request.found(_REPLICAS))
    if not is_used or not _has_pools(plan):
        return {}
    # The controller was installed. A release that fails later takes no hooks away.
    observed = plan.request.observed
    envoy_gateway = get_map(observed.get(str(Name.ENVOY_GATEWAY), {}), "spec", "forProvider")
    config = get_map(envoy_gateway, "values", "config", "envoyGateway")
    if "extensionManager" not in config and not is_ready(observed.get(str(Name.AI_GATEWAY), {})):
        return {}
    # Source: Envoy AI Gateway, "Envoy Gateway configuration", with the InferencePool add-on.
    pool, everything = INFERENCE_POOL, {"includeAll": True}
    return {
        "hooks": {
            "xdsTranslator": {
                "translation": {
                    kind: dict(everything) for kind in ("cluster", "listener", "route", "secret")
                },
                "post": ["Translation", "Cluster", "Route"],
            }
        },
        "service": {
            "fqdn": {"hostname": f"ai-gateway-controller.{NAMESPACE}.svc.cluster.local", "port": _PORT}
        },
        "backendResources": [{"group": pool.group, "kind": pool.kind, "version": pool.version}],
    }


def _has_pools(plan: Plan) -> bool:
    """Return True if the cluster has the definition of InferencePools, and it is not being deleted."""
    # A replica with a picker was placed on a cluster that has the definition, so an unread one is there.
    return bool(plan.request.unknown(INFERENCE_POOL.capability)) or any(
        "deletionTimestamp" not in item["metadata"] for item in plan.request.found(INFERENCE_POOL.capability)
    )


def _is_used(replicas: Iterable[Object]) -> bool:
    for replica in replicas:
        with suppress(InvalidObject):
            if picks(decode_as(ModelReplica, replica)):
                return True
    return False

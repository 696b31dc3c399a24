"""Standalone engines, which have one kind of pod, run as a Deployment."""

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.compose.replica.backends.backend import Backend, Claims, engine_key
from modelplane.compose.replica.backends.engine_pods import STARTUP_TIMEOUT_S, pod_template
from modelplane.compose.replica.backends.workload import Workload, is_gang
from modelplane.compose.workload_kinds import DEPLOYMENT


def _deployment(workload: Workload, claims: Claims) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": workload.metadata(),
        "spec": {
            "replicas": workload.engine.copies,
            "selector": {"matchLabels": {labels.WORKLOAD: workload.name}},
            "progressDeadlineSeconds": STARTUP_TIMEOUT_S,
            # A pool has no spare node for a surge, so an old pod stops before the new one starts.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": pod_template(workload, workload.head, claims[workload.head.role]),
        },
    }


STANDALONE = Backend(
    engine_key("model-serving-{}"), lambda engine: not is_gang(engine), _deployment, DEPLOYMENT
)

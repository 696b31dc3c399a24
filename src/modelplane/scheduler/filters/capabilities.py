"""Filter by the capabilities that a deployment's engines need on a cluster."""

from modelplane.api.rejected import Rejected
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.types import Cluster, Deployment


def check_capabilities(deployment: Deployment, cluster: Cluster) -> Rejected | None:
    """Refuse a cluster that lacks an API which the deployment's pods or routes are made of."""
    offered = cluster.capabilities
    if not offered.dra and any(member.requests for engine in deployment.engines for member in engine.members):
        return _missing("Dynamic Resource Allocation", "required for device requests")
    if not offered.leader_worker_set and any(engine.gang for engine in deployment.engines):
        return _missing("LeaderWorkerSet", "required for an engine with a Leader")
    if not offered.inference_pool and deployment.picks:
        return _missing("InferencePool", "required for routing by endpoint picker")
    if offered.needs_llm_inference_service and not offered.llm_inference_service:
        return _missing("LLMInferenceService (KServe)", "required for backend KServe")
    return None


def _missing(what: str, why: str) -> Rejected:
    return Rejected(Reason.MISSING_CAPABILITY, what, why, remedy=f"install {what} on the cluster")

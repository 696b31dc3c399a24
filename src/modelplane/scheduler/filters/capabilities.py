"""What a cluster must have installed for the deployment's engines."""

from modelplane.api.engines import ServingMode
from modelplane.scheduler.cluster import Cluster
from modelplane.scheduler.deployment import Deployment
from modelplane.scheduler.verdict import FIT, Reason, Rejected, Verdict


def capabilities(deployment: Deployment, cluster: Cluster) -> Verdict:
    """Refuse a cluster that lacks an API which the deployment's pods or routes are made of."""
    found = cluster.capabilities
    if not found.dra and any(member.requests for engine in deployment.engines for member in engine.members):
        return Rejected(Reason.MISSING_CAPABILITY, "Dynamic Resource Allocation", "device requests need it")
    if not found.leader_worker_set and any(engine.gang for engine in deployment.engines):
        return Rejected(Reason.MISSING_CAPABILITY, "LeaderWorkerSet", "an engine with a Leader needs it")
    if not found.inference_pool and deployment.mode is ServingMode.PREFILL_DECODE:
        return Rejected(Reason.MISSING_CAPABILITY, "InferencePool", "serving mode PrefillDecode needs it")
    return FIT

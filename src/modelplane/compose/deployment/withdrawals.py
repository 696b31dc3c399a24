"""Time at which a deployment is composed again, to withdraw a replica before its node is taken back."""

from datetime import datetime

from modelplane.api.meta import kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.deployment import fleet_snapshot
from modelplane.compose.deployment.deployment_facts import DeploymentRequest

_AFTER_S = 0.1
"""Times are compared, and the deadline itself is not before itself."""


def soonest(request: DeploymentRequest, others: float | None) -> float | None:
    """Return the seconds until the next replica is to be withdrawn, or until the others if that is sooner."""
    before = fleet_snapshot.evicted_before(request.now)
    replicas = (item for item in request.observed.values() if item["kind"] == kind_name(ModelReplica))
    times = [
        at for replica in replicas if (at := fleet_snapshot.replica(replica).evicted_at) and at >= before
    ]
    if request.now is None or not times:
        return others
    left = datetime.fromisoformat(min(times)) - fleet_snapshot.WITHDRAWN_WITHIN - request.now
    own = max(left.total_seconds(), 0.0) + _AFTER_S
    return own if others is None else min(own, others)

"""Plan of a drain: the placement of every deployment that it concerns.

A drain is shown with the largest limits, whatever ``spec.drain`` lets move at a time: up to 1,000 replicas.
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.fields.cluster.drain_settings import MOST_MOVING, TaintEffect
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Object
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.deployment import scheduler_input
from modelplane.offline.files.identities import replace_version
from modelplane.offline.plan.fleet_of_files import assemble, take_snapshot
from modelplane.offline.plan.placements import Plan, plan
from modelplane.user_error import UserError

_LIMITS: Final = {"maxMoving": MOST_MOVING, "maxMovingInFleet": MOST_MOVING}


def drain_plan(objects: Iterable[Object], name: str, pool: str) -> Plan:
    """Return the plan of a drain of a cluster, or of a pool of it. Raises ``UserError``."""
    files = assemble(objects, live=True)
    clusters = [item for item in files.store.list_kind(InferenceCluster) if item["metadata"]["name"] == name]
    if not clusters:
        raise UserError(f'InferenceCluster "{name}" does not exist')
    # A cluster as it is while it, or a pool of it, drains with the largest limits.
    cluster = clusters[0]
    spec: dict[str, Any] = {**cluster["spec"], "drain": _LIMITS}
    if pool:
        spec["poolTaints"] = [*spec.get("poolTaints", ()), {"pool": pool, "key": labels.DRAIN}]
    else:
        taint = {"key": labels.DRAIN, "effect": str(TaintEffect.NO_SCHEDULE)}
        spec["taints"] = [*spec.get("taints", ()), taint]
    tainted = replace_version({**cluster, "spec": spec})
    store = files.store.copy()
    store.add(tainted)
    files = replace(files, store=store)
    try:
        draining = scheduler_input.read_decoded_cluster(decode_as(InferenceCluster, tainted))
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error
    concerned = frozenset(
        replica.deployment_uid
        for replica in take_snapshot(files).replicas
        if replica.cluster == draining.name and scheduler.describe_drain(draining, replica)
    )
    return plan(
        files, [deployment for deployment in files.deployments if deployment["metadata"]["uid"] in concerned]
    )

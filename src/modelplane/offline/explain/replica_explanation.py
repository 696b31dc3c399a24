"""Explanation of a ModelReplica: its placement, and its readiness.

The placement is the scheduler's own result for the replica's deployment. The readiness is that of its status,
which only its cluster can determine.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Object
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.deployment import scheduler_input
from modelplane.compose.replica import replica_endpoint
from modelplane.offline.explain.service_explanation import list_endpoints
from modelplane.offline.explain.statuses import Said, explain_not_ready, read_conditions
from modelplane.offline.files.diagnostics import ObjectName
from modelplane.offline.files.report_documents import Output, Report
from modelplane.offline.plan import placements
from modelplane.offline.plan.fleet_of_files import Files, is_assumed_silent
from modelplane.offline.plan.placements import Replica
from modelplane.offline.plan.pool_reports import find_lost_claims
from modelplane.user_error import UserError


class Routing(Output, frozen=True, kw_only=True):
    """A ModelService that selects the replica's endpoint."""

    service: str
    percent: float
    """Share of the service's requests that the replica receives."""
    reason: str
    """Reason why the replica receives requests, or why not."""


class ReplicaExplanation(Report, frozen=True, kw_only=True):
    """The document of ``modelplane explain mr/NAME -o json``."""

    kind: Literal["ReplicaExplanation"] = "ReplicaExplanation"
    replica: ObjectName
    cluster: str
    deployment: str
    """The ModelDeployment that owns it; empty if it is unknown."""
    ready: bool
    reason: str
    """Reason why it is not ready; empty if it is."""
    conditions: tuple[Said, ...]
    placement: Replica | None
    """The scheduler's decision; null if its ModelDeployment is unknown."""
    endpoint: str
    """URL of its ModelEndpoint; empty if it has none."""
    services: tuple[Routing, ...]
    notes: tuple[str, ...]


def explain_replica(files: Files, replica: Object) -> ReplicaExplanation:
    """Explain why a replica is on its cluster, and why it is ready or not. Raises ``UserError``."""
    try:
        decoded = decode_as(ModelReplica, replica)
        services = tuple(_services(files, decoded))
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error
    metadata, cluster = decoded.metadata, decoded.spec.cluster_name
    uids = {
        owner["uid"] for owner in replica["metadata"].get("ownerReferences", ()) if owner.get("controller")
    }
    owner = next((item for item in files.deployments if item["metadata"]["uid"] in uids), None)
    endpoint = next(
        (
            item
            for item in files.store.list_kind(ModelEndpoint)
            if not replica_endpoint.is_placeholder(item)
            and (item["metadata"].get("namespace", ""), item["metadata"]["name"])
            == (metadata.namespace, metadata.name)
        ),
        None,
    )
    reason = explain_not_ready(replica)
    lost = find_lost_claims(files, cluster, scheduler_input.read_replica(replica).engines)
    placed = placements.explain_replicas(files, owner) if owner else ()
    return ReplicaExplanation(
        replica=ObjectName.of(replica),
        cluster=cluster,
        deployment=owner["metadata"]["name"] if owner else "",
        ready=not reason,
        reason=reason or "",
        conditions=() if is_assumed_silent(replica) else read_conditions(replica),
        placement=next((report for report in placed if report.name == metadata.name), None),
        endpoint=str(endpoint["spec"]["url"]) if endpoint else "",
        services=services,
        notes=tuple(_notes(files, decoded, owner, lost, ready=not reason)),
    )


def _services(files: Files, replica: ModelReplica) -> Iterator[Routing]:
    """Yield the services that select the replica's endpoint."""
    for item in files.store.list_kind(ModelService):
        if item["metadata"].get("namespace", "") != replica.metadata.namespace:
            continue
        for endpoint in list_endpoints(files, decode_as(ModelService, item)):
            if endpoint.name == replica.metadata.name and endpoint.entry is not None:
                service = item["metadata"]["name"]
                yield Routing(service=service, percent=endpoint.percent, reason=endpoint.reason)


def _notes(
    files: Files, replica: ModelReplica, owner: Object | None, lost: Iterable[str], *, ready: bool
) -> Iterator[str]:
    """Yield further facts about a replica's placement and readiness."""
    name, namespace = replica.metadata.name, replica.metadata.namespace
    if owner is None:
        yield (
            "the ModelDeployment does not exist, so the reason for the placement is unknown"
            if files.live
            else "no file contains the ModelDeployment, so the reason for the placement is unknown"
        )
    yield from _cluster_notes(files, replica.spec.cluster_name)
    yield from lost
    if replica.spec.draining:
        yield "the endpoint is being withdrawn, because the replica is about to be deleted"
    if files.live and not ready:
        yield f"for the engines' logs, run `modelplane logs mr/{name} -n {namespace}`"


def _cluster_notes(files: Files, name: str) -> Iterator[str]:
    named = f'InferenceCluster "{name}"'
    cluster = next(
        (item for item in files.store.list_kind(InferenceCluster) if item["metadata"]["name"] == name), None
    )
    if cluster is None:
        yield f"{named} does not exist" if files.live else f"no file contains {named}"
        return
    if cluster["metadata"].get("deletionTimestamp"):
        yield f"{named} is being deleted"
    if name not in files.assumed and (why := explain_not_ready(cluster)):
        yield f"{named} is not ready: {why}"

"""Failover of a deployment's replicas, and the condition of clusters and deployments about it.

The caller watches the clusters and says which are lost (`deciders/cluster_health.py`). The state of every
other cluster is in its condition Reachable, which only keeps replicas away or as they are. A deployment
without `spec.failover` is not concerned.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from modelplane import scheduler
from modelplane.api.conditions.reasons import (
    InferenceClusterCondition,
    InferenceClusterReason,
    ModelDeploymentCondition as Type,
    ModelDeploymentReason as Reason,
)
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.cluster.cluster_facts import ClusterRequest
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.readiness import condition_of
from modelplane.deciders.cluster_health import ClusterState, Watched

_DOUBTED = (InferenceClusterReason.SUSPECT, InferenceClusterReason.ISOLATED, InferenceClusterReason.LOST)


def apply_failover(
    request: DeploymentRequest, clusters: tuple[scheduler.Cluster, ...], deployment: scheduler.Deployment
) -> tuple[tuple[scheduler.Cluster, ...], scheduler.Deployment]:
    """Return the clusters and the deployment as failover has them; unchanged where nothing is watched."""
    watched = request.facts.watched
    if request.owner.spec.failover is None or watched is None:
        return clusters, deployment
    said = {
        item["metadata"]["name"]: condition_of(item, InferenceClusterCondition.REACHABLE)
        for item in request.found("clusters")
    }
    as_seen = tuple(
        mark_doubt(cluster, said.get(cluster.name, {}), watched.lost.get(cluster.name))
        for cluster in clusters
    )
    return as_seen, replace(deployment, failover=True)


def mark_doubt(
    cluster: scheduler.Cluster, condition: Mapping[str, Any], lost: str | None
) -> scheduler.Cluster:
    """Return a cluster as its condition Reachable shows it, and why it is lost, if it is."""
    reason = condition.get("reason", InferenceClusterReason.REACHABLE)
    if lost is None and reason == InferenceClusterReason.REACHABLE:
        return cluster
    message = lost or str(condition.get("message", ""))
    return replace(
        cluster,
        ready=False,
        not_ready=cluster.not_ready or message,
        lost="" if lost is None else f'InferenceCluster "{cluster.name}" is lost: {lost}',
        doubt=message if reason in _DOUBTED else "",
        returning=reason == InferenceClusterReason.RETURNING,
    )


def build_cluster_conditions(request: ClusterRequest) -> tuple[Condition, ...]:
    """Return the condition Reachable of a cluster; none if clusters are not watched."""
    watched = request.facts.watched
    standing = watched.standing if watched else None
    if watched is None or standing is None or standing.state is ClusterState.GONE:
        return ()
    reason = standing.state
    if standing.state is ClusterState.REACHABLE:
        return (true(InferenceClusterCondition.REACHABLE, reason, "no sign of a failure"),)
    message = standing.cause
    if standing.state is ClusterState.ISOLATED:
        message = f"{message}; its replicas still respond, and are kept"
    if standing.state is ClusterState.LOST and watched.paused:
        message = f"{message}. Failover is paused: {watched.paused}"
    return (false(InferenceClusterCondition.REACHABLE, reason, message),)


def build_conditions(request: DeploymentRequest) -> tuple[Condition, ...]:
    """Return the condition Failover of a deployment; none if it never asked for failover."""
    settings, watched = request.owner.spec.failover, request.facts.watched
    if settings is None:
        # Crossplane keeps conditions that are gone.
        was_asked = any(condition.type == Type.FAILOVER for condition in request.owner.status.conditions)
        off = true(Type.FAILOVER, Reason.FAILOVER_OFF, "spec.failover is not set")
        return (off,) if was_asked and watched is None else ()
    if watched is None:
        message = (
            "nothing watches clusters under Crossplane, so replicas on a lost cluster are not replaced: "
            "remove spec.failover, or let Modelplane's controllers reconcile"
        )
        return (false(Type.FAILOVER, Reason.NOT_SUPPORTED, message),)
    if watched.paused:
        message = f"clusters are lost, but replicas are not replaced: {watched.paused}"
        return (false(Type.FAILOVER, Reason.FAILOVER_PAUSED, message),)
    if watched.lost:
        causes = "; ".join(f'"{name}": {cause}' for name, cause in sorted(watched.lost.items()))
        message = f"lost for {settings.after}, so replicas are being replaced: {causes}"
        return (true(Type.FAILOVER, Reason.REPLACING, message),)
    message = f"replicas are replaced if a cluster is lost for {settings.after}"
    return (true(Type.FAILOVER, Reason.WATCHING, message),)


def build_status(request: DeploymentRequest) -> dict[str, Any]:
    """Return failover in progress, as part of a deployment's status."""
    watched = request.facts.watched
    if request.owner.spec.failover is None or watched is None or not (watched.lost or watched.paused):
        return {}
    lost = [{"name": name, "cause": cause} for name, cause in sorted(watched.lost.items())]
    paused = {"paused": watched.paused} if watched.paused else {}
    return {"failover": {"lostClusters": lost, **paused}}


def read_reported(owner: ModelDeployment) -> Watched:
    """Return what a deployment's status says of failover, for a caller that watches nothing itself."""
    known = owner.status.failover
    if known is None:
        return Watched()
    return Watched(
        lost={cluster.name: cluster.cause for cluster in known.lost_clusters}, paused=known.paused or ""
    )

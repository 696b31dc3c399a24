"""Fleets as far as several tests need them."""

from support.crossplane.fleet import Fleet
from support.crossplane.manifests import (
    DEPLOYMENT,
    TEAM,
    inference_class,
    inference_cluster,
    inference_gateway,
    model_deployment,
    namespace,
)
from support.crossplane.objects import Object


def prepared(fleet: Fleet) -> Fleet:
    """Return a fleet with a gateway, a class of nodes and a team's namespace, but no cluster yet."""
    fleet.gateway()
    fleet.apply(namespace(TEAM), inference_class(), inference_gateway())
    return fleet


def with_clusters(fleet: Fleet, *names: str, nodes: int = 2) -> Fleet:
    """Return a fleet with clusters that are ready, each with room for so many replicas."""
    for name in names:
        fleet.cluster(name)
        fleet.apply(inference_cluster(name, nodes=nodes, storage="shared"))
    fleet.run_until_ready("InferenceCluster", *names)
    fleet.run_for(2)
    return fleet


def serving(fleet: Fleet, replicas: int = 1) -> Fleet:
    """Return a fleet with a deployment that is ready, and has been for a while."""
    fleet.apply(model_deployment(replicas=replicas))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT)
    fleet.run_for(3)
    return fleet


def far(fleet: Fleet, kind: str, cluster: str = "a") -> list[Object]:
    """Return what a cluster has of a kind in the team's namespace."""
    return [
        item for item in fleet.clusters[cluster].objects(kind) if item["metadata"].get("namespace") == TEAM
    ]

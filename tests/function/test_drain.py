"""A drain under Crossplane: the function decides as the controllers do."""

from modelplane.api import labels
from support.crossplane.fleet import Fleet
from support.crossplane.manifests import DEPLOYMENT, model_deployment
from support.crossplane.objects import Object, condition
from support.crossplane.scenarios import with_clusters

TAINT = {"key": labels.DRAIN, "effect": "NoSchedule"}


def replicas(fleet: Fleet) -> list[str]:
    """Return the clusters of the replicas that get requests."""
    found: list[Object] = list(fleet.children("ModelDeployment", DEPLOYMENT).values())
    serving = (each for each in found if not each["spec"].get("draining"))
    return sorted(each["spec"]["clusterName"] for each in serving)


def test_a_cluster_is_drained_and_says_so_and_an_uncordon_moves_nothing_back(fleet: Fleet) -> None:
    with_clusters(fleet, "a", "b")
    fleet.apply(model_deployment(replicas=1))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=120)
    [before] = replicas(fleet)
    other = "b" if before == "a" else "a"
    fleet.edit("InferenceCluster", before, taints=[TAINT])
    served: list[list[str]] = []

    def is_drained() -> bool:
        served.append(replicas(fleet))
        return fleet.is_true("InferenceCluster", before, "Drained")

    fleet.run_until(is_drained, within=900)
    assert replicas(fleet) == [other]
    assert all(served), "the deployment has a replica that gets requests at all times"
    assert fleet.get("InferenceCluster", before)["status"]["drain"] == {"left": 0, "moving": 0, "blocked": 0}
    fleet.edit("InferenceCluster", before, taints=[])
    fleet.run_for(600)
    assert replicas(fleet) == [other]
    after = fleet.get("InferenceCluster", before)
    assert condition(after, "Drained")["reason"] == "NotRequested"
    assert "drain" not in after["status"]

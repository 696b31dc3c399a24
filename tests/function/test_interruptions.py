"""A life goes on where it was, whatever is interrupted and in whatever order things are seen."""

import pytest

from support.crossplane.fleet import Fleet
from support.crossplane.function_process import FunctionProcess
from support.crossplane.in_process import by_its_own_clock
from support.crossplane.manifests import (
    DEPLOYMENT,
    SERVICE,
    TEAM,
    image,
    inference_cluster,
    model_deployment,
    model_service,
)
from support.crossplane.objects import Key, is_deleted
from support.crossplane.scenarios import far, prepared, serving, with_clusters


def test_a_new_process_goes_on_where_the_last_one_was_killed(fleet: Fleet, function: FunctionProcess) -> None:
    with_clusters(fleet, "a", "b")
    fleet.apply(model_service(), model_deployment(replicas=3))
    for _ in range(60):
        fleet.simulation.step(until=fleet.clock.now + 60)
    function.restart()
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=90)
    fleet.run_for(65)
    function.restart()
    before = fleet.versions()
    fleet.look_again()
    assert fleet.versions() == before
    assert len(fleet.named("ModelReplica")) == 3


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_seen_late_and_out_of_order_comes_to_the_same(function: FunctionProcess, seed: int) -> None:
    fleet = Fleet(function.run)
    fleet.simulation.shuffle(seed, longest=4)
    prepared(fleet)
    for name in "ab":
        fleet.cluster(name)
        fleet.apply(inference_cluster(name, nodes=2))
    fleet.run_until_ready("InferenceCluster", "a", "b", within=300)
    fleet.apply(model_service(), model_deployment(replicas=3))
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=300)
    fleet.edit(
        "ModelDeployment", DEPLOYMENT, engines=image(fleet.get("ModelDeployment", DEPLOYMENT), "vllm:new")
    )
    fleet.run_until(lambda: images(fleet) == ["vllm:new"] * 3, within=300)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=300)
    assert fleet.deletions("ModelReplica") == []
    since = len(fleet.history)
    fleet.edit("ModelDeployment", DEPLOYMENT, replicas=1)
    fleet.run_until(lambda: len(images(fleet)) == 1, within=300)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, "ml-team/qwen", within=300)
    fleet.run_until_ready("ModelService", SERVICE, within=300)
    assert (len(fleet.named("ModelReplica")), len(fleet.named("ModelEndpoint"))) == (1, 1)
    assert withdrawn_before_deleted(fleet, since)


def test_two_deployments_that_do_not_see_each_other_settle(function: FunctionProcess) -> None:
    fleet = prepared(Fleet(function.run))
    with_clusters(fleet, "a", nodes=2)
    fleet.simulation.shuffle(7, longest=4)
    fleet.apply(model_deployment(replicas=2), model_deployment(replicas=2, name=f"{TEAM}/second"))
    fleet.run_for(60)
    assert len(fleet.named("ModelReplica")) == 2
    ready = [fleet.is_true("ModelDeployment", name) for name in fleet.named("ModelDeployment")]
    assert sum(ready) <= 1


def test_a_cluster_that_goes_away_and_comes_back_is_left_alone() -> None:
    fleet = prepared(by_its_own_clock())  # what has been away for hours is seldom asked about
    fleet.provider.poll_s = 60.0
    serving(with_clusters(fleet, "a", "b"), replicas=3)
    before, replicas = far(fleet, "Deployment"), fleet.named("ModelReplica")
    fleet.clusters["a"].reachable = False
    fleet.run_for(100)
    assert not fleet.is_true("InferenceCluster", "a")
    assert (far(fleet, "Deployment"), fleet.named("ModelReplica")) == (before, replicas)
    fleet.clusters["a"].reachable = True
    fleet.run_until_ready("InferenceCluster", "a", within=120)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=120)
    assert (far(fleet, "Deployment"), fleet.named("ModelReplica")) == (before, replicas)


def images(fleet: Fleet) -> list[str]:
    """Return the image of every workload on every cluster."""
    return [
        item["spec"]["template"]["spec"]["containers"][0]["image"]
        for cluster in fleet.clusters
        for item in far(fleet, "Deployment", cluster)
    ]


def withdrawn_before_deleted(fleet: Fleet, since: int) -> bool:
    """Whether every replica that was deleted had no endpoint any more."""
    endpoints: set[Key] = set()
    for event in fleet.history[:since]:
        if event.key.kind == "ModelEndpoint":
            endpoints.add(event.key)
    for event in fleet.history[since:]:
        if event.key.kind == "ModelEndpoint" and is_deleted(event.new.object):
            endpoints.discard(event.key)
        if event.key.kind == "ModelReplica" and is_deleted(event.new.object):
            withdrawn = event.key._replace(kind="ModelEndpoint") not in endpoints
            if not withdrawn:
                return False
    return True

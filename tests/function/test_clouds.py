"""Clusters of clouds under Crossplane, by the function over gRPC: from nothing to a served model to nothing.

The providers are simulated, and so is the cluster that a cloud makes. The tests of a cloud are steps of one
story: each goes on where the one before it has ended.
"""

import random
from collections.abc import Callable

import pytest

from modelplane.api.clouds.cloud_rows import Cloud, get_cache_storage
from support.cloud_clusters import class_name
from support.crossplane.cloud_site import LONG_S, Site
from support.crossplane.function_process import FunctionProcess
from support.crossplane.manifests import DEPLOYMENT, SERVICE
from support.crossplane.objects import condition, is_deleted
from support.crossplane.scenarios import far


@pytest.fixture(scope="module", params=list(Cloud))
def site(request: pytest.FixtureRequest, function: FunctionProcess) -> Site:
    """A cluster of each cloud, from nothing to nothing."""
    return Site(function.run, request.param)


def test_a_cluster_is_made_and_serves_a_model(site: Site) -> None:
    site.serve()
    assert site.providers.failed, "the cloud has refused some at first"
    assert len(far(site.fleet, "Deployment", site.name)) == 1
    classes = [item["metadata"]["name"] for item in site.cluster.objects("StorageClass")]
    assert classes == [name for name in [get_cache_storage(site.cloud)] if name]


def _lose_the_cloud(site: Site) -> Callable[[], None]:
    site.providers.is_down = True
    for item in site.providers.resources():
        lost = {**item, "status": {**item["status"], "conditions": []}}
        site.fleet.api.update_status(lost, "provider")
    return lambda: setattr(site.providers, "is_down", False)


def _lose_the_control_plane(site: Site) -> Callable[[], None]:
    site.cluster.reachable = False
    return lambda: setattr(site.cluster, "reachable", True)


def _lose_the_class(site: Site) -> Callable[[], None]:
    site.has_lost_the_class = True
    return lambda: setattr(site, "has_lost_the_class", False)


def _name_another_class(site: Site) -> Callable[[], None]:
    site.edit_pool(className="l5")
    return lambda: site.edit_pool(className=class_name(site.cloud))


def _name_what_the_cloud_lacks(site: Site) -> Callable[[], None]:
    if site.cloud is Cloud.EKS:
        site.edit_pool(zones=["eu-west-1a"])
        return lambda: site.edit_pool(zones=["us-east-2a"])
    site.edit_pool(capacityBlock={"capacityReservationId": "cr-0a1b"})
    return lambda: site.edit_pool(capacityBlock=None)


TROUBLES: tuple[Callable[[Site], Callable[[], None]], ...] = (
    _lose_the_cloud,
    _lose_the_control_plane,
    _lose_the_class,
    _name_another_class,
    _name_what_the_cloud_lacks,
)
"""Each returns what ends it."""


def test_whatever_goes_wrong_nothing_that_holds_data_or_runs_models_is_deleted(site: Site) -> None:
    fleet = site.fleet
    fleet.run_for(120)
    before = site.precious()
    assert any(name.startswith("ModelReplica") for name in before)
    assert any(name.startswith("there/") for name in before)
    order = list(TROUBLES)
    random.Random(str(site.cloud)).shuffle(order)  # noqa: S311 - the same order each time
    for trouble in order:
        end = trouble(site)
        fleet.look_again()
        fleet.run_for(200)
        assert before.items() <= site.precious().items(), trouble.__name__
        said = condition(fleet.get("InferenceCluster", site.name), "ClusterReady")
        assert said["status"] != "True", trouble.__name__
        end()
        fleet.look_again()
        fleet.run_until_ready("InferenceCluster", site.name, within=LONG_S)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=LONG_S)
    assert before.items() <= site.precious().items()
    assert fleet.deletions("ModelReplica") == []


def test_a_cluster_goes_in_the_foreground_with_all_that_was_made_for_it(site: Site) -> None:
    fleet = site.fleet
    for kind, name in (("ModelService", SERVICE), ("ModelDeployment", DEPLOYMENT)):
        fleet.delete(kind, name)
    fleet.run_until(lambda: not fleet.named("ModelReplica"), within=LONG_S)
    fleet.run_for(300)  # until its Usage is gone
    fleet.delete("InferenceCluster", site.name, "Foreground")
    # Charts take minutes to be uninstalled; meanwhile the deletion of the cloud's cluster is refused.
    _lose_the_control_plane(site)
    fleet.run_for(100)
    assert (len(fleet.named("ServingStack")), _is_being_deleted(site)) == (1, False)
    site.cluster.reachable = True
    fleet.run_until(lambda: not fleet.named("ServingStack"), within=LONG_S)
    fleet.run_until(lambda: _is_being_deleted(site), within=60)
    fleet.run_until(lambda: not fleet.exists("InferenceCluster", site.name), within=LONG_S)
    assert site.providers.resources() == []
    assert site.precious() == {}
    ours = ("Gateway", "GatewayClass", "StorageClass")
    assert [item["kind"] for kind in ours for item in site.cluster.objects(kind)] == []


def _is_being_deleted(site: Site) -> bool:
    """Return whether the cluster of the cloud is on its way out, or gone."""
    kind = f"{site.cloud}Cluster"
    return all(is_deleted(site.fleet.get(kind, name)) for name in site.fleet.named(kind))

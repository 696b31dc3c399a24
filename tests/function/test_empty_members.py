"""From a cluster as a cloud hands it over, without a namespace or a kind of anybody, to a served model."""

import pytest

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.fields.cluster.stack_components import ServingProfile
from modelplane.api.meta import SYSTEM_NAMESPACE
from support.crossplane.api import Change
from support.crossplane.cloud_providers import ProviderHelm
from support.crossplane.cloud_site import LONG_S, Site
from support.crossplane.fleet import Fleet
from support.crossplane.function_process import FunctionProcess
from support.crossplane.manifests import DEPLOYMENT, inference_cluster, model_deployment
from support.crossplane.remote import RemoteCluster
from support.crossplane.scenarios import far

STACKS = [str(ServingProfile.STANDARD), str(ServingProfile.MINIMAL)]


@pytest.mark.parametrize("profile", STACKS)
@pytest.mark.parametrize("cloud", list(Cloud))
def test_a_cluster_of_a_cloud_gets_its_stack(function: FunctionProcess, cloud: Cloud, profile: str) -> None:
    site = Site(function.run, cloud, profile=profile)
    assert site.cluster.objects("CustomResourceDefinition") == []
    site.serve()
    assert has_a_gateway(site.cluster)


@pytest.mark.parametrize("profile", STACKS)
def test_a_registered_cluster_gets_its_stack(fleet: Fleet, profile: str) -> None:
    cluster = fleet.cluster("a", is_empty=True)
    fleet.simulation.add(fleet.api, ProviderHelm(fleet.api, lambda _release: cluster))
    registered = inference_cluster("a", storage="shared")
    registered["spec"]["servingStack"] = {"profile": profile}
    fleet.apply(registered, model_deployment())
    fleet.run_until_ready("InferenceCluster", "a", within=LONG_S)
    fleet.run_until_ready("ModelDeployment", DEPLOYMENT, within=LONG_S)
    assert (has_a_gateway(cluster), len(far(fleet, "Deployment"))) == (True, 1)


def test_the_first_look_at_a_kind_that_is_not_served_is_no_outage(fleet: Fleet) -> None:
    fleet.cluster("a", is_empty=True)
    fleet.apply(inference_cluster("a"))
    fleet.run_until(lambda: fleet.is_true("InferenceCluster", "a", "ClusterReady"), within=5)
    assert not any(
        "unable to retrieve" in each.get("message", "")
        for event in fleet.history
        if event.key == fleet.key("InferenceCluster", "a") and event.change is Change.MODIFIED
        for each in event.new.object.get("status", {}).get("conditions", ())
    )


def has_a_gateway(cluster: RemoteCluster) -> bool:
    """Return whether the gateway is in its namespace, which nobody else has made."""
    namespaces = [each["metadata"]["name"] for each in cluster.objects("Namespace")]
    return SYSTEM_NAMESPACE in namespaces and len(cluster.objects("Gateway")) == 1

import pytest

from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.resources import Resource


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        pytest.param(resources.PODS, (), "/api/v1/pods", id="a core kind in all namespaces"),
        pytest.param(resources.PODS, ("a",), "/api/v1/namespaces/a/pods", id="in one namespace"),
        pytest.param(
            resources.DEPLOYMENTS,
            ("a", "b", "status"),
            "/apis/apps/v1/namespaces/a/deployments/b/status",
            id="a subresource of one object",
        ),
        pytest.param(
            fleet_resources.INFERENCE_CLUSTERS,
            (None, "b"),
            "/apis/modelplane.ai/v1alpha1/inferenceclusters/b",
            id="a cluster-scoped object",
        ),
        pytest.param(
            Resource("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"),
            ("a",),
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/a/leaderworkersets",
            id="a kind that not every cluster has",
        ),
    ],
)
def test_paths_are_those_of_the_api_server(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.build_path(*arguments) == path


@pytest.mark.parametrize(
    ("resource", "arguments", "problem"),
    [
        pytest.param(resources.NODES, ("a", "b"), "cluster-scoped", id="a namespace too much"),
        pytest.param(resources.PODS, (None, "b"), "needs a namespace", id="a namespace missing"),
    ],
)
def test_a_path_that_cannot_exist_is_refused(
    resource: Resource, arguments: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        resource.build_path(*arguments)

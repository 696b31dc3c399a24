import pytest

from modelplane.kube.http_messages import ObjectList
from modelplane.operations.pods_of_object import find_pods


def replica(name, cluster, **labels):
    member = {
        "role": "Standalone",
        "nodePoolName": "pool",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.example.org", "count": 1}],
        "template": {"spec": {"containers": [{"name": "engine", "image": "vllm"}]}},
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": "ml", "labels": labels},
        "spec": {"clusterName": cluster, "engines": [{"name": "main", "members": [member]}]},
    }


WEST = replica("qwen-1", "west", **{"modelplane.ai/deployment": "qwen"})
EAST = replica("qwen-2", "east", **{"modelplane.ai/deployment": "qwen"})


class ControlPlane:
    """Has some replicas."""

    def __init__(self, *replicas):
        self.replicas = replicas

    async def list(self, _resource, _namespace, *, labels=""):
        key, _, value = labels.partition("=")
        found = (each for each in self.replicas if not labels or each["metadata"]["labels"].get(key) == value)
        return ObjectList(tuple(found), "1")


def named(kind, spec, status=None):
    metadata = {"name": "qwen", "namespace": "ml"}
    about = {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    return about | ({"status": status} if status else {})


def service(**labels):
    return named("ModelService", {"endpoints": [{"selector": {"matchLabels": labels}}]})


CACHE = {"source": "HuggingFace", "huggingFace": {"repo": "Qwen/Qwen3", "sizeGiB": 8}}
STAGED = {"clusters": [{"name": "west"}]}
SELECTED = {"modelplane.ai/deployment": "qwen"}
OUTSIDE = {"modelplane.ai/external-provider": "one"}


@pytest.mark.parametrize(
    ("item", "clusters", "nothing"),
    [
        pytest.param(named("ModelDeployment", {}), ["west", "east"], "", id="a deployment is its replicas"),
        pytest.param(WEST, ["west"], "", id="a replica is its engines"),
        pytest.param(
            service(**SELECTED),
            ["west", "east"],
            "",
            id="a service is what it selects",
        ),
        pytest.param(
            service(**OUTSIDE),
            [],
            "the service selects no replica in this fleet, and logs of external endpoints are only "
            "available from the provider",
            id="a service of what is outside",
        ),
        pytest.param(
            named("ModelCache", CACHE, STAGED),
            ["west"],
            "",
            id="a cache is its Jobs",
        ),
        pytest.param(
            named("ModelCache", CACHE),
            [],
            "the ModelCache is not staged on any cluster",
            id="a cache nowhere",
        ),
    ],
)
async def test_an_object_stands_for_pods_on_clusters(item, clusters, nothing):
    found = await find_pods(ControlPlane(WEST, EAST), item)
    assert ([each.cluster for each in found.pods], found.nothing) == (clusters, nothing)


async def test_a_deployment_without_replicas_is_to_be_explained():
    found = await find_pods(ControlPlane(), named("ModelDeployment", {}))
    assert found.nothing == "there are no replicas: to see why, run `modelplane explain md/qwen -n ml`"

from typing import Any

import pytest

from modelplane.api.clouds.serving_stack import ServingStack, name_stack
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Model, kind_name
from modelplane.api.model_cache import ModelCache
from modelplane.api.schema.decode import decode_as
from modelplane.compose import guards
from modelplane.compose.cache import model_cache
from modelplane.compose.cluster import inference_class
from modelplane.compose.composition import Composition, Guard, Request, Requirement
from modelplane.compose.guards import Dependency
from modelplane.compose.kinds import COMPOSERS

API = "modelplane.ai/v1alpha1"
INFRASTRUCTURE = "infrastructure.modelplane.ai/v1alpha1"


def _object(kind: str, name: str, namespace: str = "", **content: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, **content}


CLUSTER = _object(
    "InferenceCluster",
    "east",
    spec={
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "s"}}},
        "nodePools": [{"name": "a", "className": "l4"}, {"name": "b", "className": "l4"}],
    },
)
MOVED = _object(
    "ModelReplica",
    "qwen-1",
    "ml-team",
    spec={"clusterName": "west", "modelCacheRef": {"name": "weights"}},
    status={"clusters": ["east", "west"]},
)
NEW = _object("ModelReplica", "qwen-2", "ml-team", spec={"clusterName": "east"})
FOREIGN = _object(
    "ModelReplica", "qwen-1", "other", spec={"clusterName": "east", "modelCacheRef": {"name": "weights"}}
)
CACHE = _object(
    "ModelCache",
    "weights",
    "ml-team",
    spec={"source": "HuggingFace", "huggingFace": {"repo": "a/b", "sizeGiB": 1}},
    status={"clusters": [{"name": "east", "phase": "Ready"}]},
)

STACK: dict[str, Any] = {
    "apiVersion": INFRASTRUCTURE,
    "kind": "ServingStack",
    "metadata": {
        "name": name_stack("east"),
        "namespace": "modelplane-system",
        "labels": {"modelplane.ai/cluster": "east"},
    },
    "spec": {"clusterName": "east", "secrets": [{"type": "Kubeconfig", "name": "s", "key": "kubeconfig"}]},
    "status": {"clusters": ["east"]},
}


@pytest.mark.parametrize(
    ("user", "needed"),
    [
        pytest.param(
            CLUSTER, [Dependency("InferenceClass", "", "l4")], id="a cluster needs the classes of its pools"
        ),
        pytest.param(
            MOVED,
            [
                Dependency("AKSCluster", "modelplane-system", "east"),
                Dependency("AKSCluster", "modelplane-system", "west"),
                Dependency("EKSCluster", "modelplane-system", "east"),
                Dependency("EKSCluster", "modelplane-system", "west"),
                Dependency("GKECluster", "modelplane-system", "east"),
                Dependency("GKECluster", "modelplane-system", "west"),
                Dependency("InferenceCluster", "", "east"),
                Dependency("InferenceCluster", "", "west"),
                Dependency("ModelCache", "ml-team", "weights"),
                Dependency("NebiusCluster", "modelplane-system", "east"),
                Dependency("NebiusCluster", "modelplane-system", "west"),
                Dependency("ServingStack", "modelplane-system", name_stack("east")),
                Dependency("ServingStack", "modelplane-system", name_stack("west")),
                Dependency("VultrCluster", "modelplane-system", "east"),
                Dependency("VultrCluster", "modelplane-system", "west"),
            ],
            id="a replica needs the cluster that it left until nothing is left there, and its cache",
        ),
        pytest.param(
            CACHE, [Dependency("InferenceCluster", "", "east")], id="a cache needs where it is staged"
        ),
        pytest.param(
            STACK,
            [
                Dependency("AKSCluster", "modelplane-system", "east"),
                Dependency("EKSCluster", "modelplane-system", "east"),
                Dependency("GKECluster", "modelplane-system", "east"),
                Dependency("InferenceCluster", "", "east"),
                Dependency("NebiusCluster", "modelplane-system", "east"),
                Dependency("VultrCluster", "modelplane-system", "east"),
            ],
            id="a serving stack needs its cluster until nothing of it is left there",
        ),
        pytest.param(_object("ModelService", "s", "ml-team"), [], id="a service needs nothing to stay"),
    ],
)
def test_what_an_object_needs(user: dict[str, Any], needed: list[Dependency]) -> None:
    assert list(guards.list_needed(user)) == needed


@pytest.mark.parametrize(
    ("target", "users"),
    [
        pytest.param(Dependency("InferenceClass", "", "l4"), [CLUSTER], id="a class is held by clusters"),
        pytest.param(
            Dependency("InferenceCluster", "", "east"),
            [MOVED, NEW, FOREIGN, CACHE],
            id="a cluster by all on it",
        ),
        pytest.param(
            Dependency("GKECluster", "modelplane-system", "east"),
            [MOVED, NEW, FOREIGN],
            id="a cluster of a cloud by the models on it",
        ),
        pytest.param(Dependency("GKECluster", "platform", "east"), [], id="another one by nobody"),
        pytest.param(
            Dependency("ServingStack", "modelplane-system", name_stack("west")),
            [MOVED],
            id="a serving stack by the models on its cluster",
        ),
        pytest.param(
            Dependency("ModelCache", "ml-team", "weights"),
            [MOVED],
            id="a cache by the replicas of its namespace",
        ),
        pytest.param(Dependency("InferenceGateway", "", "default"), [], id="the gateway by nobody"),
    ],
)
def test_whom_a_deletion_waits_for(target: Dependency, users: list[dict[str, Any]]) -> None:
    held = [
        Guard(API, user["kind"], user["metadata"]["name"], user["metadata"].get("namespace", ""))
        for user in users
    ]
    assert list(guards.users_of(target, (CLUSTER, MOVED, NEW, FOREIGN, CACHE))) == held


@pytest.mark.parametrize("kind", ["InferenceClass", "InferenceCluster"])
def test_a_user_that_comes_or_goes_is_no_reason_to_compose_what_it_needs(kind: str) -> None:
    required = guards.requirements(kind, decode_as(InferenceCluster, CLUSTER).metadata)
    assert required
    assert not any(requirement.triggers for requirement in required)
    assert all(guards.matters_only_on_deletion(requirement) for requirement in required)


def test_while_a_cluster_is_being_deleted_replicas_without_labels_count_too() -> None:
    assert guards.on_deletion(CLUSTER) == (
        Requirement("users-ModelReplica", API, "ModelReplica"),
        Requirement("users-ModelCache", API, "ModelCache"),
        Requirement("users-ServingStack", INFRASTRUCTURE, "ServingStack"),
    )


def test_a_stack_asks_for_the_replicas_of_its_cluster_only() -> None:
    [required] = guards.requirements("ServingStack", decode_as(ServingStack, STACK).metadata)
    assert (required.key, required.labels) == ("users-ModelReplica", {"modelplane.ai/cluster": "east"})


def _request(owner: Model, **required: tuple[dict[str, Any], ...]) -> Request[Any, Any]:
    found = {key.replace("_", "-"): objects for key, objects in required.items()}
    return Request(owner, {}, found, COMPOSERS[kind_name(type(owner))].facts())


def test_a_class_is_guarded_by_the_clusters_that_name_it() -> None:
    class_ = decode_as(
        InferenceClass, _object("InferenceClass", "l4", spec={"devices": [{"name": "gpu", "driver": "d"}]})
    )
    composition = inference_class.compose(_request(class_, users_InferenceCluster=(CLUSTER,)))
    assert composition.guards == (Guard(API, "InferenceCluster", "east"),)


def test_a_cache_is_guarded_by_the_replicas_that_mount_it() -> None:
    request = _request(decode_as(ModelCache, CACHE), clusters=(), deployments=(), replicas=(MOVED, NEW))
    composition = model_cache.compose(request)
    assert isinstance(composition, Composition)
    assert composition.guards == (Guard(API, "ModelReplica", "qwen-1", "ml-team"),)

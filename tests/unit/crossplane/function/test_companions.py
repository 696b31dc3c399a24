"""Children that only Crossplane needs."""

from types import SimpleNamespace
from typing import Any

from modelplane.api.clouds.serving_stack import ServingStack, name_stack
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import find_kind, kind_of
from modelplane.api.schema.decode import decode_as
from modelplane.compose.clouds.provisioned import recipe_of
from modelplane.compose.composition import Composition, Desired, Guard
from modelplane.compose.readiness import exists
from modelplane.crossplane.function.companions import (
    CLOUD_IN_USE,
    HELM_PROVIDER_CONFIG,
    IN_USE,
    STACK_PROVIDER_CONFIG,
    companions,
    provider_config_name,
)

STACK = {
    "apiVersion": "infrastructure.modelplane.ai/v1alpha1",
    "kind": "ServingStack",
    "metadata": {"name": "s"},
}


def _companions(composition: Composition, **existing: Any) -> dict[str, Any]:
    owner = decode_as(
        InferenceCluster,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east"},
            "spec": {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "serving"}, **existing}},
                "nodePools": [{"name": "p", "className": "c", "nodeCount": 1}],
            },
        },
    )
    return dict(companions(kind_of(InferenceCluster), owner, composition, (), {}))


def test_a_cluster_with_a_stack_gets_a_connection_for_helm_with_the_identity_that_installs() -> None:
    stack = Composition((Desired("stack", STACK, exists),))
    config = _companions(stack, installerSecretRef={"name": "installer"})[HELM_PROVIDER_CONFIG]
    assert (config["apiVersion"], config["kind"]) == ("helm.m.crossplane.io/v1beta1", "ProviderConfig")
    secret = {"namespace": "modelplane-system", "name": "installer", "key": "kubeconfig"}
    assert config["spec"] == {"credentials": {"source": "Secret", "secretRef": secret}}
    own = _companions(stack)[HELM_PROVIDER_CONFIG]["spec"]["credentials"]["secretRef"]
    assert own == {**secret, "name": "serving"}


def test_the_connections_of_a_stack_are_held_until_it_is_gone() -> None:
    found = _companions(Composition((Desired("stack", STACK, exists),)))
    name = provider_config_name("east")
    for key, api_version in (
        (STACK_PROVIDER_CONFIG, "kubernetes.m.crossplane.io/v1alpha1"),
        (HELM_PROVIDER_CONFIG, "helm.m.crossplane.io/v1beta1"),
    ):
        assert found[key]["metadata"] == {"name": name, "namespace": "modelplane-system"}
        usage = found[f"{key}-in-use"]
        assert (usage["kind"], usage["metadata"]) == ("Usage", {"namespace": "modelplane-system"})
        assert usage["spec"] == {
            "of": {"apiVersion": api_version, "kind": "ProviderConfig", "resourceRef": {"name": name}},
            "by": {
                "apiVersion": "infrastructure.modelplane.ai/v1alpha1",
                "kind": "ServingStack",
                "resourceRef": {"name": name_stack("east")},
            },
            "replayDeletion": True,
        }


def test_without_a_stack_no_kind_of_provider_helm_is_composed() -> None:
    assert HELM_PROVIDER_CONFIG not in _companions(Composition())


def test_a_stack_makes_the_namespace_of_its_gateway_before_anything_is_there() -> None:
    metadata = {"name": "s", "namespace": "modelplane-system"}
    secret = {"type": "Kubeconfig", "name": "s", "key": "kubeconfig", "namespace": "modelplane-system"}
    spec = {"clusterName": "east", "secrets": [secret]}
    owner = decode_as(ServingStack, {**STACK, "metadata": metadata, "spec": spec})
    found = dict(companions(kind_of(ServingStack), owner, Composition(), (), {}))["crossplane-namespace-east"]
    used = {"kind": "ProviderConfig", "name": provider_config_name("east")}
    assert (found["spec"]["providerConfigRef"], found["spec"]["forProvider"]["manifest"]["kind"]) == (
        used,
        "Namespace",
    )


def _guarded(*kinds: str) -> dict[str, Any]:
    """Return the companions of a cluster of EKS that objects of some kinds need."""
    guards = tuple(Guard("v1", kind, "x") for kind in kinds)
    kind = find_kind("infrastructure.modelplane.ai/v1alpha1", "EKSCluster")
    owner = SimpleNamespace(metadata=SimpleNamespace(name="east"))
    return dict(companions(kind, owner, Composition(guards=guards), (), {}))


def test_the_cluster_of_a_cloud_is_held_by_its_stack_and_goes_right_after_it() -> None:
    cluster = decode_as(
        InferenceCluster,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east"},
            "spec": {
                "cluster": {"source": "EKS", "eks": {"region": "us-east-2"}},
                "nodePools": [{"name": "p", "className": "c", "nodeCount": 1, "zones": ["us-east-2a"]}],
            },
        },
    )
    provisioned = {
        "apiVersion": "infrastructure.modelplane.ai/v1alpha1",
        "kind": "EKSCluster",
        "metadata": {"name": "east", "namespace": "modelplane-system"},
        "status": {
            "secrets": [
                {"type": "Kubeconfig", "name": "k", "key": "kubeconfig", "namespace": "modelplane-system"}
            ]
        },
    }
    recipe = recipe_of(cluster.spec.cluster)
    assert recipe is not None
    stack = Composition((Desired("stack", STACK, exists),))
    found = dict(companions(kind_of(InferenceCluster), cluster, stack, (), {recipe.key: provisioned}))
    spec = found[CLOUD_IN_USE]["spec"]
    assert (spec["of"]["kind"], spec["by"]["kind"], spec["replayDeletion"]) == (
        "EKSCluster",
        "ServingStack",
        True,
    )


def test_the_cluster_of_a_cloud_is_not_held_twice() -> None:
    assert IN_USE not in _guarded("ServingStack", "ModelReplica")


def test_replicas_hold_the_cluster_of_a_cloud_where_there_is_no_stack() -> None:
    spec = _guarded("ModelReplica")[IN_USE]["spec"]
    assert (spec["reason"], "replayDeletion" in spec) == (
        "ModelReplicas need it: delete or move them first",
        False,
    )

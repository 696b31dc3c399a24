"""Serving stacks under Crossplane: what they look for on their cluster, and who holds them."""

from typing import Any

from support.goldens import GOLDENS
from unit.crossplane.function.conftest import Ask, children

OWNER: dict[str, Any] = GOLDENS.input("serving_stack/standard")["owner"]
NO_USERS: dict[str, Any] = {"users-ModelReplica": [], "replicas": []}


def test_a_stack_looks_for_what_its_cluster_has_before_it_installs_it(ask: Ask) -> None:
    made = children(ask(OWNER, NO_USERS))
    looks = {key: made[key] for key in ("crossplane-gateway", "crossplane-leaderWorkerSet")}
    assert {key: look["spec"]["managementPolicies"] for key, look in looks.items()} == {
        "crossplane-gateway": ["Observe"],
        "crossplane-leaderWorkerSet": ["Observe"],
    }
    assert {look["spec"]["providerConfigRef"]["name"] for look in looks.values()} == {
        "east-cluster-kubeconfig-4f229"
    }
    assert "prometheus" in made
    assert "leader-worker-set" not in made, "the cluster may have it"


def test_a_stack_is_not_deleted_while_models_are_on_its_cluster(ask: Ask) -> None:
    replica = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": "qwen", "namespace": "ml-team", "labels": {"modelplane.ai/cluster": "east"}},
        "spec": {"clusterName": "east"},
    }
    made = children(ask(OWNER, {**NO_USERS, "users-ModelReplica": [replica]}))
    assert made["crossplane-in-use"]["spec"]["of"]["kind"] == "ServingStack"
    assert "crossplane-in-use" not in children(ask(OWNER, NO_USERS))


def test_components_are_deleted_after_those_that_need_them(ask: Ask) -> None:
    observed = {
        key: {"apiVersion": "v1", "kind": "Any", "metadata": {"name": f"the-{key}"}}
        for key in ("gateway", "gateway-class", "envoy-gateway", "prometheus")
    }
    made = children(ask(OWNER, NO_USERS, observed))
    usages = {key: each["spec"] for key, each in made.items() if each["kind"] == "Usage"}
    assert {
        (spec["of"]["resourceRef"]["name"], spec["by"]["resourceRef"]["name"]) for spec in usages.values()
    } == {
        ("the-gateway-class", "the-gateway"),
        ("the-envoy-gateway", "the-gateway"),
        ("the-envoy-gateway", "the-gateway-class"),
    }
    assert all(spec["replayDeletion"] for spec in usages.values())

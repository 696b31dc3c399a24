"""Clusters of clouds under Crossplane: their connection, their definitions, and what protects them."""

import base64
from typing import Any

from google.protobuf.json_format import MessageToDict

from modelplane.compose.clouds.flow import DEFINITION_KEY
from support.goldens import GOLDENS
from support.tokens import kubeconfig, token
from unit.crossplane.function.conftest import Ask, children, conditions, fatal

NO_USERS: dict[str, Any] = {"users-ModelReplica": [], "users-ServingStack": []}


def _cluster(case: dict[str, Any]) -> dict[str, Any]:
    """Return the requirements of an InferenceCluster, without those that its own cluster answers."""
    found = {key: items for key, items in case["required"].items() if key.startswith("class-")}
    return {**found, **NO_USERS, "users-ModelCache": []}


def _listed(child: dict[str, Any]) -> dict[str, Any]:
    secrets = [
        {"type": "Kubeconfig", "name": "starter-kubeconfig", "key": "kubeconfig"},
        {"type": "GoogleApplicationCredentials", "name": "starter-sa-key", "key": "private_key"},
    ]
    return {**child, "status": {"secrets": secrets, "conditions": [{"type": "Ready", "status": "True"}]}}


def test_a_cluster_of_a_cloud_is_composed_before_there_is_a_connection(ask: Ask) -> None:
    case = GOLDENS.input("inference_cluster/gke")
    answered = ask(case["owner"], _cluster(case))
    assert fatal(answered) == []
    assert list(children(answered)) == ["gke-cluster"]
    made = children(answered)["gke-cluster"]
    assert made["metadata"]["namespace"] == "modelplane-system"
    assert made["spec"]["crossplane"]["compositionRef"] == {
        "name": "gkeclusters.infrastructure.modelplane.ai"
    }


def test_it_is_reached_by_the_secrets_that_its_cluster_lists_and_stays_so(ask: Ask) -> None:
    case = GOLDENS.input("inference_cluster/gke")
    required = {**_cluster(case), "kubeconfig": []}
    made = children(ask(case["owner"], _cluster(case)))
    connected = children(ask(case["owner"], required, {"gke-cluster": _listed(made["gke-cluster"])}))
    assert connected["crossplane-provider-config"]["spec"] == {
        "credentials": {
            "source": "Secret",
            "secretRef": {
                "namespace": "modelplane-system",
                "name": "starter-kubeconfig",
                "key": "kubeconfig",
            },
        },
        "identity": {
            "type": "GoogleApplicationCredentials",
            "source": "Secret",
            "secretRef": {
                "namespace": "modelplane-system",
                "name": "starter-sa-key",
                "key": "private_key",
            },
        },
    }
    # Neither a status that is lost nor a cluster that is not ready withdraws the connection.
    silent = {**connected, "gke-cluster": made["gke-cluster"]}
    assert children(ask(case["owner"], _cluster(case), silent)).keys() == connected.keys()


def test_a_token_that_its_provider_renews_is_not_said_to_expire(ask: Ask) -> None:
    case = GOLDENS.input("inference_cluster/gke")
    made = children(ask(case["owner"], _cluster(case)))
    content = base64.b64encode(kubeconfig(token=token(iat=1, exp=2))).decode()
    secret = {"kind": "Secret", "metadata": {"name": "starter-kubeconfig"}, "data": {"kubeconfig": content}}
    required = {**_cluster(case), "kubeconfig": [secret]}
    answered = ask(case["owner"], required, {"gke-cluster": _listed(made["gke-cluster"])})
    assert "credential" not in MessageToDict(answered.desired.composite.resource)["status"]
    assert conditions(answered)["ClusterReady"][1] != "CredentialExpiring"


def test_a_cluster_of_a_cloud_is_not_deleted_while_models_are_on_it(ask: Ask) -> None:
    case = GOLDENS.input("gke_cluster/plain")
    replica = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {
            "name": "qwen-1",
            "namespace": "ml-team",
            "labels": {"modelplane.ai/cluster": "starter"},
        },
        "spec": {"clusterName": "starter"},
    }
    required = {**case["required"], **NO_USERS, "users-ModelReplica": [replica]}
    made = children(ask(case["owner"], required))
    assert made["crossplane-in-use"]["kind"] == "Usage"
    assert made["crossplane-in-use"]["spec"]["of"]["resourceRef"] == {"name": "starter"}
    assert "crossplane-in-use" not in children(ask(case["owner"], {**required, **NO_USERS}))


def test_a_cluster_of_a_cloud_names_the_providers_that_are_not_installed(ask: Ask) -> None:
    case = GOLDENS.input("eks_cluster/plain")
    required: dict[str, Any] = {**{key: [] for key in case["required"]}, **NO_USERS}
    answered = ask(case["owner"], required)
    assert (children(answered), fatal(answered)) == ({}, [])
    _, reason, message = conditions(answered)["ClusterReady"]
    assert reason == "ProviderNotInstalled"
    assert message.count("xpkg.crossplane.io/crossplane-contrib/provider-aws-") == 3
    assert message.endswith("and 1 more")


def test_a_definition_is_read_no_further_than_its_metadata(ask: Ask) -> None:
    case = GOLDENS.input("gke_cluster/plain")
    deep: dict[str, Any] = {}
    for _ in range(150):
        deep = {"properties": deep}
    for key, [definition] in case["required"].items():
        assert key.startswith(DEFINITION_KEY)
        definition["spec"] = deep
    answered = ask(case["owner"], {**case["required"], **NO_USERS})
    assert fatal(answered) == []
    assert "network" in children(answered)

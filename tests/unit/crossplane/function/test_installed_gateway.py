"""Gateways that Crossplane installs: how provider-helm reaches the control plane's cluster, and the order."""

from typing import Any

from support.goldens import GOLDENS
from unit.crossplane.function.conftest import Ask, children

DEFINED = {"definition-gateway-api": [{"metadata": {"name": "httproutes.gateway.networking.k8s.io"}}]}


def _usages(made: dict[str, Any]) -> set[tuple[str, str]]:
    found = (each["spec"] for each in made.values() if each["kind"] == "Usage")
    return {(each["of"]["resourceRef"]["name"], each["by"]["resourceRef"]["name"]) for each in found}


def test_charts_are_installed_by_the_identity_of_provider_helm(ask: Ask) -> None:
    made = children(
        ask(
            GOLDENS.input("inference_gateway/traefik-begins-with-what-it-needs")["owner"],
            {"definition-gateway-api": []},
        )
    )
    assert made["crossplane-helm-provider-config"] == {
        "apiVersion": "helm.m.crossplane.io/v1beta1",
        "kind": "ClusterProviderConfig",
        "metadata": {"name": "modelplane-in-cluster"},
        "spec": {"credentials": {"source": "InjectedIdentity"}},
    }
    releases = {key: each for key, each in made.items() if each["kind"] == "Release"}
    assert releases.keys() == {"gateway-definitions", "metallb"}
    assert {each["spec"]["providerConfigRef"]["name"] for each in releases.values()} == {
        "modelplane-in-cluster"
    }


def test_traefik_goes_after_its_gateway_and_metallb_after_traefik(ask: Ask) -> None:
    case = GOLDENS.input("inference_gateway/traefik-and-metallb")
    required = {**DEFINED, "front-door": case["required"]["front-door"]}
    made = children(ask(case["owner"], required, case["observed"]))
    assert _usages(made) == {("traefik", "modelplane"), ("metallb", "traefik")}
    namespaces = {each["metadata"]["namespace"] for each in made.values() if each["kind"] == "Usage"}
    assert namespaces == {"modelplane-system"}


def test_a_load_balancer_that_is_not_wanted_any_more_is_not_held(ask: Ask) -> None:
    case = GOLDENS.input("inference_gateway/traefik-and-metallb")
    del case["owner"]["spec"]["traefik"]["loadBalancer"]
    required = {**DEFINED, "front-door": case["required"]["front-door"]}
    made = children(ask(case["owner"], required, case["observed"]))
    assert "metallb" not in made
    assert _usages(made) == {("traefik", "modelplane")}


def test_an_envoy_needs_no_charts(ask: Ask) -> None:
    owner = GOLDENS.input("inference_gateway/envoy")["owner"]
    assert children(ask(owner, {"definition-gateway-api": []})) == {}

from typing import Any

import pytest

from modelplane.api import labels
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Request
from modelplane.compose.facts import EndpointFacts
from modelplane.compose.model_endpoint import compose, requirements

WITHOUT = "the gateway's Envoy runs without its module: build it with `make gateway-module`"


def endpoint(annotations: dict[str, str] | None = None, **spec: Any) -> ModelEndpoint:
    return decode_as(
        ModelEndpoint,
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelEndpoint",
            "metadata": {"name": "outside", "namespace": "ml", "annotations": annotations or {}},
            "spec": {"url": "https://api.openai.com/"} | spec,
        },
    )


@pytest.mark.parametrize(
    ("spec", "is_ready"),
    [
        pytest.param({}, True, id="an endpoint that needs no module"),
        pytest.param({"model": "gpt-5"}, False, id="the name of a model"),
        pytest.param({"credential": {"secretRef": {"name": "openai"}}}, False, id="a credential"),
    ],
)
def test_without_the_module_an_endpoint_that_needs_it_says_so(spec: dict[str, Any], is_ready: bool) -> None:
    owner = endpoint(**spec)
    required: dict[str, Any] = {each.key: () for each in requirements(owner)}
    composition = compose(Request(owner, {}, required, EndpointFacts(gateway_without_module=WITHOUT)))
    assert isinstance(composition, Composition)
    (condition,) = composition.conditions
    assert (condition.holds, composition.ready) == (is_ready, is_ready)
    assert is_ready or (condition.reason, WITHOUT in condition.message) == ("Unsupported", True)


def test_the_endpoint_of_a_replica_that_does_not_serve_is_not_ready() -> None:
    owner = endpoint({labels.DRAINING: labels.NOT_SERVING})
    composition = compose(Request(owner, {}, {each.key: () for each in requirements(owner)}, EndpointFacts()))
    assert isinstance(composition, Composition)
    [condition] = composition.conditions
    assert (composition.ready, condition.reason, condition.message) == (
        False,
        "WaitingForBackend",
        "the replica is not serving yet, so the endpoint receives no requests",
    )


def test_only_an_endpoint_with_a_credential_reads_a_secret_and_only_one_of_its_namespace() -> None:
    usual = ["InferenceGateway", "ModelReplica"]
    assert [each.kind for each in requirements(endpoint(model="gpt-5"))] == usual
    *_, secret = requirements(endpoint(credential={"secretRef": {"name": "openai"}}))
    assert (secret.kind, secret.namespace, secret.name, secret.labels) == ("Secret", "ml", "openai", {})

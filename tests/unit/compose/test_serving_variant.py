"""The condition of a service about deployments that stand by for one another."""

from typing import Any

import pytest

from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Request
from modelplane.compose.facts import ServiceFacts
from modelplane.compose.service import model_service

_ENGINE = {
    "name": "engine",
    "members": [
        {
            "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": "true"}]}]},
            "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
        }
    ],
}


def _item(kind: str, name: str, spec: Any, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml", "labels": labels},
        "spec": spec,
    }


def _said(standbys: dict[str, Any], endpoints: dict[str, int], *, stated: bool = False) -> tuple[str, ...]:
    """Return the condition of a service that selects all deployments, each of which may have endpoints."""
    selectors = [{"selector": {"matchLabels": {"modelplane.ai/deployment": name}}} for name in standbys]
    service = _item("ModelService", "chat", {"endpoints": selectors})
    if stated:
        known = {"type": "StandbyActive", "status": "False", "reason": "R"}
        service["status"] = {"conditions": [{**known, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    required = {
        "gateway": (_item("InferenceGateway", "default", {"backend": "Envoy"}),),
        "endpoints": tuple(
            _item(
                "ModelEndpoint",
                f"{name}-{number}",
                {"url": "http://x.y"},
                **{"modelplane.ai/deployment": name},
            )
            for name, count in endpoints.items()
            for number in range(count)
        ),
        "deployments": tuple(
            _item(
                "ModelDeployment",
                name,
                {"replicas": 1, "engines": [_ENGINE], **({"standbyFor": above} if above else {})},
            )
            for name, above in standbys.items()
        ),
    }
    composition = model_service.compose(
        Request(decode_as(ModelService, service), {}, required, ServiceFacts())
    )
    assert isinstance(composition, Composition)
    found = [each for each in composition.conditions if each.type == "StandbyActive"]
    return (found[0].status, found[0].reason, found[0].message) if found else ()


_ORDER = {"fp8": None, "bf16": {"name": "fp8"}, "int4": {"name": "bf16"}}


@pytest.mark.parametrize(
    ("endpoints", "said"),
    [
        (
            {"fp8": 2},
            (
                "False",
                "NotNeeded",
                'in order of preference: "fp8" 2 endpoints, "bf16" none, "int4" none',
            ),
        ),
        (
            {"fp8": 1, "bf16": 1},
            (
                "False",
                "NotNeeded",
                (
                    '"fp8" and "bf16" are serving; in order of preference: "fp8" 1 endpoint, '
                    '"bf16" 1 endpoint, "int4" none'
                ),
            ),
        ),
        (
            {"int4": 1},
            (
                "True",
                "StandbyServes",
                (
                    '"int4" is serving in place of "fp8"; in order of preference: "fp8" none, "bf16" none, '
                    '"int4" 1 endpoint'
                ),
            ),
        ),
        (
            {},
            (
                "False",
                "NoEndpoints",
                'none is serving; in order of preference: "fp8" none, "bf16" none, "int4" none',
            ),
        ),
    ],
    ids=["the first", "two", "the last", "none"],
)
def test_the_deployments_that_serve_are_named_in_order(endpoints: dict[str, int], said: Any) -> None:
    assert _said(_ORDER, endpoints) == said


def test_a_service_without_an_order_has_no_condition() -> None:
    assert _said({"fp8": None, "bf16": None}, {"fp8": 1}) == ()


def test_a_standby_for_a_deployment_that_is_not_selected_is_no_order() -> None:
    assert _said({"bf16": {"name": "fp8"}}, {"bf16": 1}) == ()


def test_a_service_whose_order_is_gone_says_so() -> None:
    assert _said({"fp8": None}, {"fp8": 1}, stated=True)[:2] == ("False", "NotRequested")


def test_of_two_orders_the_one_that_needs_attention_comes_first() -> None:
    orders = {"a": None, "b": {"name": "a"}, "c": None, "d": {"name": "c"}}
    status, reason, message = _said(orders, {"a": 1, "d": 1})
    assert (status, reason) == ("True", "StandbyServes")
    assert message.startswith(
        '"d" is serving in place of "c"; in order of preference: "c" none, "d" 1 endpoint. '
    )
    assert message.endswith('"a" 1 endpoint, "b" none')


@pytest.mark.parametrize("malformed", [{"name": 3}, "fp8", [], {"other": "x"}])
def test_settings_that_cannot_be_read_are_no_order(malformed: Any) -> None:
    assert _said({"fp8": None, "bf16": malformed}, {"fp8": 1}) == ()


def test_a_cycle_is_no_order() -> None:
    assert _said({"a": {"name": "b"}, "b": {"name": "a"}}, {"a": 1}) == ()

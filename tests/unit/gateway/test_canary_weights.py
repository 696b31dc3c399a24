"""Weights of a canary's endpoints, whatever else a service routes to."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from modelplane.api import labels
from modelplane.api.meta import ObjectMeta
from modelplane.api.model_endpoint import ModelEndpoint, ModelEndpointSpec
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.gateway.balancing import divide_for_canary
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.services import select


def endpoint(deployment: str = "qwen", share: str | None = None) -> ModelEndpoint:
    return ModelEndpoint(
        metadata=ObjectMeta(
            name="e",
            namespace="ml",
            labels={labels.DEPLOYMENT: deployment} if deployment else {},
            annotations={} if share is None else {labels.CANARY_WEIGHT: share},
        ),
        spec=ModelEndpointSpec(url="http://127.0.0.1:1"),
    )


OLD, NEW, OTHER = endpoint(), endpoint(share="20"), endpoint("llama")


@pytest.mark.parametrize(
    ("endpoints", "weights", "expected"),
    [
        pytest.param([OLD, OLD], [1, 1], [1, 1], id="no canary"),
        pytest.param([OLD, OLD, NEW], [1, 1, 1], [2, 2, 1], id="one of three"),
        pytest.param([OLD, NEW, NEW], [1, 1, 1], [8, 1, 1], id="two share it"),
        pytest.param([OLD, NEW, OTHER], [1, 1, 1], [8, 2, 5], id="another deployment keeps its share"),
        pytest.param([OLD, NEW, OTHER], [2, 1, 3], [4, 1, 5], id="weights of groups are kept"),
        pytest.param([NEW, NEW, OTHER], [1, 1, 1], [1, 1, 1], id="nothing to compare with"),
        pytest.param([OLD, endpoint(share="")], [1, 1], [1, 1], id="an empty share is none"),
        pytest.param([endpoint(""), endpoint("", "20")], [1, 1], [1, 1], id="of no deployment"),
        *(
            pytest.param([OLD, endpoint(share=said)], [1, 1], [1, 1], id=f"{said!r} is no share")
            for said in ("0", "100", "-5", "5%", "1e1", "\u0665", "9" * 5000, "0x5")
        ),
    ],
)
def test_the_weights(endpoints: list[ModelEndpoint], weights: list[int], expected: list[int]) -> None:
    assert divide_for_canary(endpoints, weights) == tuple(expected)


@given(
    old=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    new=st.lists(st.integers(1, 50), min_size=1, max_size=3),
    other=st.lists(st.integers(1, 50), max_size=3),
    share=st.integers(1, 99),
)
def test_the_canary_gets_its_share_of_the_deployment_and_no_other_loses_any(
    old: list[int], new: list[int], other: list[int], share: int
) -> None:
    endpoints = [OLD] * len(old) + [endpoint(share=str(share))] * len(new) + [OTHER] * len(other)
    weights = divide_for_canary(endpoints, [*old, *new, *other])
    own, rest = weights[: len(old) + len(new)], weights[len(old) + len(new) :]
    canaries = sum(own[len(old) :])
    assert min(weights) >= 1
    assert abs(Fraction(canaries, sum(own)) - Fraction(share, 100)) < Fraction(1, 1000)
    kept = Fraction(sum(other), sum([*old, *new, *other]))
    assert abs(Fraction(sum(rest), sum(weights)) - kept) < Fraction(1, 1000)


def test_a_withdrawn_endpoint_gets_no_requests() -> None:
    selector = {"matchLabels": {labels.DEPLOYMENT: "qwen"}}
    service = decode_as(
        ModelService,
        {
            "metadata": {"name": "qwen", "namespace": "ml"},
            "spec": {"endpoints": [{"selector": selector}]},
        },
    )
    selected = select(service, [OLD, endpoint(share="0")], Destinations(is_local=True))
    assert [(each.endpoint, each.weight) for each in selected] == [(OLD, 1)]

"""Whatever the gateway, and however many endpoints: each gets its share of requests, and its own path.

The tolerance is 0.01 % of all requests: weights of the Gateway API are whole numbers up to a million.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.names import name_backend, name_front
from modelplane.api.schema.decode import decode_as
from modelplane.gateway.destinations import Destinations
from modelplane.gateway.gateway_api.route_tree import (
    HEADER,
    IMPLEMENTATIONS,
    MOST,
    OTHER,
    ROUTE,
    Implementation,
    build_routes,
)
from modelplane.gateway.services import Selected, find_rewriting, select
from support.http_route_semantics import NOT_FOUND, Gateway, Request
from support.third_party_crds import problems, schemas

TOLERANCE = 1e-4
PREFIX = "/ml-team/qwen/"
ITSELF = name_front("qwen")
REWRITES = ("", "/", "/v1/", "/openai/v1/", "/ml-team/{name}/")
HOSTS = ("http://192.0.2.7:8801", "http://192.0.2.8", "https://api.example.com", "http://other.example.com")


def _endpoint(number: int, group: int, rewrite: str, host: str) -> ModelEndpoint:
    name = f"e{number}"
    spec = {"url": host} | ({"rewritePath": rewrite.format(name=name)} if rewrite else {})
    metadata = {"name": name, "namespace": "ml-team", "labels": {"group": str(group)}}
    return decode_as(ModelEndpoint, {"metadata": metadata, "spec": spec})


def _service(weights: list[int | None]) -> ModelService:
    entries: list[dict[str, Any]] = []
    for group, weight in enumerate(weights):
        entry: dict[str, Any] = {"selector": {"matchLabels": {"group": str(group)}}}
        entries.append(entry | ({"weight": weight} if weight else {}))
    metadata = {"name": "qwen", "namespace": "ml-team"}
    return decode_as(ModelService, {"metadata": metadata, "spec": {"endpoints": entries}})


def _gateway(
    implementation: Implementation, service: ModelService, selected: tuple[Selected, ...]
) -> Gateway:
    found = build_routes(service, selected, per_backend=implementation.rewrites_per_backend)
    return Gateway(implementation, found.values(), ITSELF)


def _expected(each: Selected, below: str) -> Request:
    """Return the request that an endpoint is to get for a path below the service."""
    path, overlap = find_rewriting(each.endpoint)
    if overlap and below.startswith(f"{overlap}/"):
        below = below.removeprefix(f"{overlap}/")
    host = each.target.host if each.target.host.endswith("example.com") else "gateway.example.com"
    return Request(f"{path or PREFIX}{below}", host)


@st.composite
def services(draw: st.DrawFn) -> tuple[ModelService, tuple[Selected, ...]]:
    weights = draw(st.lists(st.none() | st.integers(1, 1_000_000), min_size=1, max_size=4))
    service = _service(weights)
    count = draw(st.sampled_from((1, 2, 15, 16, 17, 31, 40, 257)) | st.integers(1, 60))
    kinds = draw(st.lists(st.tuples(*map(st.sampled_from, (REWRITES, HOSTS))), min_size=1, max_size=5))
    endpoints = [
        _endpoint(number, number % len(weights), *kinds[number % len(kinds)]) for number in range(count)
    ]
    return service, select(service, endpoints, Destinations())


@settings(max_examples=60, deadline=None)
@given(services(), st.sampled_from(IMPLEMENTATIONS), st.sampled_from(("v1/models", "health", "v1/v1/x")))
def test_each_endpoint_gets_its_share_and_its_own_path(
    drawn: tuple[ModelService, tuple[Selected, ...]], implementation: Implementation, below: str
) -> None:
    service, selected = drawn
    shares = _gateway(implementation, service, selected).shares(Request(f"{PREFIX}{below}"))
    total = sum(each.weight for each in selected)
    wanted = {
        (name_backend(each.endpoint.metadata.name), _expected(each, below).path): each.weight / total
        for each in selected
    }
    found = {(name, sent.path): share for (name, sent), share in shares.items()}
    assert found.keys() == wanted.keys(), "an endpoint gets no traffic, or another path"
    assert found == pytest.approx(wanted, abs=TOLERANCE)
    hosts = {name_backend(each.endpoint.metadata.name): _expected(each, below).host for each in selected}
    assert all(sent.host == hosts[name] for name, sent in shares)
    assert not any(HEADER in sent.headers for _, sent in shares), "an engine gets the gateway's own header"


@pytest.mark.parametrize("count", [1, 16, 17, 300, 1024])
@pytest.mark.parametrize("per_backend", [True, False])
def test_the_schema_of_the_gateway_api_accepts_every_route(count: int, per_backend: bool) -> None:
    service = _service([None])
    endpoints = [_endpoint(number, 0, REWRITES[-1], HOSTS[0]) for number in range(count)]
    found = build_routes(service, select(service, endpoints, Destinations()), per_backend=per_backend)
    schema = schemas("gateway-api")["gateway.networking.k8s.io/v1", "HTTPRoute"]
    assert [problem for each in found.values() for problem in problems(each, schema)] == []
    rules = [rule for each in found.values() for rule in each["spec"]["rules"]]
    assert max(len(each["spec"]["rules"]) for each in found.values()) <= MOST
    assert max(len(rule["backendRefs"]) for rule in rules) <= MOST
    assert len({each["metadata"]["name"] for each in found.values()}) == len(found)


@pytest.mark.parametrize("headers", [{}, {HEADER: "1"}, {HEADER: "1.1"}, {HEADER: "2"}])
def test_a_gateway_that_sets_no_headers_answers_404_and_never_calls_itself_for_ever(
    headers: dict[str, str],
) -> None:
    service = _service([None])
    endpoints = [_endpoint(number, 0, REWRITES[-1], HOSTS[0]) for number in range(300)]
    deaf = replace(OTHER, sets_headers_per_backend=False)
    shares = _gateway(deaf, service, select(service, endpoints, Destinations())).shares(
        Request(f"{PREFIX}v1/models", headers=headers)
    )
    assert all(
        name in (NOT_FOUND, *(name_backend(f"e{number}") for number in range(300))) for name, _ in shares
    )


def test_endpoints_of_one_path_share_a_rule_of_any_gateway() -> None:
    service = _service([None])
    alike = [_endpoint(number, 0, "/v1/", HOSTS[3]) for number in range(9)]
    assert list(build_routes(service, select(service, alike, Destinations()), per_backend=False)) == [ROUTE]

"""The endpoints that a service routes to, at most."""

from typing import Any

from modelplane.api.inference_gateway import Backend
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Request
from modelplane.compose.facts import ServiceFacts
from modelplane.compose.service.model_service import compose, requirements
from modelplane.gateway.services import EndpointShare

API = "modelplane.ai/v1alpha1"


def composed(
    endpoints: int,
    namespace: str = "ml",
    proxy: Backend = Backend.ENVOY,
    share: EndpointShare | None = None,
    *,
    is_route_loaded: bool = True,
) -> Composition:
    service = decode_as(
        ModelService,
        {
            "apiVersion": API,
            "kind": "ModelService",
            "metadata": {"name": "qwen", "namespace": namespace, "uid": "u", "generation": 1},
            "spec": {"endpoints": [{"selector": {"matchLabels": {"example.com/of": "qwen"}}}]},
        },
    )
    found: tuple[dict[str, Any], ...] = tuple(
        {
            "apiVersion": API,
            "kind": "ModelEndpoint",
            "metadata": {"name": f"e-{at:04}", "namespace": namespace, "labels": {"example.com/of": "qwen"}},
            "spec": {"url": f"http://203.0.{at // 250}.{at % 250 + 1}/"},
        }
        for at in range(endpoints)
    )
    gateway = {
        "apiVersion": API,
        "kind": "InferenceGateway",
        "metadata": {"name": "default"},
        "spec": {"backend": "Envoy"},
        "status": {"address": "gateway.example", "backend": "Envoy"},
    }
    others = {each.key: (gateway,) for each in requirements(service)}
    facts = ServiceFacts(proxy, endpoint_share=share, is_route_loaded=is_route_loaded)
    result = compose(Request(service, {}, {**others, "endpoints": found}, facts))
    assert isinstance(result, Composition)
    return result


def test_a_service_routes_to_no_more_than_its_share_of_the_gateway() -> None:
    few, many = composed(1024), composed(1026)
    [route] = many.routes
    assert (few.ready, few.routes[0]) == (True, route)
    [said] = [each for each in many.conditions if each.type == "RoutingReady"]
    assert (many.ready, said.reason) == (False, "LimitExceeded")
    assert said.message == (
        '2 of 1026 endpoints receive no requests, because a ModelService routes to 1,024: "e-1024", '
        '"e-1025"; select fewer endpoints, or divide them among ModelServices'
    )


def test_a_service_is_not_ready_before_the_gateway_has_loaded_its_route() -> None:
    waiting = composed(1, is_route_loaded=False)
    [said] = [each for each in waiting.conditions if each.type == "RoutingReady"]
    assert (waiting.ready, said.reason, said.message) == (
        False,
        "Configuring",
        'InferenceGateway "default" has not loaded the route to the endpoints yet',
    )
    assert waiting.routes == composed(1).routes, "the gateway waits for no status"


def test_the_namespace_with_the_path_of_all_models_has_none_of_its_own() -> None:
    taken = composed(1, namespace="v1")
    [said] = [each for each in taken.conditions if each.type == "RoutingReady"]
    assert (taken.ready, said.reason) == (False, "ReservedNamespace")
    assert said.message == (
        'paths below /v1/ are routed by the request\'s model, so services in namespace "v1" '
        "have no paths: use another "
        'namespace, or name the model "v1/qwen" in requests to /v1/'
    )
    assert [route.prefix for route in taken.routes] == ["/v1/qwen/"]
    assert composed(1, namespace="v1", proxy=Backend.GATEWAY_API).ready


def test_a_service_without_a_share_of_its_namespace_says_so_and_so_does_its_answer() -> None:
    some, none, kept = (
        composed(4, share=share)
        for share in (EndpointShare(3), EndpointShare(0), EndpointShare(4, is_beyond=True))
    )
    conditions = [
        next(each for each in result.conditions if each.type == "RoutingReady")
        for result in (some, none, kept)
    ]
    assert [(each.holds, each.reason) for each in conditions] == [
        (False, "LimitExceeded"),
        (False, "LimitExceeded"),
        (True, "LimitExceeded"),
    ]
    assert conditions[0].message == (
        "1 of 4 endpoints receive no requests, because all ModelServices of a namespace together can route "
        'to 10,000 endpoints, and other ModelServices use them: "e-0003"; select fewer endpoints, or '
        "divide them among namespaces"
    )
    assert conditions[2].message == (
        "the gateway routes to its 4 endpoints and adds no others: the ModelServices of a namespace may "
        "route to 10,000 endpoints together, and older ones have them: select fewer endpoints, or divide "
        "them among namespaces"
    )
    assert [(result.unsatisfied, len(result.routes[0].backends)) for result in (some, none, kept)] == [
        (True, 3),
        (True, 0),
        (False, 4),
    ]
    assert ("all ModelServices of a namespace together can route to 10,000 endpoints") in none.routes[
        0
    ].unavailable

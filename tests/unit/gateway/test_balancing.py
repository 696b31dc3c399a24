"""What the gateway's module orders the backends of a service by."""

from dataclasses import replace

import msgspec
import pytest

from modelplane.api.meta import ObjectMeta
from modelplane.api.model_service import (
    Balancing,
    BalancingPolicy,
    EndpointEntry,
    EndpointSelector,
    ModelService,
    ModelServiceSpec,
)
from modelplane.gateway.balancing import NO_LIMITS, Limits, build_settings, is_wanted, select_in_force
from modelplane.gateway.envoy import module_filters
from modelplane.gateway.route_table import Backend, Front, Listener, Route

A = Backend("ml/a", (("10.0.0.1", 80),), weight=3)
B = Backend("ml/b", (("10.0.0.2", 80),), priority=1)


def service(balancing: Balancing | None, limits: Limits = NO_LIMITS) -> ModelService:
    entry = EndpointEntry(
        max_outstanding_requests=limits.outstanding_requests,
        max_queued_requests=limits.queued_requests,
        selector=EndpointSelector(match_labels={}),
    )
    return ModelService(
        metadata=ObjectMeta(name="qwen", namespace="ml"),
        spec=ModelServiceSpec(endpoints=(entry,), balancing=balancing),
    )


@pytest.mark.parametrize(
    ("asking", "wanted"),
    [
        pytest.param(service(None), False, id="a service that says nothing"),
        pytest.param(service(Balancing()), False, id="weights are what a route does by itself"),
        pytest.param(service(Balancing(policy=BalancingPolicy.PREFIX)), True, id="another policy"),
        pytest.param(service(None, Limits(1)), True, id="a maximum of requests in progress"),
        pytest.param(service(None, Limits(None, 1)), True, id="a maximum of the engine's queue"),
    ],
)
def test_only_what_a_route_cannot_do_is_a_setting(asking: ModelService, wanted: bool) -> None:
    assert is_wanted(asking) is wanted
    assert (build_settings(asking, ((A, Limits(2)), (B, NO_LIMITS))).balancing is not None) is wanted
    assert build_settings(asking, ((A, Limits(2)),)).balancing is None


def test_the_module_reads_the_backends_that_the_route_leads_to() -> None:
    asking = service(Balancing(policy=BalancingPolicy.SESSION, session_header="X-Session"))
    route = Route(
        "ml/qwen", "/ml/qwen/", (A, B), settings=build_settings(asking, ((A, Limits(2, 4)), (B, NO_LIMITS)))
    )
    listener = Listener("front-door", "127.0.0.1", 80, (route,), front=Front())
    written = msgspec.json.decode(module_filters.render_files(listener)[module_filters.SERVICES])
    a = {"name": "ml/a", "weight": 3, "maxOutstandingRequests": 2, "maxQueuedRequests": 4}
    b = {"name": "ml/b", "priority": 1}
    expected = {"policy": "Session", "sessionHeader": "x-session", "backends": [a, b]}
    assert written == {"services": {"ml/qwen": {"balancing": expected}}}
    # One without its credential gets no requests.
    left = select_in_force(replace(route, backends=(B,))).balancing
    assert left is not None
    assert [each.name for each in left.backends] == ["ml/b"]

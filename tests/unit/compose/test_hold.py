"""Which services let requests wait, and what their conditions say of it."""

from typing import Any

import pytest

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Request, Unknown
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.facts import ServiceFacts, ServiceRequest
from modelplane.compose.service import hold
from modelplane.gateway.module_files.route_files import HoldEntry, ServiceEntry
from modelplane.gateway.region_routing import Admitted, RegionRule

API = "modelplane.ai/v1alpha1"
LIMITS = ServiceEntry(hold=HoldEntry(timeout_seconds=60, max_requests=100))


def deployment(labels: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    device = {"name": "gpu", "count": 1, "selectors": [{"cel": "true"}]}
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [device]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "vllm/vllm-openai"}]}},
    }
    engines = [{"name": "qwen", "members": [member]}]
    template = {"metadata": {"labels": labels or {}}, "spec": {"engines": engines}}
    return {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen", "namespace": "ml"},
        "spec": {"replicas": 0, "template": template, **changes},
    }


def request(
    deployments: tuple[dict[str, Any], ...] | Unknown,
    selector: dict[str, str] | None = None,
    limits: dict[str, int] | None = {},  # noqa: B006 - it is not changed
    backend: str = "Envoy",
    without_module: str = "",
) -> ServiceRequest:
    spec: dict[str, Any] = {"endpoints": [{"selector": {"matchLabels": selector or {}}}]}
    if limits is not None:
        spec["hold"] = limits
    metadata = {"name": "qwen", "namespace": "ml"}
    owner = {"apiVersion": API, "kind": "ModelService", "metadata": metadata, "spec": spec}
    gateway = {"metadata": {"name": "default"}, "spec": {}, "status": {"backend": backend}}
    required = {"deployments": deployments, "gateway": (gateway,)}
    return Request(
        decode_as(ModelService, owner), {}, required, ServiceFacts(gateway_without_module=without_module)
    )


@pytest.mark.parametrize(
    ("deployments", "selector", "waits"),
    [
        pytest.param((), {}, False, id="no deployment will ever make an endpoint"),
        pytest.param((deployment(),), {}, True, id="an empty selector selects every replica"),
        pytest.param((deployment(),), {"modelplane.ai/deployment": "qwen"}, True, id="by its name"),
        pytest.param((deployment(),), {"modelplane.ai/deployment": "llama"}, False, id="by another name"),
        pytest.param((deployment({"a": "b"}),), {"a": "b"}, True, id="by a label of its template"),
        pytest.param((deployment({"a": "b"}),), {"a": "c"}, False, id="by another value"),
        pytest.param(
            (deployment({"a": "b"}),),
            {"a": "b", "modelplane.ai/cluster": "east"},
            True,
            id="by a cluster, which is unknown before a replica is placed",
        ),
        pytest.param(
            (deployment({"crossplane.io/a": "b"}),),
            {"crossplane.io/a": "b"},
            False,
            id="by a label that no endpoint gets",
        ),
        pytest.param((deployment(replicas="many"),), {"a": "b"}, True, id="one that cannot be read is doubt"),
        pytest.param(Unknown("timeout"), {"a": "b"}, True, id="deployments that cannot be listed are doubt"),
    ],
)
def test_requests_wait_where_a_deployment_can_make_an_endpoint(
    deployments: tuple[dict[str, Any], ...] | Unknown, selector: dict[str, str], *, waits: bool
) -> None:
    settings = hold.settings(request(deployments, selector), has_endpoints=False)
    assert settings == (LIMITS if waits else ServiceEntry())


def test_a_service_with_endpoints_has_its_limits_already() -> None:
    limits = {"timeoutSeconds": 5, "maxRequests": 7}
    settings = hold.settings(request((), limits=limits), has_endpoints=True)
    assert settings.hold == HoldEntry(timeout_seconds=5, max_requests=7)
    assert hold.settings(request((), limits=None), has_endpoints=True) == ServiceEntry()
    assert hold.settings(request((), without_module="no module"), has_endpoints=True) == ServiceEntry()


NONE = false("RoutingReady", "Configuring", "no endpoints to route to")
WAITING = false("RoutingReady", "WaitingForGateway", "no address yet")
ROUTED = true("RoutingReady", "RouteConfigured", "the gateway routes to the endpoints")


@pytest.mark.parametrize(
    ("asked", "routing", "said"),
    [
        pytest.param(
            request((deployment(),)),
            NONE,
            "no endpoints to route to; requests wait up to 60 s for a replica, at most 100 at the same time",
            id="requests wait",
        ),
        pytest.param(
            request(()),
            NONE,
            "no endpoints to route to; requests receive 503 immediately, because no ModelDeployment in the "
            "namespace has the selected labels: create one, or correct spec.endpoints",
            id="no deployment",
        ),
        pytest.param(
            request((deployment(),), without_module="the gateway has no module"),
            NONE,
            "no endpoints to route to; requests receive 503 immediately: the gateway has no module",
            id="no module",
        ),
        pytest.param(
            request((deployment(),), backend="Traefik"),
            ROUTED,
            "routes to the service's endpoints; without endpoints, requests would receive 503 "
            "immediately: Gateway API, which the "
            "gateway's backend Traefik reads, cannot express spec.hold: use backend Envoy of the "
            "controllers, or remove spec.hold",
            id="another gateway",
        ),
        pytest.param(request((deployment(),)), WAITING, WAITING.message, id="no gateway yet"),
        pytest.param(request((deployment(),)), ROUTED, ROUTED.message, id="endpoints"),
        pytest.param(request((), limits=None), NONE, NONE.message, id="a service without hold"),
    ],
)
def test_the_condition_says_what_happens_to_requests(
    asked: ServiceRequest, routing: Condition, said: str
) -> None:
    assert hold.explained(asked, routing, has_endpoints=routing is ROUTED).message == said


def _endpoint(deployment: str = "") -> ModelEndpoint:
    metadata: dict[str, Any] = {"name": "e", "namespace": "ml"}
    if deployment:
        metadata["labels"] = {"modelplane.ai/deployment": deployment}
    made = {"apiVersion": API, "kind": "ModelEndpoint", "metadata": metadata, "spec": {"url": "https://e"}}
    return decode_as(ModelEndpoint, made)


EU = RegionRule(frozenset({"eu"}), ("qwen",))
NOWHERE = RegionRule(frozenset(), ("llama", "qwen"))


@pytest.mark.parametrize(
    ("left_out", "why"),
    [
        pytest.param(hold.LeftOut(), "", id="nothing is left out"),
        pytest.param(hold.LeftOut(Admitted((), (), EU)), "", id="a replica can start in the region"),
        pytest.param(
            hold.LeftOut(Admitted((), (_endpoint(),), EU)), "", id="an external provider is outside of it"
        ),
        pytest.param(
            hold.LeftOut(Admitted((), (_endpoint("qwen"),), EU)),
            'ModelEndpoint "e" (in no region) receives no requests',
            id="its replica serves, and outside of it",
        ),
        pytest.param(
            hold.LeftOut(Admitted((), (), NOWHERE)), "allow no region in common", id="no region is left"
        ),
        pytest.param(hold.LeftOut(closed=frozenset({0})), "budget", id="the budget of its entry is spent"),
        pytest.param(hold.LeftOut(closed=frozenset({1})), "", id="the budget of another entry is spent"),
    ],
)
def test_requests_wait_only_for_an_endpoint_that_may_get_them(left_out: hold.LeftOut, why: str) -> None:
    asked = request((deployment(),))
    entry = hold.settings(asked, has_endpoints=False, left_out=left_out)
    assert entry == (ServiceEntry() if why else LIMITS)
    said = hold.explained(asked, NONE, has_endpoints=False, left_out=left_out)
    assert said.holds is not bool(why)
    assert why in said.message
    assert ("requests receive 503 immediately" in said.message) is bool(why)


@pytest.mark.parametrize(
    ("deployments", "holds"),
    [
        pytest.param((deployment(),), True, id="scaled to zero"),
        pytest.param((deployment(replicas=1),), False, id="a replica starts, or cannot"),
        pytest.param((deployment(), deployment(replicas=2)), False, id="one of two"),
        pytest.param((deployment(replicas=2, standbyFor={"name": "x"}),), True, id="a standby that rests"),
        pytest.param((deployment(replicas="many"),), False, id="one that cannot be read"),
        pytest.param((), False, id="none"),
        pytest.param(Unknown("timeout"), False, id="deployments that cannot be listed"),
    ],
)
def test_a_service_whose_deployments_are_scaled_to_zero_is_routed_because_requests_wait(
    deployments: tuple[dict[str, Any], ...] | Unknown, *, holds: bool
) -> None:
    assert hold.explained(request(deployments), NONE, has_endpoints=False).holds is holds
    assert not hold.explained(request(deployments, limits=None), NONE, has_endpoints=False).holds

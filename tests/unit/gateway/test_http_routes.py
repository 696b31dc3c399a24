"""What the gateway of an inference cluster makes of HTTPRoutes."""

import itertools
from typing import Any

import pytest

from modelplane.gateway.gateway_api.http_routes import build_workload_routes, check_supported, is_attached
from modelplane.gateway.route_table import Backend, Route
from modelplane.host.addresses import find_bound
from support.rejections import message_of

REWRITE = {
    "type": "URLRewrite",
    "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
}
PARENT = {"name": "inference-gateway", "namespace": "modelplane-system"}


def prefix(value: str) -> dict[str, Any]:
    return {"path": {"type": "PathPrefix", "value": value}}


def http_route(name: str = "r", created: str = "2026-01-01T00:00:00Z", **rule: Any) -> dict[str, Any]:
    defaults = {
        "matches": [prefix(f"/ml/{name}/")],
        "filters": [REWRITE],
        "backendRefs": [{"name": name, "port": 80}],
        "timeouts": {"request": "0s"},
    }
    return {
        "metadata": {"name": name, "namespace": "ml", "creationTimestamp": created},
        "spec": {"parentRefs": [PARENT], "rules": [defaults | rule]},
    }


def service(name: str = "r", namespace: str = "ml", **port: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8000} | port]},
    }


def endpoint_slice(
    *endpoints: dict[str, Any], of: str = "r", namespace: str = "ml", **fields: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"{of}-x",
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": of},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    } | fields


def pod(address: str, **conditions: bool) -> dict[str, Any]:
    return {"addresses": [address], "conditions": conditions}


def backend(*hosts: str, name: str = "r", weight: int = 1, port: int = 8000) -> Backend:
    return Backend(f"ml/{name}/0/{name}:80", tuple((host, port) for host in hosts), weight, "/")


NO_POD = (
    'cannot serve HTTPRoute "ml/r": no ready pod behind its Services ("r"): '
    "see kubectl get pods,endpointslices -n ml"
)


@pytest.mark.parametrize(
    ("slices", "backends"),
    [
        pytest.param(
            [endpoint_slice(pod("198.18.0.2", ready=True), pod("198.18.0.1", ready=True))],
            (backend("127.77.0.1", "127.77.0.2"),),
            id="pods are dialled where they listen",
        ),
        pytest.param(
            [endpoint_slice(pod("10.0.0.1")), endpoint_slice(pod("10.0.0.2"), pod("10.0.0.1"))],
            (backend("10.0.0.1", "10.0.0.2"),),
            id="slices of one service are joined",
        ),
        pytest.param(
            [endpoint_slice({"addresses": ["10.0.0.1"]})],
            (backend("10.0.0.1"),),
            id="no conditions mean ready",
        ),
        pytest.param(
            [endpoint_slice(pod("10.0.0.1", ready=False))], (), id="a pod that is not ready is left out"
        ),
        pytest.param(
            [endpoint_slice(pod("10.0.0.1"), of="other")], (), id="pods of another service are left out"
        ),
        pytest.param(
            [endpoint_slice(pod("10.0.0.1"), namespace="other")],
            (),
            id="pods of another namespace are left out",
        ),
        pytest.param(
            [endpoint_slice(pod("10.0.0.1"), ports=[{"name": "metrics", "port": 9000}])],
            (),
            id="ports of another name are left out",
        ),
        pytest.param(
            [endpoint_slice(pod("a.example"), addressType="FQDN")], (), id="host names are left out"
        ),
        pytest.param([endpoint_slice(ports=None, endpoints=None)], (), id="a slice may be empty"),
        pytest.param([], (), id="there may be no slice"),
    ],
)
def test_ready_pods_are_the_instances_of_a_backend(
    slices: list[dict[str, Any]], backends: tuple[Backend, ...]
) -> None:
    routes = build_workload_routes([http_route()], [service()], slices, find_bound)
    assert routes == (Route("ml/r", "/ml/r/", backends, "" if backends else NO_POD),)


def test_a_port_without_a_name_is_found() -> None:
    nameless = service()
    del nameless["spec"]["ports"][0]["name"]
    slices = [endpoint_slice(pod("10.0.0.1"), ports=[{"name": "", "port": 8001}])]
    (route,) = build_workload_routes([http_route()], [nameless], slices, find_bound)
    assert route.backends == (backend("10.0.0.1", port=8001),)


SLICES = [endpoint_slice(pod("10.0.0.1")), endpoint_slice(pod("10.0.0.2"), of="s")]


@pytest.mark.parametrize(
    ("rule", "routes"),
    [
        pytest.param(
            {"backendRefs": [{"name": "r", "port": 80, "weight": 3}, {"name": "s", "port": 80, "weight": 0}]},
            [("/ml/r/", [("ml/r/0/r:80", 3, "/")])],
            id="a weight of zero takes no request",
        ),
        pytest.param(
            {"backendRefs": [{"name": "r", "port": 80, "weight": 3}, {"name": "s", "port": 80}]},
            [("/ml/r/", [("ml/r/0/r:80", 3, "/"), ("ml/r/0/s:80", 1, "/")])],
            id="weights are kept",
        ),
        pytest.param(
            {"backendRefs": [{"name": "r", "port": 80}, {"name": "gone", "port": 80}]},
            [("/ml/r/", [("ml/r/0/r:80", 1, "/")])],
            id="a service that is missing takes no request",
        ),
        pytest.param(
            {"filters": []}, [("/ml/r/", [("ml/r/0/r:80", 1, "")])], id="without a filter the path stays"
        ),
        pytest.param(
            {"matches": [prefix("/a"), prefix("/b/c/")]},
            [("/a/", [("ml/r/0/r:80", 1, "/")]), ("/b/c/", [("ml/r/0/r:80", 1, "/")])],
            id="each match is a route",
        ),
        pytest.param({"matches": []}, [("/", [("ml/r/0/r:80", 1, "/")])], id="no match is everything"),
    ],
)
def test_rules(rule: dict[str, Any], routes: list[tuple[str, list[tuple[str, int, str]]]]) -> None:
    found = build_workload_routes([http_route(**rule)], [service(), service("s")], SLICES, find_bound)
    assert [
        (route.prefix, [(each.name, each.weight, each.prefix) for each in route.backends]) for route in found
    ] == routes


@pytest.mark.parametrize(
    ("parents", "ours"),
    [
        pytest.param([PARENT], True, id="by name and namespace"),
        pytest.param([{"name": "other"}, PARENT], True, id="beside another"),
        pytest.param([{"name": "inference-gateway"}], False, id="of its own namespace"),
        pytest.param([PARENT | {"kind": "Service"}], False, id="another kind of that name"),
        pytest.param([], False, id="no parent"),
    ],
)
def test_only_routes_of_the_inference_gateway_are_served(parents: list[dict[str, Any]], ours: bool) -> None:
    route = http_route()
    route["spec"]["parentRefs"] = parents
    assert is_attached(route) is ours
    assert bool(build_workload_routes([route], [service()], SLICES, find_bound)) is ours


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        pytest.param({}, "", id="what replicas use is supported"),
        pytest.param({"timeouts": {"request": "5s"}}, "timeouts must be 0s", id="a timeout"),
        pytest.param({"sessionPersistence": {}}, "sessionPersistence is not supported", id="another field"),
        pytest.param(
            {"matches": [{"path": {"type": "Exact", "value": "/a"}}]},
            "matches has more than a path of type PathPrefix",
            id="an exact path",
        ),
        pytest.param(
            {"matches": [prefix("/a") | {"headers": []}]},
            "matches has more than a path of type PathPrefix",
            id="a header",
        ),
        pytest.param(
            {"filters": [{"type": "RequestMirror", "requestMirror": {}}]},
            "filters has more than URLRewrite with replacePrefixMatch",
            id="another filter",
        ),
        pytest.param(
            {"filters": [{"type": "URLRewrite", "urlRewrite": REWRITE["urlRewrite"] | {"hostname": "a"}}]},  # type: ignore[operator]  # a literal of mixed values
            "filters has more than URLRewrite with replacePrefixMatch",
            id="a rewrite of the host",
        ),
        pytest.param(
            {"backendRefs": [{"name": "r", "kind": "InferencePool"}]},
            "backendRefs must name Services and InferencePools without filters",
            id="a pool of another group",
        ),
        pytest.param(
            {"backendRefs": [{"name": "r", "port": 80, "namespace": "other"}]},
            'backendRefs names Service "r" of another namespace',
            id="a backend of another namespace",
        ),
    ],
)
def test_a_route_that_asks_for_more_is_not_served(rule: dict[str, Any], reason: str) -> None:
    route = http_route(**rule)
    found = message_of(check_supported(route))
    assert found.startswith(f"spec.rules[0].{reason}") if reason else found == ""
    assert bool(build_workload_routes([route], [service()], SLICES, find_bound)) is not bool(reason)


def test_host_names_are_not_supported() -> None:
    route = http_route()
    route["spec"]["hostnames"] = ["a.example"]
    assert message_of(check_supported(route)).startswith("spec.hostnames is not supported, because ")


def test_older_routes_come_first_in_any_order_of_the_input() -> None:
    routes = [
        http_route("r", "2026-01-03T00:00:00Z"),
        http_route("s"),
        http_route("t", "2026-01-02T00:00:00Z"),
    ]
    for order in itertools.permutations(routes):
        assert [route.name for route in build_workload_routes(order, [], [], find_bound)] == [
            "ml/s",
            "ml/t",
            "ml/r",
        ]

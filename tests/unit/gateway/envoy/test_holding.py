"""Envoy's routes and clusters for requests that wait for the first backend of their service."""

import json
from typing import Any

from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import CLUSTERS
from modelplane.gateway.envoy.envoy_routes import name_routes_file
from modelplane.gateway.envoy.module_filters import SERVICES
from modelplane.gateway.module_files.route_files import HoldEntry, ServiceEntry
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table

A = Backend("ml/a", (("10.0.0.1", 80),), 3, "/ml/a/")
B = Backend("ml/b", (("10.0.0.2", 80),), 5, "/ml/b/")
LAST = Backend("ml/last", (("10.0.0.3", 80),), 9, priority=1)
HELD = "front-door/held/ml/qwen"
FRONT = Front()


def written(*backends: Backend, holds: bool = True, front: Front | None = FRONT) -> dict[str, str]:
    hold = HoldEntry(timeout_seconds=60, max_requests=9) if holds else None
    route = Route("ml/qwen", "/ml/qwen/", backends, "none", ServiceEntry(hold=hold))
    return render_files(Table((Listener("front-door", "127.0.0.1", 80, (route,), front=front),)))


def routes(content: dict[str, str]) -> list[dict[str, Any]]:
    (configuration,) = json.loads(content[name_routes_file("front-door")])["resources"]
    return [each for each in configuration["virtual_hosts"][0]["routes"] if each.get("name") == "ml/qwen"]


def clusters(content: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(content[CLUSTERS])["resources"]}


def test_a_route_without_backends_names_the_cluster_to_come_for_held_requests_alone() -> None:
    held, refusal = routes(written())
    assert held["match"] == {
        "path_separated_prefix": "/ml/qwen",
        "filter_state": [{"key": "modelplane.held", "string_match": {"exact": "1"}}],
    }
    assert held["route"]["cluster"] == HELD
    assert held["metadata"]["filter_metadata"]["modelplane.rewrite"] == {"strip": "/ml/qwen"}
    assert refusal["match"] == {"path_separated_prefix": "/ml/qwen"}
    assert refusal["direct_response"]["status"] == 503
    assert refusal["metadata"] == {"filter_metadata": {"modelplane.rewrite": {"hold": "1"}}}
    assert clusters(written()) == {}
    settings = json.loads(written()[SERVICES])
    assert settings == {"services": {"ml/qwen": {"hold": {"timeoutSeconds": 60, "maxRequests": 9}}}}


def test_the_cluster_comes_with_the_first_backend_and_leads_to_the_largest_share_of_the_first_tier() -> None:
    found = clusters(written(A, LAST, B))
    assert found.keys() == {HELD, *(f"front-door/{each.name}" for each in (A, B, LAST))}
    own = json.dumps(found["front-door/ml/b"]).replace("front-door/ml/b", HELD)
    assert found[HELD] == json.loads(own)
    assert len(routes(written(A, B))) == 1


def test_a_service_that_holds_nothing_has_neither() -> None:
    assert len(routes(written(holds=False))) == len(routes(written(front=None))) == 1
    assert clusters(written(A, holds=False)).keys() == {"front-door/ml/a"}
    assert written(A) != written(A, holds=False)
    assert routes(written(A)) == routes(written(A, holds=False))


def test_held_requests_need_no_change_of_the_listener() -> None:
    with_, without = written(), written(holds=False)
    assert {path for path in with_ if with_[path] != without[path]} == {
        name_routes_file("front-door"),
        SERVICES,
    }

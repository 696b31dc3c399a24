"""Routes of requests that are bound to regions: only where keys may need them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import CLUSTERS
from modelplane.gateway.envoy.module_filters import SERVICES
from modelplane.gateway.module_files.keys import KeyEntry, KeyFile
from modelplane.gateway.module_files.route_files import BackendEntry, BalancingEntry, ServiceEntry
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table

OWN = Backend("ml/own", (("127.0.0.1", 9),), 3, region="eu-west")
PAID = Backend("ml/paid", (("192.0.2.1", 443),))
ROUTE = Route("ml/qwen", "/ml/qwen/", (OWN, PAID))


def key(*services: str, regions: tuple[str, ...] | None = ("eu-west",)) -> KeyEntry:
    return KeyEntry(sha256="ab" * 32, id="ml/ci", namespace="ml", services=services, regions=regions)


def written(*keys: KeyEntry, route: Route = ROUTE, has_keys: bool = True) -> dict[str, Any]:
    front = Front(keys=KeyFile(keys=keys)) if has_keys else Front()
    listener = Listener("front-door", "127.0.0.1", 8800, (route,), front=front)
    return {path: json.loads(text) for path, text in render_files(Table((listener,))).items()}


def routes(content: dict[str, Any]) -> list[dict[str, Any]]:
    [file] = [each for path, each in content.items() if path.startswith("routes/") and "-keys" in path]
    [host] = file["resources"][0]["virtual_hosts"]
    return [each for each in host["routes"] if each["name"] == "ml/qwen"]


@pytest.mark.parametrize(
    ("keys", "is_needed"),
    [
        pytest.param((key("ml/qwen"),), True, id="the service"),
        pytest.param((key("ml/*"),), True, id="its namespace"),
        pytest.param((key("ml/*", regions=()),), True, id="no region in common with the grant"),
        pytest.param((key("ml/other", "web/*"),), False, id="other services"),
        pytest.param((key("ml/*", regions=None),), False, id="no rule"),
        pytest.param((), False, id="no key"),
    ],
)
def test_a_service_has_the_route_if_a_key_with_regions_may_use_it(
    keys: tuple[KeyEntry, ...], is_needed: bool
) -> None:
    content = written(*keys)
    assert ("ml/qwen" in content[SERVICES]["services"]) is is_needed
    found = routes(content)
    assert len(found) == 1 + is_needed
    # Requests of other keys keep the route that they have without any rule.
    assert found[-1] == routes(written())[0]


def test_the_route_is_for_bound_requests_and_their_backends_have_an_order() -> None:
    content = written(key("ml/qwen"))
    bound, own = routes(content)
    state = {"key": "modelplane.regions", "string_match": {"prefix": ","}}
    assert bound["match"] == {**own["match"], "filter_state": [state]}
    assert "weighted_clusters" in own["route"]
    assert "weighted_clusters" not in bound["route"]
    assert content[SERVICES]["services"]["ml/qwen"] == {
        "bound": {
            "backends": [{"name": "ml/own", "weight": 3, "region": "eu-west"}, {"name": "ml/paid"}],
        }
    }


def test_a_service_with_balancing_keeps_its_one_route_and_its_backends_have_regions() -> None:
    entries = (BackendEntry(name="ml/own"), BackendEntry(name="ml/paid"))
    chosen = ServiceEntry(balancing=BalancingEntry(policy="LeastRequests", backends=entries))
    content = written(key("ml/qwen"), route=replace(ROUTE, settings=chosen))
    assert len(routes(content)) == 1
    assert content[SERVICES]["services"]["ml/qwen"] == {
        "balancing": {
            "policy": "LeastRequests",
            "backends": [{"name": "ml/own", "region": "eu-west"}, {"name": "ml/paid"}],
        }
    }


def test_the_region_of_a_backend_is_in_its_cluster() -> None:
    clusters = written()[CLUSTERS]["resources"]
    found = {
        each["name"]: each["metadata"]["filter_metadata"]["modelplane.rewrite"].get("region")
        for each in clusters
    }
    assert found == {"front-door/ml/own": "eu-west", "front-door/ml/paid": None}

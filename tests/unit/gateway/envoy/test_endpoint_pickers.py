"""Envoy's configuration of a backend whose instances a picker chooses."""

import json
from typing import Any

import pytest

from modelplane.gateway.envoy.envoy_files import plan_transition, render_files
from modelplane.gateway.envoy.envoy_names import CLUSTERS, LISTENERS, WITH_MODULE
from modelplane.gateway.route_table import Backend, EndpointPicker, Front, Listener, Route, Table

POLICIES = "type.googleapis.com/envoy.extensions.load_balancing_policies"
EXT_PROC = "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3"


def table(*, fails_open: bool = True, picks: bool = True) -> Table:
    picker = EndpointPicker("ml/p/picker", (("127.77.0.9", 9002),), fails_open) if picks else None
    backend = Backend("ml/r/0/p", (("127.77.0.1", 8000),), prefix="/", picker=picker)
    return Table((Listener("cluster-a", "127.0.0.1", 8900, (Route("ml/r", "/ml/r/", (backend,)),)),))


def resources(written: dict[str, str], path: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(written[path])["resources"]}


def filters(listener: dict[str, Any]) -> dict[str, Any]:
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return {each["name"]: each for each in manager["http_filters"]}


@pytest.mark.parametrize("fails_open", [True, False], ids=["fails open", "fails closed"])
def test_the_route_asks_its_own_picker(fails_open: bool) -> None:
    (configuration,) = resources(render_files(table(fails_open=fails_open)), "routes/cluster-a.json").values()
    route = next(each for each in configuration["virtual_hosts"][0]["routes"] if each["name"] == "ml/r")
    assert route["typed_per_filter_config"] == {
        "envoy.filters.http.ext_proc": {
            "@type": f"{EXT_PROC}.ExtProcPerRoute",
            "overrides": {
                "grpc_service": {"envoy_grpc": {"cluster_name": "cluster-a/ml/p/picker"}},
                "failure_mode_allow": fails_open,
            },
        }
    }


ANY_ONE = {
    "name": "envoy.load_balancing_policies.least_request",
    "typed_config": {"@type": f"{POLICIES}.least_request.v3.LeastRequest"},
}
NO_ONE = {
    "name": "envoy.load_balancing_policies.subset",
    "typed_config": {
        "@type": f"{POLICIES}.subset.v3.Subset",
        "fallback_policy": "NO_FALLBACK",
        "subset_lb_policy": {"policies": [{"typed_extension_config": ANY_ONE}]},
    },
}


@pytest.mark.parametrize(
    ("fails_open", "otherwise"),
    [
        pytest.param(True, ANY_ONE, id="any of them without an answer, if it fails open"),
        pytest.param(False, NO_ONE, id="none of them without an answer, if it fails closed"),
    ],
)
def test_the_answer_is_one_of_the_instances(fails_open: bool, otherwise: dict[str, Any]) -> None:
    cluster = resources(render_files(table(fails_open=fails_open)), CLUSTERS)["cluster-a/ml/r/0/p"]
    (policy,) = cluster["load_balancing_policy"]["policies"]
    assert policy["typed_extension_config"]["typed_config"] == {
        "@type": f"{POLICIES}.override_host.v3.OverrideHost",
        "override_host_sources": [{"header": "x-gateway-destination-endpoint"}],
        "fallback_policy": {"policies": [{"typed_extension_config": otherwise}]},
    }
    assert "lb_policy" not in cluster


def test_the_picker_speaks_http2() -> None:
    options = resources(render_files(table()), CLUSTERS)["cluster-a/ml/p/picker"][
        "typed_extension_protocol_options"
    ]
    (protocol,) = options.values()
    assert "http2_protocol_options" in protocol["explicit_http_config"]


@pytest.mark.parametrize("path", [LISTENERS, WITH_MODULE])
def test_a_first_picker_changes_no_listener(path: str) -> None:
    assert render_files(table())[path] == render_files(table(picks=False))[path]


@pytest.mark.parametrize("path", [LISTENERS, WITH_MODULE])
def test_only_a_picker_names_pods(path: str) -> None:
    found = filters(resources(render_files(table()), path)["cluster-a"])
    dropped = found["modelplane.headers_of_pickers"]["typed_config"]["mutations"]["request_mutations"]
    prefixes = {each["remove_on_match"]["key_matcher"]["prefix"] for each in dropped}
    assert {"x-gateway-destination-endpoint", "x-prefiller-"} <= prefixes
    order = list(found)
    assert order.index("modelplane.headers_of_pickers") < order.index("envoy.filters.http.ext_proc")


def test_the_gateway_of_the_fleet_asks_no_picker() -> None:
    fleet = Listener("fleet", "127.0.0.1", 8800, front=Front())
    assert "envoy.filters.http.ext_proc" not in filters(
        resources(render_files(Table((fleet,))), WITH_MODULE)["fleet"]
    )


def test_the_cluster_of_a_picker_stays_until_no_route_names_it() -> None:
    # Envoy asks no picker where its cluster is missing.
    former, new = render_files(table()), render_files(table(picks=False))
    assert "cluster-a/ml/p/picker" in resources(plan_transition(new, former), CLUSTERS)
    assert "cluster-a/ml/p/picker" not in resources(plan_transition(new, new), CLUSTERS)

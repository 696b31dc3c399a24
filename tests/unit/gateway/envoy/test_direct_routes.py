"""Routes with one backend, which Envoy itself rewrites, and which others have the filter of attempts."""

import json
from dataclasses import replace
from typing import Any

import pytest

from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import LISTENERS, WITH_MODULE, WITH_NEW_MODULE
from modelplane.gateway.envoy.envoy_routes import count_endpoints, route_configuration
from modelplane.gateway.envoy.module_filters import ATTEMPTS
from modelplane.gateway.envoy.token_filters import HEADERS_OF_ATTEMPTS
from modelplane.gateway.module_files.keys import KeyFile
from modelplane.gateway.module_files.route_files import BackendEntry, BalancingEntry, HoldEntry, ServiceEntry
from modelplane.gateway.route_table import (
    Backend,
    CredentialReference,
    EndpointPicker,
    Front,
    Listener,
    Route,
    Table,
    Token,
)
from modelplane.gateway.tokens import HEADERS

OWN = Backend("ml/a", (("10.0.0.1", 80),), prefix="/v1/", overlap="v1", host="own.example:80", region="eu")
CREDENTIAL = CredentialReference("ml", "secret", "key", "authorization", "api.example")
TOKEN = Token(HEADERS[0], "t")


def routes(route: Route, front: Front | None = Front()) -> list[dict[str, Any]]:  # noqa: B008 - a value
    (host,) = route_configuration(Listener("fleet", "127.0.0.1", 80, (route,), front=front))["virtual_hosts"]
    return [each for each in host["routes"] if "route" in each]


def of(*backends: Backend) -> Route:
    return Route("ml/qwen", "/ml/qwen/", backends, "none")


def test_envoy_puts_the_prefix_and_host_of_the_only_backend_in_place() -> None:
    found = routes(of(OWN))
    assert [(each["match"], each["route"]["prefix_rewrite"]) for each in found] == [
        ({"prefix": "/ml/qwen/v1/"}, "/v1/"),
        ({"path": "/ml/qwen/v1"}, "/v1/"),
        ({"prefix": "/ml/qwen/"}, "/v1/"),
        ({"path": "/ml/qwen"}, "/v1/"),
    ]
    for each in found:
        assert each["route"]["host_rewrite_literal"] == "own.example:80"
        assert each["route"]["cluster"] == "fleet/ml/a"
        # Without the module, and with that of release 0.9, a filter rewrites each attempt by this.
        assert each["metadata"]["filter_metadata"]["modelplane.rewrite"]["strip"] == "/ml/qwen"
    assert {each["name"] for each in found} == {"ml/qwen"}


@pytest.mark.parametrize(
    ("backend", "prefix", "expected"),
    [
        pytest.param(
            replace(OWN, overlap="", prefix="/p/"),
            "/ml/qwen/",
            [({"prefix": "/ml/qwen/"}, "/p/"), ({"path": "/ml/qwen"}, "/p/")],
            id="a prefix that is not repeated",
        ),
        pytest.param(
            replace(OWN, overlap="", prefix=""),
            "/ml/qwen/",
            [({"path_separated_prefix": "/ml/qwen"}, None)],
            id="a path that stays as it is",
        ),
        pytest.param(replace(OWN, overlap=""), "/", [({"prefix": "/"}, "/v1/")], id="all paths"),
    ],
)
def test_a_path_has_a_route_for_each_of_its_forms(
    backend: Backend, prefix: str, expected: list[tuple[dict[str, str], str | None]]
) -> None:
    found = routes(Route("ml/qwen", prefix, (backend,), "none"))
    assert [(each["match"], each["route"].get("prefix_rewrite")) for each in found] == expected


@pytest.mark.parametrize(
    ("backend", "disabled"),
    [
        pytest.param(OWN, {ATTEMPTS, HEADERS_OF_ATTEMPTS}, id="a server of its own has no token"),
        pytest.param(replace(OWN, tokens=(TOKEN,)), {ATTEMPTS}, id="a replica gets its token"),
        pytest.param(replace(OWN, tokens=()), {ATTEMPTS}, id="a replica whose token is not there yet"),
    ],
)
def test_filters_that_the_only_backend_does_not_need_are_left_out(
    backend: Backend, disabled: set[str]
) -> None:
    for each in routes(of(backend)):
        assert each["typed_per_filter_config"].keys() == disabled
        assert all(config["disabled"] for config in each["typed_per_filter_config"].values())


def test_the_module_learns_what_the_filter_of_attempts_would_read() -> None:
    for each in routes(of(replace(OWN, served="gemma"))):
        assert each["metadata"]["filter_metadata"]["modelplane.rewrite"]["direct"] == "ml/a\neu\ngemma"


_OTHER = replace(OWN, name="ml/b")
_BALANCING = ServiceEntry(balancing=BalancingEntry(backends=(BackendEntry(name="ml/a"),)))
_PICKER = EndpointPicker("picker", (("10.0.0.9", 9002),), fails_open=False)


@pytest.mark.parametrize(
    ("route", "front"),
    [
        pytest.param(of(OWN), None, id="of the gateway of a cluster"),
        pytest.param(of(OWN, _OTHER), Front(), id="of two backends"),
        pytest.param(of(OWN, replace(_OTHER, priority=1)), Front(), id="of two tiers"),
        pytest.param(replace(of(OWN), settings=_BALANCING), Front(), id="whose attempts the module counts"),
        pytest.param(of(replace(OWN, credential=CREDENTIAL)), Front(), id="with a credential"),
        pytest.param(of(replace(OWN, model="gpt-5")), Front(), id="with a model of its own"),
        pytest.param(of(replace(OWN, picker=_PICKER)), Front(), id="with a picker"),
        pytest.param(
            of(replace(OWN, hosts=(("10.0.0.1", 80), ("10.0.0.2", 80)))),
            Front(),
            id="of two instances, one of which may answer 503 before the other is asked",
        ),
    ],
)
def test_other_routes_keep_the_filter_of_attempts(route: Route, front: Front | None) -> None:
    (found,) = routes(route, front)
    assert found["match"] == {"path_separated_prefix": "/ml/qwen"}
    assert not {ATTEMPTS, HEADERS_OF_ATTEMPTS} & found.get("typed_per_filter_config", {}).keys()
    assert not {"prefix_rewrite", "host_rewrite_literal"} & found["route"].keys()
    assert "direct" not in found["metadata"]["filter_metadata"]["modelplane.rewrite"]


def test_requests_that_wait_for_the_only_backend_have_the_filter_of_attempts() -> None:
    held = replace(of(), settings=ServiceEntry(hold=HoldEntry(timeout_seconds=1, max_requests=1)))
    (found,) = routes(held)
    assert "typed_per_filter_config" not in found


def test_each_service_counts_its_endpoint_once() -> None:
    listener = Listener("fleet", "127.0.0.1", 80, (of(OWN),), front=Front(keys=KeyFile()))
    written = json.dumps({"resources": [route_configuration(listener)]})
    assert count_endpoints([written])["ml/qwen"] == 1


def test_a_request_has_a_time_limit_whatever_module_there_is() -> None:
    listener = Listener("fleet", "127.0.0.1", 80, (of(OWN),), front=Front())
    in_module = '\\"requestTimeoutSeconds\\": 900'
    in_envoy = '"request_timeout":"900s"'
    files = render_files(Table((listener,)))
    for path, limit, other in (
        (LISTENERS, in_envoy, in_module),
        (WITH_MODULE, in_envoy, in_module),
        (WITH_NEW_MODULE, in_module, in_envoy),
    ):
        assert limit in files[path], path
        assert other not in files[path], path


def test_filters_have_names_that_routes_disable_only_where_the_module_does_the_rest() -> None:
    files = render_files(Table((Listener("fleet", "127.0.0.1", 80, (of(OWN),), front=Front()),)))
    for name in (ATTEMPTS, HEADERS_OF_ATTEMPTS):
        assert [f'"{name}"' in files[path] for path in (LISTENERS, WITH_MODULE, WITH_NEW_MODULE)] == [
            False,
            False,
            True,
        ]

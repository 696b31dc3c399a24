"""Which files a table becomes, and which of them a change reaches."""

import json
from dataclasses import replace
from typing import Any

import pytest

from modelplane.gateway.envoy.envoy_files import plan_transition, render_files
from modelplane.gateway.envoy.envoy_names import CLUSTERS, LISTENERS, WITH_MODULE, WITH_NEW_MODULE
from modelplane.gateway.envoy.envoy_routes import name_routes_file
from modelplane.gateway.envoy.module_filters import KEYS, MODELS
from modelplane.gateway.module_files.keys import KeyEntry, KeyFile
from modelplane.gateway.module_files.models import ModelFile, ServiceEntry
from modelplane.gateway.route_table import Backend, Front, Listener, Route, Table, Tls

A = Backend("ml/a", (("10.0.0.1", 80),), 3, "/ml/a/", host="10.0.0.1")
B = Backend("ml/b", (("10.0.0.2", 80), ("10.0.0.3", 80)), 1, "/v1/", "v1", host="10.0.0.2")
OUTSIDE = Backend("ml/outside", (("api.example", 443),), 1, "/", tls=True, host="api.example")


def table(*backends: Backend, name: str = "front-door", port: int = 8080) -> Table:
    return Table((Listener(name, "127.0.0.1", port, (Route("ml/qwen", "/ml/qwen/", backends, "none"),)),))


def changed(before: Table, after: Table) -> set[str]:
    old, new = render_files(before), render_files(after)
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}


ROUTES = name_routes_file("front-door")


@pytest.mark.parametrize(
    ("before", "after", "reached"),
    [
        pytest.param(table(A, B), table(B, A), set(), id="the order of backends means nothing"),
        pytest.param(
            table(A, B), table(replace(A, weight=1), B), {ROUTES}, id="a weight is in the routes only"
        ),
        pytest.param(
            table(A, B),
            table(A, replace(B, hosts=B.hosts[:1])),
            {CLUSTERS},
            id="an instance belongs to its cluster",
        ),
        pytest.param(
            table(A), table(replace(A, prefix="/")), {CLUSTERS}, id="a prefix belongs to its cluster"
        ),
        pytest.param(
            table(A),
            table(A, B),
            {CLUSTERS, ROUTES},
            id="another backend leaves the listener alone, and adds no file",
        ),
        pytest.param(
            table(A),
            table(A, port=8081),
            {LISTENERS, WITH_MODULE, WITH_NEW_MODULE},
            id="a port belongs to its listener",
        ),
    ],
)
def test_a_change_reaches_as_few_files_as_it_can(before: Table, after: Table, reached: set[str]) -> None:
    assert changed(before, after) == reached


def test_two_backends_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match='two different backends of listener "front-door" are named "ml/a"'):
        render_files(table(A, replace(A, prefix="/")))


def test_listeners_share_nothing() -> None:
    both = Table(
        (*table(A).listeners, *table(replace(A, prefix="/"), name="cluster-local", port=8081).listeners)
    )
    assert set(render_files(both)) == {
        CLUSTERS,
        LISTENERS,
        WITH_MODULE,
        WITH_NEW_MODULE,
        "routes/cluster-local.json",
        "routes/front-door.json",
    }
    assert _clusters(render_files(both)) == ["cluster-local/ml/a", "front-door/ml/a"]


def test_a_cluster_stays_until_no_route_names_it() -> None:
    old, new = render_files(table(A)), render_files(table(B))
    first = plan_transition(new, old)
    assert _clusters(first) == ["front-door/ml/b", "front-door/ml/a"]
    assert {path: first[path] for path in first if path != CLUSTERS} == {
        path: content for path, content in new.items() if path != CLUSTERS
    }
    assert plan_transition(new, first) == new


@pytest.mark.parametrize(
    ("before", "after", "staying"),
    [
        pytest.param((A, replace(B, priority=1)), (A,), {"front-door/ml/b"}, id="tiers that end"),
        pytest.param((A, OUTSIDE), (A, replace(B, priority=1)), {"front-door/ml/outside"}, id="tiers begin"),
    ],
)
def test_a_cluster_of_a_tier_stays_until_no_route_names_it(
    before: tuple[Backend, ...], after: tuple[Backend, ...], staying: set[str]
) -> None:
    old, new = render_files(table(*before)), render_files(table(*after))
    first = plan_transition(new, old)
    assert set(_clusters(first)) == {*_clusters(new), *staying}
    assert plan_transition(new, first) == new


def test_routes_share_a_backend_in_different_tiers() -> None:
    routes = tuple(
        Route(name, f"/{name}/", (A, replace(B, priority=priority)), "none")
        for name, priority in (("ml/x", 1), ("ml/y", 0))
    )
    content = render_files(Table((Listener("front-door", "127.0.0.1", 8080, routes),)))
    assert _clusters(content) == ["front-door/ml/a", "front-door/ml/b"]


def test_clusters_do_not_pile_up_while_routes_keep_changing() -> None:
    current = render_files(table(A))
    for weight in range(2, 6):
        current = plan_transition(render_files(table(replace(B, weight=weight), OUTSIDE)), current)
    assert _clusters(current) == ["front-door/ml/b", "front-door/ml/outside"]


@pytest.mark.parametrize(
    "old",
    [
        pytest.param({}, id="nothing"),
        pytest.param({CLUSTERS: "{"}, id="half a file"),
        pytest.param({CLUSTERS: "{}", ROUTES: '{"resources":[{}]}'}, id="another form"),
        pytest.param(render_files(Table()), id="an empty table"),
    ],
)
def test_what_cannot_be_read_holds_nothing_back(old: dict[str, str]) -> None:
    assert plan_transition(render_files(table(A)), old) == render_files(table(A))


def _resources(written: dict[str, str], path: str) -> list[dict[str, Any]]:
    return list(json.loads(written[path])["resources"])


def _clusters(written: dict[str, str]) -> list[str]:
    return [each["name"] for each in _resources(written, CLUSTERS)]


LIMITED = Front(keys=KeyFile(keys=(KeyEntry(sha256="ab", id="ml/a", namespace="ml", services=("ml/*",)),)))


def _listeners(content: dict[str, str], path: str) -> list[dict[str, Any]]:
    return list(json.loads(content[path])["resources"])


@pytest.mark.parametrize("front", [pytest.param(None, id="no front"), pytest.param(Front(), id="open")])
def test_without_keys_a_listener_opens_with_or_without_the_module(front: Front | None) -> None:
    content = render_files(Table((Listener("front-door", "127.0.0.1", 8080, front=front),)))
    assert [len(_listeners(content, path)) for path in (LISTENERS, WITH_MODULE)] == [1, 1]
    assert KEYS not in content


def test_with_keys_a_listener_opens_with_the_module_only() -> None:
    content = render_files(Table((Listener("front-door", "127.0.0.1", 8080, front=LIMITED),)))
    assert [len(_listeners(content, path)) for path in (LISTENERS, WITH_MODULE)] == [0, 1]
    assert LIMITED.keys == KeyFile.parse(content[KEYS].encode())


def test_keys_change_no_listener() -> None:
    one, other = (
        render_files(Table((Listener("front-door", "127.0.0.1", 8080, front=front),)))
        for front in (LIMITED, Front(keys=KeyFile()))
    )
    assert {path for path in one if one[path] != other[path]} == {KEYS}


def test_the_list_of_models_is_a_file_that_changes_no_listener() -> None:
    listed = ModelFile(services=(ServiceEntry(name="ml/qwen", created=5),))
    one, other = (
        render_files(Table((Listener("front-door", "127.0.0.1", 8080, front=Front(models=models)),)))
        for models in (ModelFile(), listed)
    )
    assert {path for path in one if one[path] != other[path]} == {MODELS}
    assert json.loads(other[MODELS]) == {"services": [{"name": "ml/qwen", "created": 5}], "aliases": []}
    assert f'\\"models\\": \\"./{MODELS}\\"' in other[WITH_MODULE]
    assert MODELS not in other[LISTENERS]


@pytest.mark.parametrize(
    ("front", "tls", "used", "emptied"),
    [
        pytest.param(Front(), None, "front-door", [], id="open"),
        pytest.param(LIMITED, None, "front-door-keys", ["front-door"], id="keys"),
        pytest.param(Front(), Tls(()), "front-door-tls", ["front-door"], id="TLS"),
        pytest.param(
            LIMITED,
            Tls(()),
            "front-door-keys-tls",
            ["front-door", "front-door-keys", "front-door-tls"],
            id="both",
        ),
    ],
)
def test_connections_of_a_listener_that_needed_less_lead_nowhere(
    front: Front, tls: Tls | None, used: str, emptied: list[str]
) -> None:
    routes = (Route("ml/qwen", "/ml/qwen/", (A,)),)
    content = render_files(Table((Listener("front-door", "127.0.0.1", 8080, routes, front=front, tls=tls),)))
    led = {path: "ml/qwen" in text for path, text in content.items() if path.startswith("routes/")}
    assert led == {name_routes_file(used): True, **{name_routes_file(name): False for name in emptied}}
    for name in (used, *emptied):
        (configuration,) = _listeners(content, name_routes_file(name))
        assert configuration["name"] == name

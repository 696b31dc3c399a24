"""Which files a table becomes, and which of them a change reaches."""

import json
from dataclasses import replace
from typing import Any

import pytest

from modelplane.gateway.envoy.files import CLUSTERS, LISTENERS, files, transition
from modelplane.gateway.envoy.routes import routes_file
from modelplane.gateway.table import Backend, Listener, Route, Table

A = Backend("ml/a", (("10.0.0.1", 80),), 3, "/ml/a/", host="10.0.0.1")
B = Backend("ml/b", (("10.0.0.2", 80), ("10.0.0.3", 80)), 1, "/v1/", "v1", host="10.0.0.2")
OUTSIDE = Backend("ml/outside", (("api.example", 443),), 1, "/", tls=True, host="api.example")


def table(*backends: Backend, name: str = "front-door", port: int = 8080) -> Table:
    return Table((Listener(name, "127.0.0.1", port, (Route("ml/qwen", "/ml/qwen/", backends, "none"),)),))


def changed(before: Table, after: Table) -> set[str]:
    old, new = files(before), files(after)
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}


ROUTES = routes_file("front-door")


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
        pytest.param(table(A), table(A, port=8081), {LISTENERS}, id="a port belongs to its listener"),
    ],
)
def test_a_change_reaches_as_few_files_as_it_can(before: Table, after: Table, reached: set[str]) -> None:
    assert changed(before, after) == reached


def test_two_backends_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match='two different backends of listener "front-door" are named "ml/a"'):
        files(table(A, replace(A, prefix="/")))


def test_listeners_share_nothing() -> None:
    both = Table(
        (*table(A).listeners, *table(replace(A, prefix="/"), name="cluster-local", port=8081).listeners)
    )
    assert set(files(both)) == {
        CLUSTERS,
        LISTENERS,
        "routes/cluster-local.json",
        "routes/front-door.json",
    }
    assert _clusters(files(both)) == ["cluster-local/ml/a", "front-door/ml/a"]


def test_a_cluster_stays_until_no_route_names_it() -> None:
    old, new = files(table(A)), files(table(B))
    first = transition(new, old)
    assert _clusters(first) == ["front-door/ml/b", "front-door/ml/a"]
    assert {path: first[path] for path in first if path != CLUSTERS} == {
        path: content for path, content in new.items() if path != CLUSTERS
    }
    assert transition(new, first) == new


def test_clusters_do_not_pile_up_while_routes_keep_changing() -> None:
    current = files(table(A))
    for weight in range(2, 6):
        current = transition(files(table(replace(B, weight=weight), OUTSIDE)), current)
    assert _clusters(current) == ["front-door/ml/b", "front-door/ml/outside"]


@pytest.mark.parametrize(
    "old",
    [
        pytest.param({}, id="nothing"),
        pytest.param({CLUSTERS: "{"}, id="half a file"),
        pytest.param({CLUSTERS: "{}", ROUTES: '{"resources":[{}]}'}, id="another form"),
        pytest.param(files(Table()), id="an empty table"),
    ],
)
def test_what_cannot_be_read_holds_nothing_back(old: dict[str, str]) -> None:
    assert transition(files(table(A)), old) == files(table(A))


def _resources(written: dict[str, str], path: str) -> list[dict[str, Any]]:
    return list(json.loads(written[path])["resources"])


def _clusters(written: dict[str, str]) -> list[str]:
    return [each["name"] for each in _resources(written, CLUSTERS)]

"""What is written for Envoy, and in which order."""

import json
from pathlib import Path

import pytest

from modelplane.gateway.envoy.envoy_files import render_files, select_listeners
from modelplane.gateway.envoy.envoy_names import CLUSTERS, LISTENERS, WITH_MODULE, WITH_NEW_MODULE
from modelplane.gateway.envoy.envoy_routes import name_routes_file
from modelplane.gateway.route_table import Backend, Listener, Route, Table
from modelplane.proxy import envoy_directory as envoy_files, module

ROUTES = name_routes_file("front-door")


def table(*names: str) -> Table:
    backends = tuple(Backend(f"ml/{name}", (("10.0.0.1", 80),), prefix="/") for name in names)
    return Table(
        (Listener("front-door", "127.0.0.1", 8080, (Route("ml/qwen", "/ml/qwen/", backends, "no"),)),)
    )


def test_nothing_refers_to_what_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def record(path: Path, content: str | bytes) -> None:
        order.append(path.relative_to(tmp_path).as_posix())
        path.write_text(content if isinstance(content, str) else content.decode())

    monkeypatch.setattr(envoy_files, "write_private", record)
    assert envoy_files.write(tmp_path, render_files(table("b", "a")))
    assert order == [CLUSTERS, ROUTES, WITH_MODULE, LISTENERS]


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    envoy_files.write(tmp_path, render_files(table("a")))
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*.json")}
    assert envoy_files.write(tmp_path, render_files(table("a", "b")))
    after = {path: path.stat().st_ino for path in tmp_path.rglob("*.json")}
    replaced = {path.relative_to(tmp_path).as_posix() for path in after if after[path] != before.get(path)}
    assert replaced == {CLUSTERS, ROUTES}
    assert not envoy_files.write(tmp_path, render_files(table("a", "b")))


def test_what_routes_have_left_goes_with_the_next_call(tmp_path: Path) -> None:
    envoy_files.write(tmp_path, render_files(table("a")))
    assert envoy_files.write(tmp_path, render_files(table("b")))
    assert "front-door/ml/a" in (tmp_path / CLUSTERS).read_text()
    assert envoy_files.write(tmp_path, render_files(table("b")))
    assert {
        path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.json")
    } == select_listeners(render_files(table("b")), has_new_module=False)
    assert not envoy_files.write(tmp_path, render_files(table("b")))


def test_files_of_an_earlier_version_are_deleted(tmp_path: Path) -> None:
    former = tmp_path / "endpoints" / "front-door_ml_a.json"
    former.parent.mkdir()
    former.write_text("{}")
    assert envoy_files.write(tmp_path, render_files(table("a")))
    assert not former.exists()


def test_an_envoy_gets_the_listeners_for_the_module_that_it_runs(tmp_path: Path) -> None:
    published = render_files(table("a"))
    assert published[WITH_MODULE] != published[WITH_NEW_MODULE]
    bootstrap = tmp_path / module.BOOTSTRAP
    for node, expected in (
        ({}, WITH_MODULE),
        ({"metadata": {"modelplane": {"module": 2}}}, WITH_NEW_MODULE),
        ({"metadata": {"modelplane": {"module": 3}}}, WITH_MODULE),
    ):
        bootstrap.write_text(json.dumps({"node": node}))
        envoy_files.write(tmp_path, published)
        assert (tmp_path / WITH_MODULE).read_text() == published[expected], node
        assert not (tmp_path / WITH_NEW_MODULE).exists()


def test_controllers_of_the_last_release_serve_an_envoy_with_the_new_module(tmp_path: Path) -> None:
    (tmp_path / module.BOOTSTRAP).write_text(json.dumps({"node": {"metadata": module.STATE}}))
    published = render_files(table("a"))
    del published[WITH_NEW_MODULE]
    envoy_files.write(tmp_path, published)
    assert (tmp_path / WITH_MODULE).read_text() == published[WITH_MODULE]

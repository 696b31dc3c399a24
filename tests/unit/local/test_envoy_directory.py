"""What is written for Envoy, in which order, and what is left alone."""

import json
import os
import socket
from pathlib import Path

import pytest

from modelplane.local import envoy, unix_sockets
from modelplane.routing.envoy_files import CLUSTERS, LISTENERS, files
from modelplane.routing.envoy_routes import routes_file
from modelplane.routing.table import Backend, Listener, Route, Table

DOOR = Listener("front-door", "127.0.0.1", 8080)
ROUTES = routes_file("front-door")


def table(*names: str) -> Table:
    backends = tuple(Backend(f"ml/{name}", (("10.0.0.1", 80),), prefix="/") for name in names)
    return Table(
        (Listener("front-door", "127.0.0.1", 8080, (Route("ml/qwen", "/ml/qwen/", backends, "no"),)),)
    )


def instances(name: str) -> str:
    return f"endpoints/front-door_ml_{name}.json"


def test_nothing_refers_to_what_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def record(path: Path, content: str | bytes) -> None:
        order.append(path.relative_to(tmp_path).as_posix())
        path.write_text(content if isinstance(content, str) else content.decode())

    monkeypatch.setattr(envoy, "write_private", record)
    assert envoy.write(tmp_path, files(table("b", "a")))
    assert order == [instances("a"), instances("b"), CLUSTERS, ROUTES, LISTENERS]


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    envoy.write(tmp_path, files(table("a")))
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*.json")}
    assert envoy.write(tmp_path, files(table("a", "b")))
    after = {path: path.stat().st_ino for path in tmp_path.rglob("*.json")}
    replaced = {path.relative_to(tmp_path).as_posix() for path in after if after[path] != before.get(path)}
    assert replaced == {CLUSTERS, ROUTES, instances("b")}
    assert not envoy.write(tmp_path, files(table("a", "b")))


def test_what_routes_have_left_goes_with_the_next_call(tmp_path: Path) -> None:
    envoy.write(tmp_path, files(table("a")))
    assert envoy.write(tmp_path, files(table("b")))
    assert (tmp_path / instances("a")).exists()
    assert envoy.write(tmp_path, files(table("b")))
    assert {
        path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.json")
    } == files(table("b"))
    assert not envoy.write(tmp_path, files(table("b")))


def test_a_restart_keeps_the_routes_that_were_written(tmp_path: Path) -> None:
    envoy.prepare(tmp_path, (DOOR,))
    assert (tmp_path / ROUTES).read_text() == files(Table((DOOR,)))[ROUTES]
    envoy.write(tmp_path, files(table("a")))
    envoy.prepare(tmp_path, (DOOR,))
    assert (tmp_path / ROUTES).read_text() == files(table("a"))[ROUTES]


def test_the_first_routes_do_not_touch_the_listener_that_was_prepared(tmp_path: Path) -> None:
    envoy.prepare(tmp_path, (DOOR,))
    before = (tmp_path / LISTENERS).stat().st_ino
    envoy.write(tmp_path, files(table("a")))
    assert (tmp_path / LISTENERS).stat().st_ino == before


def test_nobody_else_can_read_what_is_prepared(tmp_path: Path) -> None:
    directory = tmp_path / "envoy"
    envoy.prepare(directory, (DOOR,))
    modes = {path.stat().st_mode & 0o077 for path in (directory, *directory.rglob("*"))}
    assert modes == {0}


def test_the_administration_interface_is_named_from_the_directory_however_long_its_path(
    tmp_path: Path,
) -> None:
    directory = tmp_path / ("x" * 200)
    envoy.prepare(directory, (DOOR,))
    admin = json.loads((directory / "bootstrap.json").read_text())["admin"]
    assert admin == {"address": {"pipe": {"path": "./admin.sock", "mode": 0o600}}}
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as connection:
        here = os.open(directory, os.O_PATH)
        listening.bind(f"/proc/self/fd/{here}/admin.sock")
        os.close(here)
        listening.listen()
        unix_sockets.connect(connection, envoy.admin_socket(directory))


def test_a_directory_that_is_prepared_already_needs_no_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("authorities")
    envoy.prepare(tmp_path / "envoy", (DOOR,), bundle)
    monkeypatch.setattr(envoy, "write_private", lambda path, _content: pytest.fail(f"{path} is written"))
    envoy.prepare(tmp_path / "envoy", (DOOR,), bundle)


def test_the_port_that_another_program_holds_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        envoy.prepare(tmp_path, (DOOR, Listener("cluster-local", "127.0.0.1", port)))
        said = f"port {port} of 127.0.0.1 is taken by another program: stop that program"
        assert envoy.port_taken(tmp_path) == said
    assert envoy.port_taken(tmp_path) == ""

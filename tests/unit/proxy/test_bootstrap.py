"""What Envoy starts with, and what is left alone."""

import resource
import socket
from pathlib import Path

import pytest

from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.envoy.envoy_names import LISTENERS
from modelplane.gateway.envoy.envoy_routes import name_routes_file
from modelplane.gateway.route_table import Backend, Listener, Route, Table
from modelplane.proxy import envoy_bootstrap, envoy_directory as envoy_files

LISTENER = Listener("front-door", "127.0.0.1", 8080)
ROUTES = name_routes_file("front-door")


def table(*names: str) -> Table:
    backends = tuple(Backend(f"ml/{name}", (("10.0.0.1", 80),), prefix="/") for name in names)
    return Table(
        (Listener("front-door", "127.0.0.1", 8080, (Route("ml/qwen", "/ml/qwen/", backends, "no"),)),)
    )


def test_a_restart_keeps_the_routes_that_were_written(tmp_path: Path) -> None:
    envoy_bootstrap.prepare(tmp_path, (LISTENER,))
    assert (tmp_path / ROUTES).read_text() == render_files(Table((LISTENER,)))[ROUTES]
    envoy_files.write(tmp_path, render_files(table("a")))
    envoy_bootstrap.prepare(tmp_path, (LISTENER,))
    assert (tmp_path / ROUTES).read_text() == render_files(table("a"))[ROUTES]


def test_the_first_routes_do_not_touch_the_listener_that_was_prepared(tmp_path: Path) -> None:
    envoy_bootstrap.prepare(tmp_path, (LISTENER,))
    before = (tmp_path / LISTENERS).stat().st_ino
    envoy_files.write(tmp_path, render_files(table("a")))
    assert (tmp_path / LISTENERS).stat().st_ino == before


def test_nobody_else_can_read_what_is_prepared(tmp_path: Path) -> None:
    directory = tmp_path / "envoy"
    envoy_bootstrap.prepare(directory, (LISTENER,))
    modes = {path.stat().st_mode & 0o077 for path in (directory, *directory.rglob("*"))}
    assert modes == {0}


def test_a_directory_that_is_prepared_already_needs_no_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("authorities")
    envoy_bootstrap.prepare(tmp_path / "envoy", (LISTENER,), bundle)
    for module in (envoy_bootstrap, envoy_files):
        monkeypatch.setattr(module, "write_private", lambda path, _content: pytest.fail(f"{path} is written"))
    envoy_bootstrap.prepare(tmp_path / "envoy", (LISTENER,), bundle)


def test_the_port_that_another_program_holds_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        front = Listener("front-door", "127.0.0.1", free.getsockname()[1])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        envoy_bootstrap.prepare(tmp_path, (front, Listener("cluster-local", "127.0.0.1", port)))
        said = f"another program uses port {port} of 127.0.0.1: stop that program"
        assert envoy_bootstrap.find_taken_port(tmp_path) == said
    assert envoy_bootstrap.find_taken_port(tmp_path) is None


def test_a_user_without_inotify_instances_learns_which_limit_to_raise(tmp_path: Path) -> None:
    envoy_bootstrap.prepare(tmp_path, (LISTENER,))
    assert envoy_bootstrap.find_missing_watches(tmp_path) is None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (tmp_path / "free").open("wb") as lowest:
        # The kernel refuses an instance without a descriptor with the same error as one too many.
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + 1, hard))
        try:
            lowest.close()
            problem = envoy_bootstrap.find_missing_watches(tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "Envoy requires 3 inotify instances to watch its files" in (problem or "")
    assert "raise the limit with sysctl fs.inotify.max_user_instances=1024" in (problem or "")

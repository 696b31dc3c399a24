"""The module in the directory of an Envoy: copied, tried, and left out if it cannot be loaded."""

import stat
from pathlib import Path

import pytest

from modelplane.gateway.envoy.envoy_names import LISTENERS, WITH_MODULE
from modelplane.gateway.route_table import Listener
from modelplane.proxy import envoy_bootstrap, module

LISTENER = Listener("front-door", "127.0.0.1", 8080)

MATCHED = "echo '[info] Dynamic module ABI version v9.9.9 matched.' >&2"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "built.so"
    path.write_bytes(b"library")
    return path


@pytest.fixture
def envoy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a stand-in of Envoy that loads every module."""
    path = tmp_path / "envoy"
    monkeypatch.setattr(envoy_bootstrap, "find_binary", lambda: path)
    says(path, MATCHED)
    return path


def says(envoy: Path, script: str) -> None:
    envoy.write_text(f"#!/bin/sh\n{script}\n")
    envoy.chmod(0o700)


def copies(directory: Path) -> list[Path]:
    return list((directory / "modules").glob("*"))


@pytest.mark.usefixtures("envoy")
def test_envoy_has_a_copy_of_its_own(tmp_path: Path, library: Path) -> None:
    directory = tmp_path / "run"
    assert envoy_bootstrap.prepare(directory, (LISTENER,), library=library) is None
    library.unlink()
    (copy,) = copies(directory)
    assert (copy.read_bytes(), stat.S_IMODE(copy.stat().st_mode)) == (b"library", 0o600)
    assert (module.find_listeners_file(directory), module.find_missing(directory)) == (WITH_MODULE, None)


def test_without_a_library_envoy_runs_without(tmp_path: Path) -> None:
    problem = envoy_bootstrap.prepare(tmp_path, (LISTENER,))
    assert "make gateway-module" in (problem or "")
    assert module.find_listeners_file(tmp_path) == LISTENERS
    assert "make gateway-module" in (module.find_missing(tmp_path) or "")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("echo 'undefined symbol' >&2; exit 1", "undefined symbol", id="it cannot be loaded"),
        pytest.param(
            "echo 'Dynamic module ABI version v0.1.0 is deprecated' >&2", "another Envoy", id="another ABI"
        ),
    ],
)
def test_a_module_that_envoy_does_not_take_is_not_kept(
    tmp_path: Path, library: Path, envoy: Path, script: str, said: str
) -> None:
    directory = tmp_path / "run"
    envoy_bootstrap.prepare(directory, (LISTENER,), library=library)
    says(envoy, script)
    assert said in (envoy_bootstrap.prepare(directory, (LISTENER,), library=library) or "")
    assert copies(directory) == []
    assert module.find_listeners_file(directory) == LISTENERS


@pytest.mark.usefixtures("envoy")
def test_listeners_of_an_earlier_version_serve_until_there_are_others(tmp_path: Path, library: Path) -> None:
    directory = tmp_path / "run"
    envoy_bootstrap.prepare(directory, (LISTENER,))
    (directory / WITH_MODULE).unlink()
    envoy_bootstrap.prepare(directory, (LISTENER,), library=library)
    assert module.find_listeners_file(directory) == LISTENERS
    (directory / WITH_MODULE).write_text((directory / LISTENERS).read_text())
    envoy_bootstrap.prepare(directory, (LISTENER,), library=library)
    assert module.find_listeners_file(directory) == WITH_MODULE

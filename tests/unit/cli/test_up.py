import importlib
import subprocess
import sys

import pytest
from click.testing import CliRunner

from modelplane.cli.machine.build_progress import WITHOUT_MODULE
from modelplane.cli.main import main
from modelplane.host.errors import LocalError
from modelplane.kube.errors import Unreachable
from modelplane.local.build import Progress
from modelplane.local.home import Home
from modelplane.user_error import UserError

up = importlib.import_module("modelplane.cli.machine.up")
fleet_installation = importlib.import_module("modelplane.cli.machine.fleet_installation")

GOES_ON = (
    "Started processes keep running. To see them, run `modelplane status`; to stop them, `modelplane down`\n"
)


def run(tmp_path, *options):
    return CliRunner().invoke(main, ["up", "--home", str(tmp_path), *options])


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A fleet that starts and is waited for as the test says."""
    monkeypatch.setattr(up, "_find_or_build", lambda _console: tmp_path / "binary")
    monkeypatch.setattr(up.gateway_module, "find", lambda: tmp_path / "library")
    monkeypatch.setattr(up, "_start", lambda _place, _program, _choice: True)

    def ends_with(error):
        async def install(*_arguments):
            raise error

        monkeypatch.setattr(fleet_installation, "install", install)

    return ends_with


def test_an_interrupted_build_goes_on_the_next_time(monkeypatch, tmp_path):
    def interrupted(_report):
        raise KeyboardInterrupt

    monkeypatch.setattr(up.binary, "find_or_build", interrupted)
    result = run(tmp_path)
    assert (result.exit_code, result.output) == (
        130,
        "\nThe build is not finished. The next `modelplane up` continues the build\n",
    )


def test_an_interrupted_start_says_what_still_runs(started, tmp_path):
    started(KeyboardInterrupt())
    result = run(tmp_path)
    assert (result.exit_code, result.output) == (130, f"Starting a fleet in {tmp_path}\n\n{GOES_ON}")


def test_a_start_that_fails_says_what_still_runs(started, tmp_path):
    started(LocalError("etcd keeps ending"))
    result = run(tmp_path)
    assert (result.exit_code, result.output) == (
        1,
        f"Starting a fleet in {tmp_path}\nError: etcd keeps ending\n{GOES_ON}",
    )


def test_an_interrupted_start_in_the_foreground_stops_the_fleet(started, monkeypatch, tmp_path):
    stopped: list[Home] = []
    monkeypatch.setattr(up.lifecycle, "stop", stopped.append)
    started(KeyboardInterrupt())
    result = run(tmp_path, "--foreground")
    assert (result.exit_code, result.output) == (0, f"Starting a fleet in {tmp_path}\n\nStopping\n")
    assert [home.root for home in stopped] == [tmp_path]


def test_a_module_that_is_missing_is_built_and_said(started, monkeypatch, tmp_path):
    def built(report):
        report(Progress("compiling the gateway module"))
        return tmp_path / "library"

    started(KeyboardInterrupt())
    monkeypatch.setattr(up.gateway_module, "find", lambda: None)
    monkeypatch.setattr(up.gateway_module, "find_or_build", built)
    lines = run(tmp_path).output.splitlines()
    assert (
        lines[0]
        == "Building the gateway module from source. This happens once, and takes about a minute on two cores"
    )
    assert f"Built {tmp_path}/library in 0 s" in lines
    assert f"Starting a fleet in {tmp_path}" in lines


def test_without_a_module_a_fleet_starts_and_one_line_says_what_is_missing(started, monkeypatch, tmp_path):
    def unable(_report):
        raise LocalError("cannot build the gateway module: cargo failed:\n  one\n  two")

    started(KeyboardInterrupt())
    monkeypatch.setattr(up.gateway_module, "find", lambda: None)
    monkeypatch.setattr(up.gateway_module, "find_or_build", unable)
    lines = run(tmp_path).output.splitlines()
    assert lines[:2] == [
        f"{WITHOUT_MODULE}: cannot build the gateway module: cargo failed: one two",
        f"Starting a fleet in {tmp_path}",
    ]


@pytest.fixture
def installs(monkeypatch):
    """The tries of a server that answers nothing until a fleet is installed for the third time."""
    tries = []

    async def install(*_arguments):
        tries.append(1)
        if len(tries) != 3:
            raise Unreachable("no response within 10 s")

    async def services(_client):
        return {}

    monkeypatch.setattr(fleet_installation, "_AGAIN_S", 0.01)
    monkeypatch.setattr(fleet_installation.cluster_registration, "install", install)
    monkeypatch.setattr(fleet_installation.served, "list_services", services)
    return tries


async def test_what_an_api_server_does_not_answer_is_tried_again(installs, tmp_path):
    await fleet_installation._install(None, Home(tmp_path), None, None, 60)
    assert len(installs) == 3


async def test_what_it_never_answers_ends_with_the_cause(installs, tmp_path):
    installs += [1] * 3
    with pytest.raises(UserError, match=r"not done after 0.05 s \(no response within 10 s\)"):
        await fleet_installation._install(None, Home(tmp_path), None, None, 0.05)


def test_what_is_installed_is_not_imported_before_the_servers_start():
    program = (
        "import sys, modelplane.cli.machine.up; "
        "sys.exit(any(name.startswith(('modelplane.compose', 'modelplane.kube.')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

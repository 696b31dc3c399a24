import importlib

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.host.errors import LocalError
from modelplane.local.home import Home

up = importlib.import_module("modelplane.cli.up")

GOES_ON = "Started processes keep running: `modelplane status` shows them, `modelplane down` stops them\n"


def run(tmp_path, *options):
    return CliRunner().invoke(main, ["up", "--home", str(tmp_path), *options])


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A fleet that starts and is waited for as the test says."""
    monkeypatch.setattr(up, "_find_or_build", lambda _console: tmp_path / "binary")
    monkeypatch.setattr(up, "_start", lambda _place, _program, _choice: True)

    def ends_with(error):
        async def until_ready(*_arguments):
            raise error

        monkeypatch.setattr(up, "_until_ready", until_ready)

    return ends_with


def test_an_interrupted_build_goes_on_the_next_time(monkeypatch, tmp_path):
    def interrupted(_report):
        raise KeyboardInterrupt

    monkeypatch.setattr(up.binary, "find_or_build", interrupted)
    result = run(tmp_path)
    assert (result.exit_code, result.output) == (
        130,
        "\nThe build is not finished: the next `modelplane up` continues it\n",
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

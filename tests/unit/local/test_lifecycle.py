"""Two commands on one home, and what is left of it at the end."""

import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.host import file_system
from modelplane.host.errors import LocalError
from modelplane.local.home import Home
from modelplane.local.supervision import lifecycle, locks

_HAS_ITS_TURN = """
import sys, time
from pathlib import Path
from modelplane.local.supervision import lifecycle
from modelplane.local.home import Home
with lifecycle.hold_turn(Home(Path(sys.argv[1]))):
    print("turn", flush=True)
    time.sleep(0.5)
"""


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path / "home")
    made.create()
    return made


def down(home, *options):
    return CliRunner().invoke(main, ["down", "--home", str(home.root), *options])


def test_commands_have_their_turn_one_after_the_other(home):
    with subprocess.Popen(
        [sys.executable, "-c", _HAS_ITS_TURN, home.root], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "turn\n"
        assert lifecycle.find_busy(home)
        began = time.monotonic()
        with lifecycle.hold_turn(home):
            waited_s = time.monotonic() - began
    assert waited_s > 0.2
    assert not lifecycle.find_busy(home)


def test_a_home_is_purged_and_what_others_put_there_stays(home):
    home.settings.write_text("{}")
    (home.root / "thesis.tex").touch()
    lifecycle.purge(home)
    assert [path.name for path in home.root.iterdir()] == ["thesis.tex"]


def test_what_runs_is_not_purged(home):
    with subprocess.Popen(
        [sys.executable, "-c", _HAS_ITS_TURN, home.root], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "turn\n"
        with pytest.raises(LocalError, match="processes are still running in"):
            lifecycle.purge(home)
    assert home.run.exists()


def test_data_that_cannot_be_deleted_is_named_and_the_home_stays_a_fleet(home, monkeypatch):
    home.settings.write_text("{}")

    def refused(path):
        raise PermissionError(13, "Permission denied", str(path / "weights.bin"))

    monkeypatch.setattr(file_system, "remove_folder", refused)
    with pytest.raises(LocalError, match=r'^cannot delete ".*weights\.bin": Permission denied: delete it'):
        lifecycle.purge(home)
    assert home.settings.exists()


def test_what_is_no_fleet_is_not_purged(home):
    log = home.log("app")
    log.write_text("somebody else's")
    result = down(home, "--purge")
    assert (result.exit_code, result.output) == (0, f"No processes are running in {home.root}\n")
    assert log.read_text() == "somebody else's"


def test_a_directory_of_somebody_else_does_not_become_a_fleet(home, monkeypatch):
    (home.root / "thesis.tex").touch()
    home.root.chmod(0o755)
    monkeypatch.setenv("MODELPLANE_KUBERNETES_BINARY", sys.executable)
    result = CliRunner().invoke(main, ["up", "--home", str(home.root)])
    assert (result.exit_code, result.output) == (
        1,
        (
            f"Error: {home.root} contains files that don't belong to a fleet: choose another directory "
            "with --home\n"
        ),
    )
    assert home.root.stat().st_mode & 0o777 == 0o755
    assert locks.find_holder(home.lock("supervisor")) is None


_ENDS_ITS_START = """
import signal, sys
from pathlib import Path
from modelplane.local.supervision import locks
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
locks.take(Path(sys.argv[1]))
print("started", flush=True)
print(signal.sigwait({signal.SIGWINCH}) is signal.SIGWINCH, flush=True)
"""


def test_servers_are_told_that_their_start_is_over_and_one_that_does_not_run_is_left_out(home):
    with subprocess.Popen(
        [sys.executable, "-c", _ENDS_ITS_START, home.lock("etcd")], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        assert server.stdout.readline() == "started\n"
        lifecycle.end_start(home, ["control-plane", "etcd"])
        assert server.stdout.readline() == "True\n"


_KNOWS_NO_SIGNAL = """
import sys
from pathlib import Path
from modelplane.local.supervision import locks
locks.take(Path(sys.argv[1]))
print("started", flush=True)
sys.stdin.read()
"""


def test_a_server_that_does_not_know_the_signal_goes_on(home):
    with subprocess.Popen(
        [sys.executable, "-c", _KNOWS_NO_SIGNAL, home.lock("etcd")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout
        assert server.stdout.readline() == "started\n"
        lifecycle.end_start(home, ["etcd"])
        server.communicate("")
    assert server.returncode == 0

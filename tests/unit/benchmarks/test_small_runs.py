"""Every benchmark runs, small: one that crashes measures nothing for as long as nobody looks."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

SMALL = {
    "autoscalers": "--number 2 --json",
    "autoscaling": "--json",
    "capacity": "--nodes 2 --devices 2",
    "dashboard": "--clusters 2 --json",
    "function": "--clusters 8 --replicas 6 --rounds 2 --json",
    "hydration": "--pairs 1 --files 1 --file-mib 1 --json",
    "infrastructure": "--clusters 0 --clouds Vultr --rounds 1 --json",
    "keys": "--keys 100 --json",
    "placement_gap": "--fleets 2 --json",
    "plan": "--clusters 2 --rounds 1",
    "schedule": "--clusters 5 --replicas 2 --rounds 2 --end-to-end --json",
    "startup": "--rounds 1",
}
"""Those that need no server, with options that make them small."""

WITH_SERVERS = {
    "compare",
    "first_answer",
    "fleet",
    "gateway",
    "gateway_instructions",
    "history",
    "newcomer",
    "streams",
    "transports",
    "walls",
}
"""Those that need a control plane, an Envoy or another commit, which `make test-kubernetes` has."""


def test_every_benchmark_is_run_small_or_known_to_need_a_server() -> None:
    programs = {each.stem for each in BENCHMARKS.glob("*.py") if '__name__ == "__main__"' in each.read_text()}
    assert programs == SMALL.keys() | WITH_SERVERS


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_benchmark_without_a_server_prints_figures(name: str) -> None:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *SMALL[name].split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout[done.stdout.index("{") :]), "it prints one JSON object"


@pytest.mark.parametrize("name", sorted(WITH_SERVERS))
def test_a_benchmark_with_servers_can_be_started(name: str) -> None:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return __import__("history")


@pytest.mark.parametrize(
    ("ratios", "is_slow"),
    [
        pytest.param([1.2] * 20, True, id="all of it above the bar"),
        pytest.param([1.0] * 10 + [1.5] * 10, False, id="the lower end of the interval is below the bar"),
        pytest.param([1.05] * 20, False, id="slower, within a tenth"),
    ],
)
def test_a_figure_is_slow_if_its_whole_interval_is_above_the_bar(
    history: ModuleType, ratios: list[float], is_slow: bool
) -> None:
    row = history.Row("schedule", "a placement", "schedule", "seconds", base="abc")
    assert history.figure(row, ratios).slow is is_slow


def test_a_bar_follows_the_baseline_of_its_row(history: ModuleType) -> None:
    row = history.Row("gateway", "everything", "gateway", "everything", baseline=1.2)
    assert not history.figure(row, [1.3] * 20).slow
    assert history.figure(row, [1.33] * 20).slow


def test_the_share_of_the_controllers_is_of_the_servers_processor_time(history: ModuleType) -> None:
    assert history.share({"controllers": 7, "etcd": 5, "kube-apiserver": 15, "envoy": 100}) == 0.35

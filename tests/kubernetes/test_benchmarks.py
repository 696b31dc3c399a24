"""The benchmarks of what needs a control plane or a gateway run, and print what they say they do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FLEET = BENCHMARKS / "fleet.py"
NEWCOMER = BENCHMARKS / "newcomer.py"
STREAMS = BENCHMARKS / "streams.py"
TRANSPORTS = BENCHMARKS / "transports.py"


def printed(
    program: Path, options: str, kubernetes_binary: Path, tmp_path: Path, statuses: tuple[int, ...] = (0,)
) -> dict[str, Any]:
    """Run a benchmark, which ends with one of the statuses, and return the one line that it prints."""
    done = subprocess.run(
        [sys.executable, str(program), *options.split()],
        env=os.environ | {"MODELPLANE_KUBERNETES_BINARY": str(kubernetes_binary), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_S,
        check=False,
    )
    assert done.returncode in statuses, done.stderr
    [line] = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.parametrize("simulated", ["", " --simulated"], ids=["real", "simulated"])
def test_a_small_fleet_is_composed_and_measured(
    kubernetes_binary: Path, tmp_path: Path, simulated: str
) -> None:
    options = f"--clusters 10 --deployments 3 --replicas 2 --others 1,4 --quiet 2 --json{simulated}"
    found = printed(FLEET, options, kubernetes_binary, tmp_path)
    assert {name: found[name] for name in ("clusters", "deployments", "replicas")} == {
        "clusters": 10,
        "deployments": 3,
        "replicas": 2,
    }
    for name in ("connected_seconds", "composed_seconds", "settled_seconds", "reconciles_per_second"):
        assert found[name] > 0, name
    assert 0 <= found["idle_cpu"] < 1
    assert 20 < found["memory_mb"] < 500
    # One deployment and three more, three and three more.
    assert sorted(map(int, found["one_more_seconds"])) == [4, 10]
    assert found["watches_of_an_empty_fleet"] < found["watches"]
    # What is asked of an API server is the same on any machine.
    requests = found["requests_per_replica"]
    assert requests["APPLY modelreplicas/status"] == 1
    assert all(requests[f"APPLY {kind}"] == 1 for kind in ("deployments", "services", "httproutes"))
    assert "APPLY poddisruptionbudgets" not in requests
    # One event for the two replicas of a deployment, and none for each.
    assert requests["POST events"] < 1
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_http_clients_are_compared_over_a_few_clusters(kubernetes_binary: Path, tmp_path: Path) -> None:
    options = "--clusters 5 --watches 2 --rounds 1 --applies 5 --events 5 --json"
    found = printed(TRANSPORTS, options, kubernetes_binary, tmp_path)
    for client in ("ours", "aiohttp", "aiohttp-alone", "lightkube"):
        for figure in ("kb_per_cluster", "connected_cpu_ms", "apply_cpu_ms", "event_cpu_ms"):
            assert found[client][figure] > 0, f"{client}: {figure}"
    assert list(tmp_path.iterdir()) == [], "nothing is left"


@pytest.mark.usefixtures("module_library")
def test_streams_are_carried_and_measured(kubernetes_binary: Path, tmp_path: Path) -> None:
    found = printed(STREAMS, "--http HTTP/2 --streams 42 --json", kubernetes_binary, tmp_path)
    for stack in ("bare", "everything"):
        assert found["HTTP/2"][stack]["complete"] == 42
        assert found["HTTP/2"][stack]["problems"] == []
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_a_newcomer_gets_a_first_answer_and_one_of_a_model_of_their_own(
    kubernetes_binary: Path, tmp_path: Path
) -> None:
    """The stage ``region`` follows pages that the test of the tour runs."""
    found = printed(NEWCOMER, "--installed --only own-model --json", kubernetes_binary, tmp_path)
    assert "Paris" in found["answer"]
    assert found["up_to_first_answer_seconds"] > 0
    assert found["own_model_seconds"] > 0


@pytest.mark.usefixtures("module_library")
def test_the_filters_of_the_gateway_are_compared_with_a_bare_envoy(
    kubernetes_binary: Path, tmp_path: Path
) -> None:
    found = printed(BENCHMARKS / "gateway.py", "--rounds 2 --seconds 0.2 --json", kubernetes_binary, tmp_path)
    rounds = {name: each["processor time per request"]["rounds"] for name, each in found["stacks"].items()}
    assert all(len(each) == 2 and min(each) > 0 for each in rounds.values())
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_a_first_answer_is_timed(kubernetes_binary: Path, tmp_path: Path) -> None:
    found = printed(BENCHMARKS / "first_answer.py", "--no-rest --json", kubernetes_binary, tmp_path)
    assert 0 < found["up_seconds"] < found["up_to_first_token_seconds"]


def test_this_checkout_is_compared_with_a_commit_that_never_moves(
    kubernetes_binary: Path, tmp_path: Path
) -> None:
    base = "391c3ab^{commit}"
    known = subprocess.run(["git", "cat-file", "-e", base], cwd=BENCHMARKS, capture_output=True, check=False)
    if known.returncode != 0:
        pytest.skip("this clone does not have the commit that is compared with")
    page = tmp_path / "speed.md"
    options = f"--only schedule --pairs 1 --page {page} --json"
    # One pair on a busy machine may well be slow; the status says so.
    found = printed(BENCHMARKS / "history.py", options, kubernetes_binary, tmp_path, (0, 1))
    assert [each["relative_to"] for each in found["figures"]] == ["391c3ab"] * 3
    assert all(each["low"] <= each["median"] <= each["high"] for each in found["figures"])
    assert page.read_text().count("| schedule |") == 3
    assert list(tmp_path.iterdir()) == [page], "nothing else is left"

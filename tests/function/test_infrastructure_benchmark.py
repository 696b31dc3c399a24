import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "infrastructure.py"


def test_the_function_is_timed_for_the_cluster_of_a_cloud() -> None:
    options = ["--clusters", "0", "--clouds", "Vultr", "--rounds", "1", "--json"]
    command = [sys.executable, str(BENCHMARK), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(done.stdout)
    assert found["function_ms"]["Vultr"].keys() == {"InferenceCluster", "VultrCluster", "ServingStack"}
    assert all(milliseconds > 0 for milliseconds in found["function_ms"]["Vultr"].values())
    assert found["first_ms"] > 0

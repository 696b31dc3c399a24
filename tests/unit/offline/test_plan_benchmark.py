import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "plan.py"


def test_the_command_is_timed_over_a_priced_fleet_with_both_policies() -> None:
    command = [sys.executable, str(BENCHMARK), "--clusters", "5", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert (found["clusters"], found["pools"], found["replicas"]) == (5, 3, 10)
    assert set(found["seconds"]) == set(found["cpu_seconds"]) == {"Spread", "Cheapest"}
    assert found["ratio"] > 0

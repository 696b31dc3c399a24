import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "hydration.py"


def test_the_program_is_timed_against_the_hubs_own_library() -> None:
    options = ["--pairs", "1", "--files", "1", "--file-mib", "1", "--json"]
    command = [sys.executable, str(BENCHMARK), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert found["mib"] == 1
    assert found["least"] == found["ratio"] == found["greatest"] > 0

"""The benchmark of many keys runs, and prints what it says it does."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "keys.py"


def test_a_few_keys_are_measured() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--keys", "300", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    [line] = done.stdout.splitlines()
    found = json.loads(line)
    assert (found["keys"], found["secrets"], found["new_secrets"]) == (300, 1, 1)

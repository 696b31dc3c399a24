"""The replay of traces prints what each policy came to."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "autoscaling.py"


def test_a_trace_file_is_replayed_by_each_policy(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(f"{second / 4},80" for second in range(400)))
    command = [sys.executable, str(BENCHMARK), "--json", "--trace", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(done.stdout)["trace.csv"]
    assert set(found) == {"ours", "ours, to zero", "hpa"}
    for result in found.values():
        assert result["requests"] == 400
        assert result["replica_hours"] > 0
    assert found["ours, to zero"]["longest_wait_s"] >= 150, "the first request waits for a start"
    assert found["ours"]["late"] == 0, "one replica does for this load"

"""The replay of traces prints what each policy came to."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.5000000,4808,90
2023-11-16 18:17:05.0000000,110,80
"""
BURST_GPT = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,90,562,Conversation log
6,ChatGPT,10,0,10,API log
6.5,GPT-4,1087,80,1167,API log
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("5.5,80\n4,90\n", id="seconds and tokens"),
        pytest.param(AZURE, id="a trace of Azure"),
        pytest.param(BURST_GPT, id="a trace of BurstGPT, with a request that failed"),
    ],
)
def test_a_published_trace_is_read_as_it_is(tmp_path: Path, text: str) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(text)
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import autoscaling\n"
        "print([tuple(each) for each in autoscaling.of_file(Path(sys.argv[2]))])"
    )
    given = [sys.executable, "-c", program, str(BENCHMARK.parent), str(trace)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[(0.0, 90), (1.5, 80)]"

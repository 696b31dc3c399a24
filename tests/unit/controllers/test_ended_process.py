"""A benchmark whose process has ended says how, and shows the end of its log."""

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

_PROGRAM = """
import pathlib, subprocess, sys
import ended_process, psutil
log = pathlib.Path(sys.argv[1]) / "below" / "controllers.log"
log.parent.mkdir()
child = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdout=log.open("wb"))
ended_process.check("controllers", __import__("os").getpid(), log.parent.parent)
while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
    pass
ended_process.check("controllers", child.pid, log.parent.parent)
"""


def test_the_end_of_the_log_is_printed_and_the_log_is_kept(tmp_path: Path) -> None:
    child = "print(*range(100), sep='\\n'); raise SystemExit(3)"
    kept = tmp_path / "kept"
    kept.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path), child],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS), "TMPDIR": str(kept)},
    )
    assert done.returncode == 1
    first, *lines = done.stderr.splitlines()
    log = kept / "modelplane-bench-controllers.log"
    assert first == f"controllers has ended with status 3; its log is in {log}, and ends with:"
    assert lines == [str(each) for each in range(60, 100)]
    assert len(log.read_text().splitlines()) == 100

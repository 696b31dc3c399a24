"""Count the instructions that the gateway's Envoy spends on a request, against a bare Envoy.

    python benchmarks/gateway_instructions.py --json

The stacks and the client are those of `gateway.py`. The Envoy that is measured runs under callgrind, a tool
of valgrind, which has to be on PATH. Counted are the instructions of its worker thread, after a warm-up. Runs
differ by less than a hundredth, whatever else the machine does. Callgrind's processor has no instructions for
SHA-256, so a key takes 3,000 instructions more than on one that has them. Progress goes to standard error.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from gateway import STACKS, Json, load, running

WARM_UP = 90
_TOTAL = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def times(count: int) -> Callable[[], bool]:
    """Return what says whether to ask again, for a number of requests."""
    left = count

    def again() -> bool:
        nonlocal left
        left -= 1
        return left > 0

    return again


def control(pid: int, *options: str) -> None:
    subprocess.run(["callgrind_control", *options, str(pid)], check=True, capture_output=True)


def dumped(directory: Path, pid: int) -> int:
    """Return the instructions of the busiest thread since the last time."""
    before = set(directory.iterdir())
    control(pid, "--dump")
    new = set(directory.iterdir()) - before
    return max(int(found[1]) for each in new if (found := _TOTAL.search(each.read_text())))


def run(count: int) -> dict[str, float]:
    found = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        options = ("--instr-atstart=no", "--separate-threads=yes", f"--callgrind-out-file={directory}/out")
        with running("valgrind", "--tool=callgrind", *options) as (ports, pid, _):
            for stack in STACKS:
                control(pid, "--instr=on")
                asyncio.run(load(stack, ports[stack.name], times(WARM_UP)))
                control(pid, "--zero")
                answers = asyncio.run(load(stack, ports[stack.name], times(count)))
                found[stack.name] = dumped(directory, pid) / len(answers)
                control(pid, "--instr=off")
                print(f"{stack.name}: {found[stack.name]:,.0f}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--requests", type=int, default=300, help="of each stack")
    options = parser.parse_args()
    found = run(options.requests)
    stacks: Json = {
        stack.name: {
            "instructions per request": round(found[stack.name]),
            "of a bare Envoy": round(
                found[stack.name] / found["bare, streaming" if stack.stream else "bare"], 3
            ),
        }
        for stack in STACKS
    }
    if options.json:
        print(json.dumps({"requests": options.requests, "stacks": stacks}))
        return
    for name, ratios in stacks.items():
        print(f"{name:24} {ratios['instructions per request']:9,} {ratios['of a bare Envoy']:6.2f}")


if __name__ == "__main__":
    main()

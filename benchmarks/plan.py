"""Time the whole command `modelplane plan` over a fleet of priced clusters, with each policy.

    python benchmarks/plan.py --clusters 1000

Prints one JSON line. The fleet of `schedule.py` is written to a file as `kubectl get -o yaml` writes it, with
a price on every pool. Then a process of the command is run for each policy, one after the other, in turns:
`seconds` are the medians from its start to its end, and `cpu_seconds` those of the processor, both with
Python's start and the reading of the files. `ratio` compares the processor's time of `Cheapest` and `Spread`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import schedule
import yaml

POLICIES = ("Spread", "Cheapest")


def written(folder: Path, name: str, items: list[dict[str, Any]]) -> Path:
    """Write objects to a file as the items of a List."""
    path = folder / name
    text = yaml.dump({"apiVersion": "v1", "kind": "List", "items": items}, Dumper=yaml.CSafeDumper)
    path.write_text(text, encoding="utf-8")
    return path


def classes(pools: int) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceClass",
            "metadata": {"name": f"class-{kind}"},
            "spec": {"devices": schedule.devices(0, kind, scarce=False)},
        }
        for kind in range(min(schedule.CLASSES, pools))
    ]


def priced(number: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return a cluster whose spec has the prices that its status has."""
    found = schedule.cluster(0, number, options)
    for declared, published in zip(found["spec"]["nodePools"], found["status"]["gpuPools"], strict=True):
        declared["pricing"] = published["pricing"]
    return found


def run(fleet: Path, wanted: Path, replicas: int) -> tuple[float, float]:
    """Return the time of one run of the command, and that of the processor."""
    command = [sys.executable, "-m", "modelplane.cli.main", "plan", str(wanted), "--fleet", str(fleet)]
    before, start = os.times(), time.perf_counter()
    done = subprocess.run([*command, "--output", "json"], check=True, capture_output=True)
    seconds, after = time.perf_counter() - start, os.times()
    [planned] = json.loads(done.stdout)["deployments"]
    if len(planned["replicas"]) != replicas or not planned["cost"]:
        raise SystemExit(f"not what was to be measured: {planned}")
    cpu = sum(after[2:4]) - sum(before[2:4])
    return seconds, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--pools", type=int, default=3, help="of each cluster")
    parser.add_argument("--replicas", type=int, default=10, help="how many the deployment wants")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    made = argparse.Namespace(**vars(options), case="fits", engines=1, quotas=1, policy="")

    times: dict[str, list[tuple[float, float]]] = {policy: [] for policy in POLICIES}
    with tempfile.TemporaryDirectory() as folder:
        made.policy = POLICIES[0]  # any policy gives the pools prices
        clusters = [priced(number, made) for number in range(options.clusters)]
        fleet = written(Path(folder), "fleet.yaml", [*classes(options.clusters * options.pools), *clusters])
        wanted = {}
        for policy in POLICIES:
            made.policy = policy
            wanted[policy] = written(Path(folder), f"{policy}.yaml", [schedule.deployment(0, made)])
        for _ in range(options.rounds):
            for policy in POLICIES:
                times[policy].append(run(fleet, wanted[policy], options.replicas))
        megabytes = fleet.stat().st_size / 1e6

    medians = {
        policy: [statistics.median(values) for values in zip(*found, strict=True)]
        for policy, found in times.items()
    }
    result = {
        "seconds": {policy: round(found[0], 3) for policy, found in medians.items()},
        "cpu_seconds": {policy: round(found[1], 3) for policy, found in medians.items()},
        "ratio": round(medians["Cheapest"][1] / medians["Spread"][1], 3),
        "clusters": options.clusters,
        "pools": options.pools,
        "replicas": options.replicas,
        "fleet_mb": round(megabytes, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

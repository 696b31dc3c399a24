"""Measure the server time of the dashboard's pages over a large fleet.

    python benchmarks/dashboard.py --clusters 1000 --json

Prints one JSON line. The fleet is objects in memory, with two replicas on each cluster, and a deployment and
a service for each ten clusters. Nothing is read from a server. `after_a_change` is from a change of the fleet
to the whole page, when every number is computed anew; `unchanged` is for a further page of the same fleet.
Both are medians. `cpu_ms` is processor time, and `wall_ms` time that passes, which on a busy machine is
longer. `page_kb` is the length of the page before compression.

`deployment` is the page of a deployment that is placed, with its explanation. `deployment_refused` is that
of one that no cluster takes, each for its reasons, and `deployment_priced` that of a placed one in a fleet
with a price on every pool, which lists where one more replica would fit.
"""

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from modelplane.dashboard.pages import Pages, View
from modelplane.dashboard.snapshot import Snapshot
from support import shown_fleet

SAMPLES = 9
Object = dict[str, Any]


def measure(work: Callable[[], object]) -> dict[str, float]:
    cpu, wall = [], []
    for _ in range(SAMPLES):
        cpu_at, wall_at = time.process_time(), time.perf_counter()
        work()
        cpu.append(time.process_time() - cpu_at)
        wall.append(time.perf_counter() - wall_at)
    return {
        "cpu_ms": round(statistics.median(cpu) * 1000, 1),
        "wall_ms": round(statistics.median(wall) * 1000, 1),
    }


def priced(objects: Mapping[str, list[Object]]) -> dict[str, list[Object]]:
    """Return a fleet with a price on each device."""
    told = copy.deepcopy(dict(objects))
    for place, cluster in enumerate(told["InferenceCluster"]):
        cluster["metadata"]["resourceVersion"] += "0"  # what is decoded is kept by it
        for pool in cluster["status"]["gpuPools"]:
            device = {"name": pool["devices"][0]["name"], "perHour": f"{2 + place % 97 / 50:.2f}"}
            pool["pricing"] = {"currency": "USD", "devices": [device]}
    return told


def run(clusters: int) -> dict[str, object]:
    fleet = shown_fleet.large(shown_fleet.now(), clusters)
    placed = path_of(fleet.objects["ModelDeployment"][0])
    fleet.deployment("wants-h100", "h100", 8, on=(), wanted=10)
    refused = path_of(fleet.objects["ModelDeployment"][-1])
    objects = dict(fleet.objects)
    found: dict[str, object] = {"clusters": clusters, "replicas": len(objects["ModelReplica"])}
    for name, path, shown in (
        ("fleet", "/", objects),
        ("deployments", "/deployments", objects),
        ("deployment", placed, objects),
        ("deployment_refused", refused, objects),
        ("deployment_priced", placed, priced(objects)),
    ):
        found[name] = page(path, shown, fleet.now)
    return found


def path_of(deployment: Object) -> str:
    metadata = deployment["metadata"]
    return f"/deployments/{metadata['namespace']}/{metadata['name']}"


def page(path: str, objects: Mapping[str, list[Object]], now: datetime) -> dict[str, object]:
    """Return the figures of one page."""
    pages, kept = Pages("a benchmark"), View(Snapshot(objects), now)
    html = pages.render(path, {}, kept).html
    return {
        "after_a_change": measure(lambda: pages.render(path, {}, View(Snapshot(objects), now))),
        "unchanged": measure(lambda: pages.render(path, {}, kept)),
        "page_kb": round(len(html.encode()) / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = run(arguments.clusters)
    print(json.dumps(found, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()

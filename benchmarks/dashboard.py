"""Measure the server time of the dashboard's pages over a large fleet.

    python benchmarks/dashboard.py --clusters 1000 --json

Prints one JSON line. The fleet is objects in memory, with two replicas on each cluster, and a deployment and
a service for each ten clusters. Nothing is read from a server. `after_a_change` is from a change of the fleet
to the whole page, when every number is computed anew; `unchanged` is for a further page of the same fleet.
Both are medians. `cpu_ms` is processor time, and `wall_ms` time that passes, which on a busy machine is
longer. `page_kb` is the length of the page before compression.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from modelplane.dashboard.pages import Pages, View
from modelplane.dashboard.snapshot import Snapshot
from support import shown_fleet

SAMPLES = 9


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


def run(clusters: int) -> dict[str, object]:
    fleet = shown_fleet.large(shown_fleet.now(), clusters)
    pages, objects = Pages("a benchmark"), dict(fleet.objects)
    kept = fleet.view()

    def anew(path: str) -> Callable[[], object]:
        return lambda: pages.render(path, {}, View(Snapshot(objects), fleet.now))

    found: dict[str, object] = {"clusters": clusters, "replicas": len(objects["ModelReplica"])}
    deployment = objects["ModelDeployment"][0]["metadata"]
    explained = f"/deployments/{deployment['namespace']}/{deployment['name']}"
    for name, path in {"fleet": "/", "deployments": "/deployments", "deployment": explained}.items():
        html = pages.render(path, {}, kept).html
        found[name] = {
            "after_a_change": measure(anew(path)),
            "unchanged": measure(lambda path=path: pages.render(path, {}, kept)),  # type: ignore[misc]
            "page_kb": round(len(html.encode()) / 1024),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = run(arguments.clusters)
    print(json.dumps(found, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()

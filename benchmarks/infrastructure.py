"""Provision many clusters of every cloud and time the controllers, then the composition function.

    python benchmarks/infrastructure.py --clusters 100 --json

Prints one JSON line; progress goes to standard error. Everything happens in a temporary home, and is stopped
and deleted at the end. A real etcd and a real API server have the kinds of the clouds' providers, with the
providers' own schemas where the checkout has them beside it; `modelplane controller` is the process that runs
anywhere. The providers are simulated, in this process.

`written_seconds` is from applying the InferenceClusters, an equal number of each cloud, until the last of
their managed resources was written, `ready_seconds` until every cluster reports all of its resources as
ready. A few resources need a value that the cloud reports, so part of both is the simulated providers' time.
`requests_per_resource` is what the controllers and the providers wrote, by kind of request. `cpu_seconds` is
what each process used until then, `memory_mb` the controllers' resident memory at the end.

`function_ms` is one `RunFunction` over real gRPC, as Crossplane sends it for a cluster that is there and
serves: the median of the repeated calls for the cluster of each cloud, its InferenceCluster and its
ServingStack. `first_ms` is the slowest call on the way there.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from fleet import (
    PATIENCE_S,
    Bench,
    apply_all,
    control_plane,
    controllers,
    free_port,
    memory,
    process,
    say,
    since,
)

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from modelplane.api.clouds.cloud_rows import Cloud  # noqa: E402
from modelplane.compose.clouds.table import RECIPES  # noqa: E402
from modelplane.compose.readiness import is_true  # noqa: E402
from modelplane.compose.workload_kinds import Place, WorkloadKind, rows  # noqa: E402
from modelplane.controllers import fleet_resources  # noqa: E402
from modelplane.controllers.fleet_resources import of_row, resource_of_kind  # noqa: E402
from modelplane.kube.resources import Object  # noqa: E402
from modelplane.local.kubernetes.cluster_objects import wait_until_established  # noqa: E402
from support.cloud_clusters import class_of, cluster_of  # noqa: E402  the folder is known only now
from support.crossplane.cloud_site import Site  # noqa: E402
from support.crossplane.function_process import FunctionProcess  # noqa: E402
from support.simulated_clouds import SimulatedClouds  # noqa: E402
from support.third_party_crds import FOLDER, definitions  # noqa: E402

ROUNDS = 30
CLOUDS = tuple(Cloud)
ORIGINS = ("aws", "azure", "gcp", "nebius", "vultr")
MANAGED = rows(Place.CONTROL_PLANE)
TURN_S = 1.0


async def provision(clusters: int, folder: Path) -> dict[str, Any]:
    """Time the controllers: from the apply of clusters to their managed resources."""
    async with AsyncExitStack() as stack:
        say("starting etcd and the API server")
        home, client, pids = await stack.enter_async_context(control_plane(folder))
        kinds = list(provider_kinds())
        await apply_all(client, kinds)
        await wait_until_established(client, [each["metadata"]["name"] for each in kinds])
        port = free_port()
        log = folder / "controllers.log"
        pids["controllers"] = stack.enter_context(process(controllers(home, port), log, folder))
        bench = Bench(client, pids, port, folder)
        stack.enter_context(SimulatedClouds(str(home.kubeconfig), lambda _item: {}, turn_s=TURN_S))
        await apply_all(client, (class_of(cloud) for cloud in CLOUDS))
        await until_served(bench)
        await bench.quiet()
        say(f"applying {clusters} clusters")
        cpu, requests, began = bench.cpu_seconds(), await bench.requests(), time.monotonic()
        await apply_all(
            client,
            (cluster_of(CLOUDS[number % len(CLOUDS)], f"cluster-{number:04}") for number in range(clusters)),
        )
        written, written_s = 0, 0.0
        while await unready(bench):
            bench.check()
            found = sum([await bench.count(of_row(row)) for row in MANAGED])
            written, written_s = max(written, found), since(began) if found > written else written_s
            await asyncio.sleep(0.5)
        sent = await bench.requests() - requests
        return {
            "clusters": clusters,
            "resources": written,
            "written_seconds": written_s,
            "ready_seconds": since(began),
            "resources_per_second": round(written / written_s, 1),
            "requests_per_resource": of_resources(sent, written),
            "cpu_seconds": {name: round(used - cpu[name], 2) for name, used in bench.cpu_seconds().items()},
            "memory_mb": memory(pids["controllers"]),
        }


async def until_served(bench: Bench) -> None:
    """Return once the controllers have metrics to show."""
    while True:
        bench.check()
        try:
            await bench.reconciles()
        except OSError:
            await asyncio.sleep(0.2)
        else:
            return


async def unready(bench: Bench) -> int:
    """Return how many clusters of clouds have not all of their resources yet."""
    kinds = (resource_of_kind(recipe.type) for recipe in RECIPES.values())
    found = [item for kind in kinds for item in (await bench.client.list(kind)).items]
    known = sum(is_true(each, "ClusterReady") for each in found)
    return await bench.count(fleet_resources.INFERENCE_CLUSTERS) - known


def of_resources(sent: Any, written: int) -> dict[str, float]:
    """Return the requests about managed resources, for each of them."""
    plurals = {row.plural for row in MANAGED}
    totals: dict[str, int] = {}
    for request, count in sent.items():
        verb, _, kind = request.partition(" ")
        plural, _, part = kind.partition("/")
        if plural in plurals:
            name = f"{verb} {part}".strip()
            totals[name] = totals.get(name, 0) + count
    return {name: round(count / written, 2) for name, count in totals.items() if count / written >= 0.05}


def provider_kinds() -> Iterator[Object]:
    """Yield the definitions of the managed resources."""
    if FOLDER.is_dir():
        wanted = {row.definition for row in MANAGED}
        for origin in ORIGINS:
            found = definitions(f"provider-upjet-{origin}")
            yield from (each for each in found if each["metadata"]["name"] in wanted)
    else:
        yield from map(any_content, MANAGED)


def any_content(row: WorkloadKind) -> Object:
    """Return a definition of a kind without a schema of its fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": row.version, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": row.definition},
        "spec": {
            "group": row.group,
            "names": {"kind": row.kind, "plural": row.plural},
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def ask(folder: Path, rounds: int, clouds: tuple[Cloud, ...]) -> dict[str, Any]:
    """Time the function: its repeated calls for one serving cluster of each cloud."""
    repeated: dict[str, dict[str, float]] = {}
    slowest = 0.0
    with FunctionProcess(folder / "function.log") as function:
        for cloud in clouds:
            say(f"one cluster of {cloud} under a simulated Crossplane")
            site = Site(function.run, cloud)
            site.serve()
            site.fleet.run_for(120)
            kinds = ("InferenceCluster", f"{cloud}Cluster", "ServingStack")
            calls = {kind: site.fleet.calls(kind) for kind in kinds}
            slowest = max(slowest, *(call.seconds for each in calls.values() for call in each))
            repeated[str(cloud)] = {
                kind: round(1000 * statistics.median(timed(function, each[-1].request, rounds)), 1)
                for kind, each in calls.items()
            }
    return {"function_ms": repeated, "first_ms": round(1000 * slowest, 1)}


def timed(function: FunctionProcess, request: Any, rounds: int) -> Iterator[float]:
    """Yield the time of each repeated call."""
    for _ in range(rounds):
        began = time.perf_counter()
        function.run(request)
        yield time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clusters", type=int, default=100, help="0: only the function is timed")
    parser.add_argument(
        "--clouds", type=Cloud, nargs="+", default=CLOUDS, help="those that it is asked about"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="repeated calls of the function")
    parser.add_argument("--json", action="store_true", help="print one JSON line; the default")
    options = parser.parse_args()
    # Whoever ends it wants everything stopped and deleted, as one does who interrupts it.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with tempfile.TemporaryDirectory(prefix="modelplane-bench-") as folder:
        result: dict[str, Any] = {}
        if options.clusters:
            work = provision(options.clusters, Path(folder))
            result = asyncio.run(asyncio.wait_for(work, PATIENCE_S))
        result |= ask(Path(folder), options.rounds, tuple(options.clouds))
    result["machine"] = f"{os.cpu_count()} cores"
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

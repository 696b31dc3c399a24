"""Time the placement of one new deployment on a made-up fleet.

    python benchmarks/schedule.py --clusters 1000 --pools 3 --replicas 10 --json

Prints one JSON line. `seconds` is the median of `schedule()`, from the fleet as parsed objects to the
placement. Every round has a new selector, which is compiled anew, and a new fleet, whose objects and
classes no round has had before, so that nothing is known from the last one. `snapshot_seconds` is how long
it takes to make that fleet of the JSON objects that an API server returns. The pools are of 50 classes, no
two alike.

`--occupied 0.9` fills nine pools in ten with replicas of other deployments. `--case scarce` gives one
cluster in a hundred the hardware, `--case none` none, so that every pool is looked at and explained.
`--policy Cheapest` gives every pool a price, and the deployment that policy. `--engines 2` gives each
replica two engines, whose places are then chosen together.
`--quotas 1000` has so many namespaces with a DeviceQuota each, all in one cohort, which fill the pools.
`--end-to-end` adds the whole call that a controller makes, from JSON objects to children and conditions:
`first_seconds`, when none of the objects has been seen, and `repeated_seconds`, when all have. `memory_mb`
is what the process takes at the end.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Request
from modelplane.compose.deployment import model_deployment, scheduler_input as snapshots
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.deployment.scheduler_quotas import read_quota
from modelplane.scheduler import Fleet, PlacementPolicy, schedule

CLASSES = 50
NODES = 4
ROUNDS = 15
GPUS = (("Ada", 24), ("Ampere", 80), ("Hopper", 141))
WANTED = {"fits": 60, "scarce": 140, "none": 1024}


def devices(turn: int, kind: int, scarce: bool) -> list[dict[str, Any]]:
    """Return the devices of a class; every class of every round has a product name of its own."""
    architecture, memory = GPUS[kind % len(GPUS)]
    if scarce and architecture == "Hopper":
        architecture, memory = GPUS[1]
    return [
        {
            "name": "gpu",
            "claim": "DRA",
            "driver": "gpu.nvidia.com",
            "deviceClassName": "gpu.nvidia.com",
            "count": 8,
            "attributes": {
                "architecture": {"string": architecture},
                "productName": {"string": f"product-{turn}-{kind}"},
                "cudaComputeCapability": {"version": "9.0.0"},
            },
            "capacity": {"memory": {"value": f"{memory}Gi"}},
        }
    ]


def prices(place: int, options: argparse.Namespace) -> dict[str, Any]:
    if not options.policy:
        return {}
    per_hour = f"{2 + place % 97 / 50:.2f}"
    return {"pricing": {"currency": "USD", "devices": [{"name": "gpu", "perHour": per_hour}]}}


def classes(number: int, options: argparse.Namespace) -> dict[str, Any]:
    if not options.quotas:
        return {}
    kinds = ((number * options.pools + position) % CLASSES for position in range(options.pools))
    pools = [
        {"name": f"pool-{at}", "className": f"class-{kind}", "nodeCount": NODES}
        for at, kind in enumerate(kinds)
    ]
    return {"nodePools": pools}


def quotas(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a quota for each team, the deployment's own first."""
    limits = [{"className": f"class-{kind}", "nominalQuota": 100_000} for kind in range(32)]
    return [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "DeviceQuota",
            "metadata": {"name": f"quota-{number}", "uid": f"quota-{number}", "resourceVersion": "1"},
            "spec": {"namespaces": [team(number)], "cohort": "all", "classes": limits},
        }
        for number in range(options.quotas)
    ]


def team(number: int) -> str:
    return f"team-{number}" if number else "ml-team"


def cluster(turn: int, number: int, options: argparse.Namespace) -> dict[str, Any]:
    scarce = options.case == "scarce" and number % 100 != 99
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {
            "name": f"cluster-{number:05}",
            "uid": f"cluster-{turn}-{number}",
            "resourceVersion": "1",
            "labels": {"modelplane.ai/region": f"region-{number % 7}"},
        },
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}},
            **classes(number, options),
        },
        "status": {
            "gateway": {"address": "192.0.2.1"},
            "gpuPools": [
                {
                    "name": f"pool-{position}",
                    "nodes": NODES,
                    **prices(number * options.pools + position, options),
                    "devices": devices(turn, (number * options.pools + position) % CLASSES, scarce),
                }
                for position in range(options.pools)
            ],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Available",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        },
    }


def replica(turn: int, number: int, place: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return a replica of another deployment that fills one pool."""
    at, position = divmod(place, options.pools)
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}
    member = {
        "role": "Standalone",
        "nodePoolName": f"pool-{position}",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com", "count": 8}],
        "template": {"spec": {"containers": [container]}},
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {
            "name": f"other-{number}",
            "namespace": team(1 + number % (options.quotas - 1)) if options.quotas > 1 else "other-team",
            "uid": f"replica-{turn}-{number}",
            "resourceVersion": "1",
        },
        "spec": {
            "clusterName": f"cluster-{at:05}",
            "engines": [{"name": "main", "copies": NODES, "members": [member]}],
        },
    }


def deployment(turn: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return a deployment with a selector that no round before has had."""
    memory = f"{WANTED[options.case] * 1024 + turn}Mi"
    selectors = [
        {"cel": f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{memory}")) >= 0'},
        {"cel": 'device.attributes["gpu.nvidia.com"].architecture in ["Ampere", "Hopper"]'},
    ]
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen", "namespace": "ml-team", "uid": f"deployment-uid-{turn}"},
        "spec": {
            "replicas": options.replicas,
            **({"placement": {"policy": options.policy}} if options.policy else {}),
            "engines": [
                {
                    "name": f"engine-{number}",
                    "members": [
                        {
                            "nodeSelector": {
                                "devices": [{"name": "gpu", "count": 1 + 3 * number, "selectors": selectors}]
                            },
                            "template": {
                                "spec": {
                                    "containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.23.0"}]
                                }
                            },
                        }
                    ],
                }
                for number in range(options.engines)
            ],
        },
    }


def objects(turn: int, options: argparse.Namespace) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the fleet's clusters and replicas as an API server returns them."""
    places = options.clusters * options.pools
    full = [place for place in range(places) if place * 37 % 100 < options.occupied * 100]
    clusters = [cluster(turn, number, options) for number in range(options.clusters)]
    replicas = [replica(turn, number, place, options) for number, place in enumerate(full)]
    parsed = msgspec.json.decode(msgspec.json.encode((clusters, replicas, quotas(options))))
    return {"clusters": tuple(parsed[0]), "replicas": tuple(parsed[1]), "quotas": tuple(parsed[2])}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def snapshot(found: dict[str, tuple[dict[str, Any], ...]]) -> Fleet:
    return Fleet(
        tuple(map(snapshots.read_cluster, found["clusters"])),
        tuple(map(snapshots.read_replica, found["replicas"])),
        quotas=tuple(map(read_quota, found["quotas"])),
    )


def end_to_end(options: argparse.Namespace) -> dict[str, float]:
    required = objects(options.rounds, options)
    times = []
    for turn in range(options.rounds, 2 * options.rounds):
        owner = decode_as(ModelDeployment, deployment(turn, options))
        request = Request(owner, {}, required, DeploymentFacts())
        times.append(timed(lambda request=request: model_deployment.compose(request))[0])
    return {
        "first_seconds": round(times[0], 6),
        "repeated_seconds": round(statistics.median(times[1:]), 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--pools", type=int, default=3, help="of each cluster")
    parser.add_argument("--replicas", type=int, default=10, help="how many the deployment wants")
    parser.add_argument("--occupied", type=float, default=0.0, help="share of the pools that are full")
    parser.add_argument("--case", choices=sorted(WANTED), default="fits")
    parser.add_argument("--policy", choices=[str(each) for each in PlacementPolicy])
    parser.add_argument("--engines", type=int, default=1, help="of each replica; the second asks for more")
    parser.add_argument("--quotas", type=int, default=0, help="namespaces with a DeviceQuota")
    parser.add_argument("--end-to-end", action="store_true", help="also from JSON objects to children")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="at least 2")
    parser.add_argument("--json", action="store_true", help="print one JSON line; the default")
    options = parser.parse_args()

    snapshot_times, schedule_times, placed = [], [], 0
    for turn in range(options.rounds):
        found = objects(turn, options)
        wanted = snapshots.read_deployment(decode_as(ModelDeployment, deployment(turn, options)), None)
        seconds, fleet = timed(lambda found=found: snapshot(found))
        snapshot_times.append(seconds)
        seconds, placement = timed(lambda fleet=fleet, wanted=wanted: schedule(fleet, wanted))
        schedule_times.append(seconds)
        placed = len(placement.assignments)

    result: dict[str, Any] = {
        "seconds": round(statistics.median(schedule_times), 6),
        "placed": placed,
        "clusters": options.clusters,
        "pools": options.pools,
        "replicas": options.replicas,
        "occupied": options.occupied,
        "case": options.case,
        "policy": options.policy,
        "snapshot_seconds": round(statistics.median(snapshot_times), 6),
    }
    if options.end_to_end:
        result |= end_to_end(options)
    result["memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps(result))


if __name__ == "__main__":
    main()

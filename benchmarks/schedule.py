"""Time `schedule` on a made-up fleet of a fixed shape.

    python benchmarks/schedule.py --clusters 1000 --pools 3 --replicas 10

Every pool has its own device objects, as when each was read from its own API object: nothing is shared that
the scheduler would not have to find out for itself. Cases: `fits` (the deployment fits everywhere), `scarce`
(only one cluster in a hundred has the hardware), `none` (it fits nowhere, so every pool is looked at and
explained). Compare two runs on one machine, the fastest of each.
"""

import argparse
import json
import statistics
import time

from modelplane.scheduler import (
    Claim,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    PlacedEngine,
    PlacedMember,
    Pool,
    Replica,
    ResolvedRequest,
    Role,
    schedule,
)

KINDS = (("l4", "24Gi", "Ada", 1), ("a100", "80Gi", "Ampere", 8), ("h200", "141Gi", "Hopper", 8))
MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{}")) >= 0'
ARCHITECTURE = 'device.attributes["gpu.nvidia.com"].architecture in ["Ampere", "Hopper"]'
WANTED = {"fits": "60Gi", "scarce": "140Gi", "none": "1Ti"}


def device(kind: str, memory: str, architecture: str, count: int) -> Device:
    return Device(
        name="gpu",
        driver="gpu.nvidia.com",
        count=count,
        claim=Claim.DRA,
        device_class_name="gpu.nvidia.com",
        attributes={"architecture": architecture, "productName": kind, "ecc": True},
        capacity={"memory": memory},
    )


def pool(case: str, cluster: int, position: int) -> Pool:
    kind = KINDS[position % len(KINDS)]
    if case == "scarce" and kind[0] == "h200" and cluster % 100 != 99:
        kind = KINDS[1]
    return Pool(f"{kind[0]}-{position}", 4, (device(*kind),))


def fleet(case: str, clusters: int, pools: int, others: int) -> Fleet:
    claim = ResolvedRequest("gpu", "gpu.nvidia.com", 1, ())
    return Fleet(
        tuple(
            Cluster(
                f"cluster-{number:05}",
                {"region": f"region-{number % 7}"},
                gateway_address="192.0.2.1",
                pools=tuple(pool(case, number, position) for position in range(pools)),
            )
            for number in range(clusters)
        ),
        tuple(
            Replica(
                "other-team",
                f"other-{number}",
                f"uid-{number % 50}",
                f"other-{number % 50}",
                f"cluster-{number % clusters:05}",
                0,
                (PlacedEngine("main", 1, (PlacedMember(Role.STANDALONE, "l4-0", 1, (claim,)),)),),
            )
            for number in range(others)
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--pools", type=int, default=3)
    parser.add_argument("--replicas", type=int, default=10, help="how many the deployment wants")
    parser.add_argument("--others", type=int, default=0, help="replicas of other deployments")
    parser.add_argument("--case", choices=sorted(WANTED), default="fits")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    request = DeviceRequest("gpu", 1, (MEMORY.format(WANTED[options.case]), ARCHITECTURE))
    deployment = Deployment(
        "ml-team", "qwen", "uid-qwen", options.replicas, (Engine("main", 1, (Member(requests=(request,)),)),)
    )
    snapshot = fleet(options.case, options.clusters, options.pools, options.others)
    times = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        placement = schedule(snapshot, deployment)
        sentence = placement.diagnosis.sentence()
        times.append((time.perf_counter() - start) * 1000)
    result = {
        **{name: getattr(options, name) for name in ("case", "clusters", "pools", "replicas", "others")},
        "placed": len(placement.assignments),
        "best_ms": round(min(times), 3),
        "median_ms": round(statistics.median(times), 3),
        "diagnosis": sentence,
    }
    if options.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{name:10} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()

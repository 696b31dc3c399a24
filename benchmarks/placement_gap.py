"""Compare the cost of whole deployments with the least possible, on many small made-up fleets.

    python benchmarks/placement_gap.py --fleets 2000 --json

Prints one JSON line. The scheduler places one replica after the other (policy Cheapest); the optimum is found
by trying every choice of pools for all replicas together. Each fleet is random, but the same for the same
`--seed`: up to four clusters with up to three pools of different devices, prices and free nodes, and a
deployment of up to five replicas with one or two engines.

`gap` is by how much the scheduler's cost is above the optimum, of fleets on which both place the same number
of replicas: the mean, the greatest, and `gap_of_all`, that of the sum of all costs. `optimal` is the share of
fleets without a gap, `fewer` the number of fleets on which the scheduler places fewer replicas than fit.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

from modelplane.scheduler import (
    Accounting,
    Claim,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    PlacementPolicy,
    Pool,
    schedule,
)
from modelplane.scheduler.free_capacity import DeviceCapacity, Group, Load, PodDemand

UNIT = 10**9
TINY = 1e-9
ANY = 'device.driver == "gpu.example.com"'
PRICES = (1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 7.0)
"""Of one device for an hour; the dearest card costs some times as much as the cheapest."""


def pool(chance: random.Random, number: int) -> Pool:
    count = chance.choice((1, 2, 4, 8))
    device = Device("gpu", "gpu.example.com", count, Claim.DRA, "gpu")
    return Pool(
        f"pool-{number}",
        chance.randint(1, 4),
        (device,),
        chance.choice(tuple(Accounting)),
        currency="USD",
        prices=(round(chance.choice(PRICES) * UNIT),),
    )


def fleet(chance: random.Random) -> Fleet:
    return Fleet(
        tuple(
            Cluster(
                f"cluster-{name}",
                gateway_address="192.0.2.1",
                pools=tuple(pool(chance, number) for number in range(chance.randint(1, 3))),
            )
            for name in range(chance.randint(2, 4))
        )
    )


def deployment(chance: random.Random) -> Deployment:
    engines = tuple(
        Engine(f"engine-{number}", chance.randint(1, 2), (member(chance.choice((1, 1, 2, 4, 8))),))
        for number in range(chance.randint(1, 2))
    )
    return Deployment("ml", "model", "uid", chance.randint(2, 5), engines, policy=PlacementPolicy.CHEAPEST)


def member(count: int) -> Member:
    return Member(requests=(DeviceRequest("gpu", count, (ANY,)),))


@dataclass(frozen=True, slots=True)
class Place:
    """One way to place a replica on a cluster: what it takes of each pool, and its price."""

    taken: tuple[tuple[tuple[int, int], ...], ...]
    """For each pool, the sizes of its pods and how many have each."""
    price: int


def places(cluster: Cluster, wanted: Deployment) -> list[Place]:
    """Return the ways to place a replica on an empty cluster; each engine goes to one pool."""
    found = []
    for chosen in product(range(len(cluster.pools)), repeat=len(wanted.engines)):
        pods: list[dict[int, int]] = [{} for _ in cluster.pools]
        price = 0
        for engine, at in zip(wanted.engines, chosen, strict=True):
            there, size = cluster.pools[at], engine.members[0].requests[0].count
            per_node = there.devices[0].count
            if size > per_node:
                break
            pods[at][size] = pods[at].get(size, 0) + engine.copies
            paid = per_node if there.accounting is Accounting.NODES else size
            price += paid * engine.copies * there.prices[0]
        else:
            found.append(Place(tuple(tuple(sorted(each.items())) for each in pods), price))
    return sorted(set(found), key=lambda each: (each.price, each.taken))


def least(cluster: Cluster, wanted: Deployment) -> list[int]:
    """Return the least price of each number of replicas on a cluster, for as many as fit."""
    ways = places(cluster, wanted)
    best = [0]
    for count in range(1, wanted.replicas + 1):
        together = (
            [ways[at] for at in each] for each in combinations_with_replacement(range(len(ways)), count)
        )
        dearer = sorted(together, key=lambda each: sum(way.price for way in each))
        fitting = next((each for each in dearer if fits(cluster, each)), None)
        if fitting is None:
            break
        best.append(sum(way.price for way in fitting))
    return best


def fits(cluster: Cluster, chosen: Sequence[Place]) -> bool:
    """Return True if these replicas fit on a cluster together, by the rules of free capacity."""
    return all(
        holds(there, [pod for way in chosen for pod in way.taken[at]])
        for at, there in enumerate(cluster.pools)
    )


def holds(there: Pool, pods: Sequence[tuple[int, int]]) -> bool:
    if there.accounting is Accounting.NODES:
        return sum(count for _, count in pods) <= there.nodes
    loads = [Load(Group(((PodDemand((size,), (size,), (True,)), 1),)), count) for size, count in pods]
    return not DeviceCapacity.build(there.nodes, [there.devices[0].count], loads).overcommitted


def optimum(there: Fleet, wanted: Deployment) -> tuple[int, int]:
    """Return how many replicas fit on a fleet, and the least price of so many."""
    best = {0: 0}
    for prices in (least(each, wanted) for each in there.clusters):
        joined: dict[int, int] = {}
        for (placed, price), (more, further) in product(best.items(), enumerate(prices)):
            if (count := placed + more) <= wanted.replicas:
                joined[count] = min(joined.get(count, price + further), price + further)
        best = joined
    return max(best), best[max(best)]


def run(fleets: int, seed: int) -> dict[str, object]:
    gaps, found, possible, fewer, seconds = [], 0, 0, 0, 0.0
    for number in range(fleets):
        chance = random.Random(f"{seed}-{number}")  # noqa: S311 - not a secret
        there, wanted = fleet(chance), deployment(chance)
        began = time.perf_counter()
        placement = schedule(there, wanted)
        seconds += time.perf_counter() - began
        count, price = optimum(there, wanted)
        if len(placement.assignments) < count:
            fewer += 1
        elif count:
            gaps.append(placement.price / price - 1)
            found, possible = found + placement.price, possible + price
    return {
        "fleets": fleets,
        "placed": len(gaps),
        "fewer": fewer,
        "optimal": round(sum(gap < TINY for gap in gaps) / len(gaps), 4),
        "gap_of_all": round(found / possible - 1, 5),
        "mean_gap": round(statistics.mean(gaps), 5),
        "gap_p99": round(sorted(gaps)[len(gaps) * 99 // 100], 4),
        "greatest_gap": round(max(gaps), 4),
        "seconds": round(seconds / fleets, 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fleets", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON line; the default")
    options = parser.parse_args()
    print(json.dumps(run(options.fleets, options.seed)))


if __name__ == "__main__":
    main()

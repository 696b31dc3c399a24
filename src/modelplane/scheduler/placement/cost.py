"""Cost of a placement, and the order of feasible clusters and of feasible pools of one cluster by it.

Cost is the price of its devices, and the devices that it makes unusable for others. A pool that counts nodes
gives a pod a whole node: all its devices are paid for, and those that no pod claims are stranded. In a pool
that counts devices, a pod pays for what it claims and strands nothing.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter, mul
from typing import Final, NamedTuple

from modelplane.api.fields.cluster.devices import Claim
from modelplane.api.fields.cluster.node_pools import Accounting
from modelplane.scheduler.free_capacity import Load
from modelplane.scheduler.types import Cluster, Engine, Pool


class Cost(NamedTuple):
    """Cost of a replica.

    `price` is for an hour, in billionths of the currency. `unpriced` is the number of parts of the replica
    whose price is not known; they are not in `price`.
    """

    stranded: int = 0
    unpriced: int = 0
    price: int = 0


NOTHING: Final = Cost()


def sum_costs(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs."""
    stranded = unpriced = price = 0
    for cost in costs:
        stranded += cost.stranded
        unpriced += cost.unpriced
        price += cost.price
    return Cost(stranded, unpriced, price)


def choose_currency(clusters: Iterable[Cluster], preferred: str) -> str:
    """Return the currency to compare prices in: the wanted one, or else that of most pools."""
    if preferred:
        return preferred
    pools = Counter(chain.from_iterable(map(attrgetter("currencies"), clusters)))
    return min(pools, key=lambda currency: (-pools[currency], currency), default="")


def compute_cost(pool: Pool, load: Load, currency: str) -> Cost:
    """Return the cost of a load on a pool. Without a currency nothing has a price."""
    claimed = [0] * len(pool.devices)
    for demand, pods in load.group.pods:
        for entry, need in enumerate(demand.need):
            claimed[entry] += need * pods * load.copies
    if pool.accounting is Accounting.DEVICES:
        return _price(pool, claimed, currency)
    whole = compute_cost_of_nodes(pool, load.nodes, currency)
    stranded = 0
    for device, taken in zip(pool.devices, claimed, strict=True):
        if device.claim is Claim.DRA:
            stranded += max(device.count * load.nodes - taken, 0)
    return Cost(stranded, whole.unpriced, whole.price)


def count_least_stranded(smallest_node: int, engines: Iterable[Engine]) -> int:
    """Return the devices that engines strand at the least where no node that they take has fewer devices."""
    members = ((engine.copies, member) for engine in engines for member in engine.members)
    asked = (
        (copies * member.pods, sum(device_request.count for device_request in member.requests))
        for copies, member in members
    )
    return sum(pods * max(smallest_node - devices, 0) for pods, devices in asked if devices)


def compute_cost_of_nodes(pool: Pool, nodes: int, currency: str) -> Cost:
    """Return the price of whole nodes."""
    if not nodes or not currency:
        return NOTHING
    return _price(pool, [device.count * nodes for device in pool.devices], currency)


def _price(pool: Pool, devices: Iterable[int], currency: str) -> Cost:
    if not currency or pool.currency != currency:
        return Cost(unpriced=1 if currency else 0)
    return Cost(price=sum(map(mul, devices, pool.prices)))

"""Use of one quota, by class and device, beside what the fleet has.

The numbers are those of the ledger that placements use.
"""

from collections import Counter

import msgspec
from msgspec.structs import replace

from modelplane.scheduler.capacity.capacity_ledger import Ledger
from modelplane.scheduler.placement.selection import Selection
from modelplane.scheduler.quotas.quota_ledger import QuotaLedger
from modelplane.scheduler.quotas.quotas import DeviceKey, Quota
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Fleet


class QuotaUse(msgspec.Struct, frozen=True):
    """Use of a device of a class: by the namespaces of the quota, and what the fleet's pools have of it."""

    class_name: str
    device: str
    nominal: int
    used: int
    borrowed: int
    capacity: int


def quota_usage(fleet: Fleet, quota: Quota) -> tuple[QuotaUse, ...]:
    """Return the use of every limit, in order; the fleet has at least the replicas of its namespaces."""
    budget = SearchBudget()
    alone = replace(quota, cohort="")
    namespace = next(iter(quota.namespaces or ()), "")
    ledger = Ledger(fleet.replicas, Selection(budget), budget)
    quotas = QuotaLedger(replace(fleet, quotas=(alone,)), namespace, ledger)
    capacity: Counter[DeviceKey] = Counter()
    for cluster in fleet.clusters:
        for pool in cluster.pools:
            for device in pool.devices:
                capacity[DeviceKey(pool.class_name, device.name)] += device.count * pool.nodes
    return tuple(
        QuotaUse(key.class_name, key.device, each.limit.nominal, each.used, each.borrowed, capacity[key])
        for key, each in sorted(quotas.standings(), key=lambda item: item[0])
    )

"""Quota ledger: the devices that the namespaces of a quota and of its cohort hold, and what is left for them.

A replica is charged for what it was placed with, by the accounting of its pools: whole nodes, or its claims.
It is charged until it is gone, on a lost cluster too. What has been counted is never taken away: a quota
refuses new replicas only.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from modelplane.scheduler.ledger import Ledger
from modelplane.scheduler.quotas import DeviceKey, Limit, Quota, binding
from modelplane.scheduler.reservation import Reservation
from modelplane.scheduler.types import Cluster, Fleet, PlacedEngine, Replica
from modelplane.scheduler.verdict import Reason, Rejected


@dataclass(frozen=True, slots=True)
class Standing:
    """Use of one limit: what is used of it, and what may be used in addition, borrowed devices included."""

    limit: Limit
    used: int
    available: int

    @property
    def borrowed(self) -> int:
        """Devices in use beyond the nominal quota."""
        return max(self.used - self.limit.nominal, 0)

    @property
    def borrowable(self) -> int:
        """Devices that may be borrowed now in addition."""
        return max(self.available - max(self.limit.nominal - self.used, 0), 0)


class QuotaLedger:
    """Use of the quotas that concern one namespace: its own, and those of its cohort."""

    def __init__(
        self, fleet: Fleet, namespace: str, ledger: Ledger, reservations: Sequence[Reservation] = ()
    ) -> None:
        self._fleet = fleet
        self._reservations = reservations
        self._namespace = namespace
        self._ledger = ledger
        self._clusters = {each.name: each for each in fleet.clusters} if fleet.quotas else {}
        self.quota = binding(fleet.quotas, namespace) if fleet.quotas else None
        self._quotas: dict[str, Quota] = {}
        self._limits: dict[str, dict[DeviceKey, Limit]] = {}
        self._used: dict[str, Counter[DeviceKey]] | None = None
        self._unknown: dict[str, str] = {}
        """The replica of each quota whose devices are not known, and why."""

    @property
    def problem(self) -> str:
        """The reason why no new replica is placed, whatever it holds; empty if there is none."""
        return self.quota.problem if self.quota else ""

    def charge(self, cluster: Cluster, engines: Sequence[PlacedEngine], sign: int = 1) -> None:
        """Count a replica of the namespace, or take it back."""
        if self.quota is not None and self.quota.limits:
            self._count(self.quota.name, self._ledger.devices(cluster, engines), sign)

    def grow(self, replica: Replica, engines: Sequence[PlacedEngine], sign: int = 1) -> None:
        """Count what engines hold beyond those of a replica of the namespace, or take it back."""
        cluster = self._clusters.get(replica.cluster)
        if cluster is not None and self.quota is not None and self.quota.limits:
            held = self._ledger.devices(cluster, replica.engines)
            self._count(self.quota.name, self._ledger.devices(cluster, engines) - held, sign)

    def release(self, replica: Replica, sign: int = -1) -> None:
        """Take back what a replica of any namespace of the cohort holds."""
        cluster, quota = self._clusters.get(replica.cluster), self.quota_of(replica.namespace)
        if cluster is not None and quota is not None:
            self._count(quota.name, self._ledger.devices(cluster, replica.engines), sign)

    def refusal(
        self, cluster: Cluster, engines: Sequence[PlacedEngine], instead_of: Sequence[PlacedEngine] = ()
    ) -> Rejected | None:
        """Return why engines may not be placed, as far as they hold more than others; None if they may."""
        if self.quota is None or not self.quota.limits:
            return None
        needed = self._ledger.devices(cluster, engines) - self._ledger.devices(cluster, instead_of)
        for key, count in sorted(needed.items()):
            standing = self.standing(self.quota, key)
            if standing is not None and (unknown := self._unknown.get(self.quota.name)):
                return Rejected(Reason.OVER_QUOTA, _subject(self.quota), unknown)
            if standing is not None and count > standing.available:
                return self._rejected(self.quota, key, standing, count)
        return None

    def objection(
        self, cluster: Cluster, engines: Sequence[PlacedEngine], instead_of: Sequence[PlacedEngine] = ()
    ) -> str:
        """Return the same in words, and what keeps every replica from being placed; empty if nothing does."""
        refusal = self.refusal(cluster, engines, instead_of)
        return self.problem or (refusal.detail if refusal else "")

    def borrows(self, cluster: Cluster, engines: Sequence[PlacedEngine]) -> bool:
        """Return True if a replica, not counted yet, would hold devices beyond the nominal quota."""
        if self.quota is None:
            return False
        needed = self._ledger.devices(cluster, engines)
        standings = ((self.standing(self.quota, key), count) for key, count in needed.items())
        return any(each and each.used + count > each.limit.nominal for each, count in standings)

    def is_borrower(self, replica: Replica) -> bool:
        """Return True if a replica holds a device of which its quota uses more than the nominal amount."""
        cluster, quota = self._clusters.get(replica.cluster), self.quota_of(replica.namespace)
        if cluster is None or quota is None:
            return False
        keys = self._ledger.devices(cluster, replica.engines)
        standings = (self.standing(quota, key) for key in keys)
        return any(each is not None and each.borrowed for each in standings)

    def standings(self) -> Iterator[tuple[DeviceKey, Standing]]:
        """Yield the use of every limit of the namespace's quota whose class the fleet has."""
        self._usage()
        if self.quota is not None:
            for key in self._limits.get(self.quota.name, {}):
                if (standing := self.standing(self.quota, key)) is not None:
                    yield key, standing

    def standing(self, quota: Quota, key: DeviceKey) -> Standing | None:
        """Return the use of a device by a quota of the cohort; None if it is not limited."""
        usage = self._usage()
        limit = self._limits[quota.name].get(key)
        if limit is None:
            return None
        used = usage[quota.name][key]
        if not quota.cohort:
            return Standing(limit, used, max(limit.nominal - used, 0))
        pool = 0
        for name, limits in self._limits.items():
            if other := limits.get(key):
                left = other.nominal - other.guaranteed - max(usage[name][key] - other.guaranteed, 0)
                pool += min(left, 0) if name in self._unknown else left
        own = max(limit.guaranteed - used, 0)
        if limit.borrowing is not None:
            pool = min(pool, limit.nominal + limit.borrowing - used - own)
        return Standing(limit, used, own + max(pool, 0))

    def quota_of(self, namespace: str) -> Quota | None:
        """Return the quota of the cohort that binds a namespace; None if none does."""
        self._usage()
        return self._quotas.get(namespace)

    def _usage(self) -> dict[str, Counter[DeviceKey]]:
        """Count what the cohort holds, the first time that it is asked for."""
        if self._used is not None:
            return self._used
        members = _cohort(self._fleet.quotas, self.quota)
        first = _first_devices(self._fleet.clusters)
        self._quotas = {namespace: each for each in members for namespace in each.namespaces or ()}
        self._limits = {each.name: {_key(limit, first): limit for limit in each.limits} for each in members}
        self._used = {each.name: Counter() for each in members}
        for replica in self._fleet.replicas:
            quota = self._quotas.get(replica.namespace)
            cluster = self._clusters.get(replica.cluster) if quota else None
            if quota is not None and cluster is not None:
                self._used[quota.name].update(self._ledger.devices(cluster, replica.engines))
                if unknown := _unknown(cluster, replica):
                    self._unknown[quota.name] = min(unknown, self._unknown.get(quota.name, unknown))
        for each in self._reservations:
            quota = self._quotas.get(each.deployment.namespace)
            if quota is not None and each.cluster in self._clusters:
                taken = self._ledger.devices(self._clusters[each.cluster], each.engines)
                self._used[quota.name].update(taken)
        return self._used

    def _count(self, name: str, devices: Counter[DeviceKey], sign: int) -> None:
        used = self._usage()[name]
        for key, count in devices.items():
            used[key] += sign * count

    def _rejected(self, quota: Quota, key: DeviceKey, standing: Standing, count: int) -> Rejected:
        limit = standing.limit
        detail = (
            f"{quota.named(self._namespace)} uses {standing.used} of {limit.nominal} {key} and may borrow "
            f"{standing.borrowable}; this replica needs {count}"
        )
        remedy = (
            f'raise nominalQuota of class {key.class_name} in DeviceQuota "{quota.name}" to '
            f"{standing.used + count}"
        )
        return Rejected(Reason.OVER_QUOTA, _subject(quota), detail, remedy=remedy)


def _subject(quota: Quota) -> str:
    return f'DeviceQuota "{quota.name}"'


def _unknown(cluster: Cluster, replica: Replica) -> str:
    """Return why it is not known what a replica holds; empty if it is.

    A pool that a ready cluster does not publish is no longer in the fleet. One in trouble may bring it back.
    """
    if cluster.ready:
        return ""
    pools = {member.pool for engine in replica.engines for member in engine.members if member.claims}
    missing = sorted(pools - {pool.name for pool in cluster.pools})
    if not missing:
        return ""
    return (
        f'what replica "{replica.namespace}/{replica.name}" holds is not known until InferenceCluster '
        f'"{cluster.name}" is ready and publishes pool {missing[0]}'
    )


def _cohort(quotas: Iterable[Quota], own: Quota | None) -> tuple[Quota, ...]:
    """Return a quota and the others of its cohort; one whose limits are not known takes no part."""
    if own is None or not own.cohort:
        return () if own is None else (own,)
    return tuple(each for each in quotas if each.cohort == own.cohort and not each.problem)


def _first_devices(clusters: Iterable[Cluster]) -> dict[str, str]:
    """Return the name of the first device of each class that the fleet has."""
    return {
        pool.class_name: pool.devices[0].name
        for cluster in clusters
        for pool in cluster.pools
        if pool.devices
    }


def _key(limit: Limit, first: Mapping[str, str]) -> DeviceKey:
    return DeviceKey(limit.class_name, limit.device or first.get(limit.class_name, ""))

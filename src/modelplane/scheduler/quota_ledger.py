"""Quota ledger: the devices that the namespaces of a quota and of its cohort hold, and what is left for them.

A replica is charged for what it was placed with, by the accounting of its pools: whole nodes, or its claims.
It is charged until it is gone, on a lost cluster too. What has been counted is never taken away: a quota
refuses new replicas only.

A placement asks for the classes of a few pools, while a fleet has replicas of many. So what a class has in
use is summed up the first time that one of its devices is asked for, and what the cohort may still lend of a
device is kept as a sum to which every later change is added.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from modelplane.api.rejected import Rejected
from modelplane.scheduler.capacity_ledger import Ledger
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.quotas import DeviceKey, Limit, Quota, find_quota
from modelplane.scheduler.rejection_reasons import Reason
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Cluster, Deployment, Fleet, PlacedEngine, Pool, Replica


class Reservation(msgspec.Struct, frozen=True):
    """A place on a cluster for a replica of a deployment.

    Replicas `instead_of` which it is to be placed still hold capacity; it takes only what it needs beyond.
    """

    deployment: Deployment
    cluster: str
    engines: tuple[PlacedEngine, ...]
    instead_of: tuple[Replica, ...] = ()

    @property
    def beyond(self) -> tuple[PlacedEngine, ...]:
        """Engines of the replicas on the same cluster that leave for it."""
        leaving = (replica for replica in self.instead_of if replica.cluster == self.cluster)
        return tuple(engine for replica in leaving for engine in replica.engines)


class _Limits(msgspec.Struct):
    """Limits on the devices of a class, and the names of their quotas, in two lists.

    Pairs would be objects by the ten thousand, for which Python's garbage collector would stop a placement.
    """

    names: list[str] = []
    limits: list[Limit] = []


class _UncountedEngines(msgspec.Struct):
    """Engines in pools of a class that is not counted yet, with their pools and quotas, in three lists."""

    names: list[str] = []
    pools: list[Pool] = []
    engines: list[Sequence[PlacedEngine]] = []


class CohortUse:
    """Devices that each quota of a cohort uses, and what they lend."""

    def __init__(
        self, members: Sequence[Quota], fleet: Fleet, ledger: Ledger, reservations: Sequence[Reservation] = ()
    ) -> None:
        self._ledger = ledger
        self._clusters = {cluster.name: cluster for cluster in fleet.clusters}
        self._first_device = {
            pool.class_name: pool.devices[0].name
            for cluster in fleet.clusters
            for pool in cluster.pools
            if pool.devices
        }
        """Name of the first device of each class that the fleet has."""
        self.quotas = {namespace: other for other in members for namespace in other.namespaces or ()}
        self.unknown: dict[str, str] = {}
        """The replica of each quota whose devices are not known, and why."""
        self._of_class: defaultdict[str, _Limits] = defaultdict(_Limits)
        for member_quota in members:
            for limit in member_quota.limits:
                of_class = self._of_class[limit.class_name]
                of_class.names.append(member_quota.name)
                of_class.limits.append(limit)
        self._limits: dict[DeviceKey, dict[str, Limit]] = {}
        self._used: defaultdict[DeviceKey, Counter[str]] = defaultdict(Counter)
        """Devices in use, by the name of the quota."""
        self._lent: dict[DeviceKey, int] = {}
        self._uncounted: defaultdict[str, _UncountedEngines] = defaultdict(_UncountedEngines)
        """Engines by the class of their pool, until the class is counted."""
        for replica in fleet.replicas:
            if (quota := self.quotas.get(replica.namespace)) is not None:
                self._note_engines(quota.name, replica.cluster, replica.engines)
                self._note_unknown(quota.name, replica)
        for reserved in reservations:
            if (quota := self.quotas.get(reserved.deployment.namespace)) is not None:
                self._note_engines(quota.name, reserved.cluster, reserved.engines)

    def list_keys(self, quota: Quota) -> dict[DeviceKey, None]:
        """Return the devices that a quota limits, in order."""
        return dict.fromkeys(DeviceKey(limit.class_name, self._device(limit)) for limit in quota.limits)

    def find_limits(self, key: DeviceKey) -> Mapping[str, Limit]:
        """Return the limits on a device, by the name of the quota."""
        if key not in self._limits:
            limits = self._of_class.get(key.class_name, _Limits())
            pairs = zip(limits.names, limits.limits, strict=True)
            self._limits[key] = {name: limit for name, limit in pairs if self._device(limit) == key.device}
        return self._limits[key]

    def count_used(self, name: str, key: DeviceKey) -> int:
        """Return what a quota uses of a device."""
        self._count_class(key.class_name)
        return self._used[key][name]

    def count_lendable(self, key: DeviceKey) -> int:
        """Return what the quotas of the cohort may still lend of a device; negative if they lent too much."""
        if key not in self._lent:
            self._count_class(key.class_name)
            used = self._used[key]
            self._lent[key] = sum(
                self._lends(name, limit, used[name]) for name, limit in self.find_limits(key).items()
            )
        return self._lent[key]

    def add(self, name: str, devices: Mapping[DeviceKey, int], sign: int = 1) -> None:
        """Count devices of a quota, or take them back."""
        for key, count in devices.items():
            used = self._used[key]
            limit = self.find_limits(key).get(name) if key in self._lent else None
            if limit is not None:
                changed = self._lends(name, limit, used[name] + sign * count)
                self._lent[key] += changed - self._lends(name, limit, used[name])
            used[name] += sign * count

    def _lends(self, name: str, limit: Limit, used: int) -> int:
        left = limit.nominal - limit.guaranteed - max(used - limit.guaranteed, 0)
        return min(left, 0) if name in self.unknown else left

    def _device(self, limit: Limit) -> str:
        """Return the device of a limit: that which it names, or the first of the class in the fleet."""
        return limit.device or self._first_device.get(limit.class_name, "")

    def _note_engines(self, name: str, cluster: str, engines: Sequence[PlacedEngine]) -> None:
        """Note engines that are there, by the classes of their pools."""
        if (found := self._clusters.get(cluster)) is None:
            return
        held = {member.pool for engine in engines for member in engine.members if member.claims}
        for pool in found.pools:
            if pool.name in held:
                there = self._uncounted[pool.class_name]
                there.names.append(name)
                there.pools.append(pool)
                there.engines.append(engines)

    def _count_class(self, class_name: str) -> None:
        there = self._uncounted.pop(class_name, None)
        if there is not None:
            for name, pool, engines in zip(there.names, there.pools, there.engines, strict=True):
                for key, count in self._ledger.count_devices_in(pool, engines).items():
                    self._used[key][name] += count

    def _note_unknown(self, name: str, replica: Replica) -> None:
        cluster = self._clusters.get(replica.cluster)
        # A pool that a ready cluster does not publish is no longer in the fleet.
        if cluster is None or cluster.ready:
            return
        # A cluster in trouble may bring it back.
        pools = {member.pool for engine in replica.engines for member in engine.members if member.claims}
        if missing := sorted(pools - {pool.name for pool in cluster.pools}):
            why = (
                f'the devices of replica "{replica.namespace}/{replica.name}" are unknown until '
                f'InferenceCluster "{cluster.name}" is ready and publishes pool {missing[0]}'
            )
            self.unknown[name] = min(why, self.unknown.get(name, why))


class Standing(msgspec.Struct, frozen=True):
    """Use of one limit: what is used of it, and what may be used in addition, borrowed devices included."""

    limit: Limit
    used: int
    available: int

    @property
    def borrowed(self) -> int:
        """Devices in use beyond the nominal quota."""
        return max(self.used - self.limit.nominal, 0)


class QuotaLedger:
    """Use of the quotas that concern one namespace: its own, and those of its cohort."""

    def __init__(
        self, fleet: Fleet, namespace: str, ledger: Ledger, reservations: Sequence[Reservation] = ()
    ) -> None:
        self._fleet = fleet
        self._reservations = reservations
        self._namespace = namespace
        self._ledger = ledger
        self._clusters = {cluster.name: cluster for cluster in fleet.clusters} if fleet.quotas else {}
        self.quota = find_quota(fleet.quotas, namespace) if fleet.quotas else None
        self._use: CohortUse | None = None

    @property
    def problem(self) -> str | None:
        """The reason why no new replica is placed, whatever it holds; None if there is none."""
        return (self.quota.problem or None) if self.quota else None

    def charge(self, cluster: Cluster, engines: Sequence[PlacedEngine], sign: int = 1) -> None:
        """Count a replica of the namespace, or take it back."""
        if self.quota is not None and self.quota.limits:
            self._cohort.add(self.quota.name, self._ledger.count_devices(cluster, engines), sign)

    def grow(self, replica: Replica, engines: Sequence[PlacedEngine], sign: int = 1) -> None:
        """Count what engines hold beyond those of a replica of the namespace, or take it back."""
        cluster = self._clusters.get(replica.cluster)
        if cluster is not None and self.quota is not None and self.quota.limits:
            held = self._ledger.count_devices(cluster, replica.engines)
            self._cohort.add(self.quota.name, self._ledger.count_devices(cluster, engines) - held, sign)

    def release(self, replica: Replica, sign: int = -1) -> None:
        """Take back what a replica of any namespace of the cohort holds."""
        cluster, quota = self._clusters.get(replica.cluster), self.find_quota(replica.namespace)
        if cluster is not None and quota is not None:
            self._cohort.add(quota.name, self._ledger.count_devices(cluster, replica.engines), sign)

    def check(
        self, cluster: Cluster, engines: Sequence[PlacedEngine], instead_of: Sequence[PlacedEngine] = ()
    ) -> Rejected | None:
        """Return why engines may not be placed, as far as they hold more than others; None if they may."""
        if self.quota is None or not self.quota.limits:
            return None
        needed = self._ledger.count_devices(cluster, engines) - self._ledger.count_devices(
            cluster, instead_of
        )
        for key, count in sorted(needed.items()):
            standing = self.find_standing(self.quota, key)
            if standing is not None and (unknown := self._cohort.unknown.get(self.quota.name)):
                return Rejected(Reason.OVER_QUOTA, _subject(self.quota), unknown)
            if standing is not None and count > standing.available:
                return self._rejected(self.quota, key, standing, count)
        return None

    def must_borrow(self, cluster: Cluster, engines: Sequence[PlacedEngine]) -> bool:
        """Return True if a replica, not counted yet, would hold devices beyond the nominal quota."""
        if self.quota is None:
            return False
        needed = self._ledger.count_devices(cluster, engines)
        standings = ((self.find_standing(self.quota, key), count) for key, count in needed.items())
        return any(
            standing and standing.used + count > standing.limit.nominal for standing, count in standings
        )

    def is_borrower(self, replica: Replica) -> bool:
        """Return True if a replica holds a device of which its quota uses more than the nominal amount."""
        cluster, quota = self._clusters.get(replica.cluster), self.find_quota(replica.namespace)
        if cluster is None or quota is None:
            return False
        keys = self._ledger.count_devices(cluster, replica.engines)
        standings = (self.find_standing(quota, key) for key in keys)
        return any(standing is not None and standing.borrowed for standing in standings)

    def list_standings(self) -> Iterator[tuple[DeviceKey, Standing]]:
        """Yield the use of every limit of the namespace's quota whose class the fleet has."""
        if self.quota is not None:
            for key in self._cohort.list_keys(self.quota):
                if (standing := self.find_standing(self.quota, key)) is not None:
                    yield key, standing

    def find_standing(self, quota: Quota, key: DeviceKey) -> Standing | None:
        """Return the use of a device by a quota of the cohort; None if it is not limited."""
        limit = self._cohort.find_limits(key).get(quota.name)
        if limit is None:
            return None
        used = self._cohort.count_used(quota.name, key)
        if not quota.cohort:
            return Standing(limit, used, max(limit.nominal - used, 0))
        pool, own = self._cohort.count_lendable(key), max(limit.guaranteed - used, 0)
        if limit.borrowing is not None:
            pool = min(pool, limit.nominal + limit.borrowing - used - own)
        return Standing(limit, used, own + max(pool, 0))

    def find_quota(self, namespace: str) -> Quota | None:
        """Return the quota of the cohort that binds a namespace; None if none does."""
        return self._cohort.quotas.get(namespace)

    @property
    def _cohort(self) -> CohortUse:
        """The use of the cohort's quotas, counted from the first time that it is asked for."""
        if self._use is None:
            own = self.quota
            members: tuple[Quota, ...] = () if own is None else (own,)
            if own is not None and own.cohort:
                # One whose limits are not known takes no part.
                others = (quota for quota in self._fleet.quotas if not quota.problem)
                members = tuple(quota for quota in others if quota.cohort == own.cohort)
            self._use = CohortUse(members, self._fleet, self._ledger, self._reservations)
        return self._use

    def _rejected(self, quota: Quota, key: DeviceKey, standing: Standing, count: int) -> Rejected:
        limit = standing.limit
        owner = quota.describe_owner(self._namespace)
        borrowable = max(standing.available - max(limit.nominal - standing.used, 0), 0)
        detail = (
            f"{owner} uses {standing.used} of {limit.nominal} {key} and can borrow {borrowable}; this "
            f"replica needs {count}"
        )
        remedy = (
            f'raise nominalQuota of class {key.class_name} in DeviceQuota "{quota.name}" to '
            f"{standing.used + count}"
        )
        return Rejected(Reason.OVER_QUOTA, _subject(quota), detail, remedy=remedy)


def _subject(quota: Quota) -> str:
    return f'DeviceQuota "{quota.name}"'


class QuotaUse(msgspec.Struct, frozen=True):
    """Use of a device of a class: by the namespaces of the quota, and what the fleet's pools have of it."""

    class_name: str
    device: str
    nominal: int
    used: int
    borrowed: int
    capacity: int


def sum_quota_usage(fleet: Fleet, quota: Quota) -> tuple[QuotaUse, ...]:
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
        QuotaUse(
            key.class_name,
            key.device,
            standing.limit.nominal,
            standing.used,
            standing.borrowed,
            capacity[key],
        )
        for key, standing in sorted(quotas.list_standings(), key=lambda item: item[0])
    )

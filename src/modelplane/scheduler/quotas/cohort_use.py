"""Use of devices by the quotas of one cohort, counted class by class as each is asked for.

A placement asks for the classes of a few pools, while a fleet has replicas of many. So what a class has in
use is summed up the first time that one of its devices is asked for, and what the cohort may still lend of a
device is kept as a sum to which every later change is added.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from modelplane.scheduler.capacity.capacity_ledger import Ledger
from modelplane.scheduler.preemption.reservation import Reservation
from modelplane.scheduler.quotas.quotas import DeviceKey, Limit, Quota
from modelplane.scheduler.types import Cluster, Fleet, PlacedEngine, Pool, Replica


class _Limits(msgspec.Struct):
    """Limits on the devices of a class, and the names of their quotas, in two lists.

    Pairs would be objects by the ten thousand, for which Python's garbage collector would stop a placement.
    """

    names: list[str] = []
    limits: list[Limit] = []


class _There(msgspec.Struct):
    """Engines that are there in pools of a class, with their pools and quotas, in three lists."""

    names: list[str] = []
    pools: list[Pool] = []
    engines: list[Sequence[PlacedEngine]] = []


class CohortUse:
    """Devices that each quota of a cohort uses, and what they lend."""

    def __init__(
        self,
        members: Sequence[Quota],
        fleet: Fleet,
        ledger: Ledger,
        reservations: Sequence[Reservation] = (),
    ) -> None:
        self._ledger = ledger
        self._clusters = {cluster.name: cluster for cluster in fleet.clusters}
        self._first = _first_devices(fleet.clusters)
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
        self._uncounted: defaultdict[str, _There] = defaultdict(_There)
        """Engines by the class of their pool, until the class is counted."""
        for replica in fleet.replicas:
            if (quota := self.quotas.get(replica.namespace)) is not None:
                self._there(quota.name, replica.cluster, replica.engines)
                self._note_unknown(quota.name, replica)
        for reserved in reservations:
            if (quota := self.quotas.get(reserved.deployment.namespace)) is not None:
                self._there(quota.name, reserved.cluster, reserved.engines)

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
        return limit.device or self._first.get(limit.class_name, "")

    def _there(self, name: str, cluster: str, engines: Sequence[PlacedEngine]) -> None:
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
                f'what replica "{replica.namespace}/{replica.name}" holds is not known until '
                f'InferenceCluster "{cluster.name}" is ready and publishes pool {missing[0]}'
            )
            self.unknown[name] = min(why, self.unknown.get(name, why))


def _first_devices(clusters: Iterable[Cluster]) -> dict[str, str]:
    """Return the name of the first device of each class that the fleet has."""
    return {
        pool.class_name: pool.devices[0].name
        for cluster in clusters
        for pool in cluster.pools
        if pool.devices
    }

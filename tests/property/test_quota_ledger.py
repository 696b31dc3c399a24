"""The use of quotas, counted as it is asked for, against the same arithmetic counted anew each time.

The reference counts every replica of the cohort for every question, and sums over every quota.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings, strategies as st

from modelplane.api.fields.pods.engines import Role
from modelplane.scheduler import Accounting, Cluster, Deployment, Device, Fleet, Limit, Pool, Quota, Replica
from modelplane.scheduler.capacity_ledger import Ledger
from modelplane.scheduler.filters.device_requests import derive_pod_demand
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.quota_ledger import QuotaLedger, Reservation, Standing
from modelplane.scheduler.quotas import DeviceKey
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import PlacedEngine, PlacedMember, ResolvedRequest

TEAMS = ("a", "b", "c", "d", "e")
CLASSES = ("h100", "l4")
DEVICES = (Device("gpu", "gpu", 4, device_class_name="gpu"), Device("nic", "nic", 2, device_class_name="nic"))


@dataclass
class Reference:
    """Devices of each quota, as they were held and changed, in one list."""

    fleet: Fleet
    members: tuple[Quota, ...]
    held: list[tuple[str, Counter[DeviceKey]]] = field(default_factory=list)

    def devices(self, cluster: str, engines: Sequence[PlacedEngine]) -> Counter[DeviceKey]:
        """Return what engines take: whole nodes, or the devices that they claim."""
        [found] = [each for each in self.fleet.clusters if each.name == cluster] or [Cluster("")]
        taken: Counter[DeviceKey] = Counter()
        for pool in found.pools:
            for engine in engines:
                for member in engine.members:
                    if member.pool != pool.name or not member.claims:
                        continue
                    whole = tuple(device.count for device in pool.devices)
                    if pool.accounting is Accounting.DEVICES:
                        budget = SearchBudget()
                        whole = derive_pod_demand(member.claims, pool.devices, Selection(budget), budget).need
                    for device, count in zip(pool.devices, whole, strict=True):
                        key = DeviceKey(pool.class_name, device.name)
                        taken[key] += count * member.pods * engine.copies
        return +taken

    def quota_of(self, namespace: str) -> Quota | None:
        return next((each for each in self.members if namespace in (each.namespaces or ())), None)

    def charge(self, namespace: str, devices: Counter[DeviceKey], sign: int = 1) -> None:
        quota = self.quota_of(namespace)
        if quota is not None:
            self.held.append((quota.name, Counter({key: sign * count for key, count in devices.items()})))

    def used(self, name: str, key: DeviceKey) -> int:
        return sum(devices[key] for holder, devices in self.held if holder == name)

    def limits(self, quota: Quota) -> dict[DeviceKey, Limit]:
        first = {
            pool.class_name: pool.devices[0].name
            for cluster in self.fleet.clusters
            for pool in cluster.pools
            if pool.devices
        }
        return {
            DeviceKey(each.class_name, each.device or first.get(each.class_name, "")): each
            for each in quota.limits
        }

    def unknown(self, name: str) -> bool:
        """Return True if a replica of a quota is in a pool that a cluster in trouble does not publish."""
        clusters = {each.name: each for each in self.fleet.clusters}
        for replica in self.fleet.replicas:
            quota, cluster = self.quota_of(replica.namespace), clusters.get(replica.cluster)
            if quota is None or quota.name != name or cluster is None or cluster.ready:
                continue
            pools = {member.pool for engine in replica.engines for member in engine.members if member.claims}
            if pools - {pool.name for pool in cluster.pools}:
                return True
        return False

    def standing(self, quota: Quota, key: DeviceKey) -> Standing | None:
        limit = self.limits(quota).get(key)
        if limit is None:
            return None
        used = self.used(quota.name, key)
        if not quota.cohort:
            return Standing(limit, used, max(limit.nominal - used, 0))
        pool = 0
        for each in self.members:
            other = self.limits(each).get(key)
            if other is not None:
                left = other.nominal - other.guaranteed - max(self.used(each.name, key) - other.guaranteed, 0)
                pool += min(left, 0) if self.unknown(each.name) else left
        own = max(limit.guaranteed - used, 0)
        if limit.borrowing is not None:
            pool = min(pool, limit.nominal + limit.borrowing - used - own)
        return Standing(limit, used, own + max(pool, 0))


def engines(random: Random) -> tuple[PlacedEngine, ...]:
    return tuple(
        PlacedEngine(
            f"e{at}",
            random.randint(1, 2),
            tuple(
                PlacedMember(
                    Role.STANDALONE,
                    random.choice(("p0", "p1", "gone")),
                    random.randint(1, 2),
                    tuple(
                        ResolvedRequest(each.name, each.driver, random.randint(1, each.count), ())
                        for each in DEVICES
                        if random.random() < 0.7
                    ),
                )
                for _ in range(random.randint(1, 2))
            ),
        )
        for at in range(random.randint(1, 2))
    )


def a_fleet(random: Random) -> Fleet:
    clusters = tuple(
        Cluster(
            name,
            ready=random.random() < 0.8,
            pools=tuple(
                Pool(
                    f"p{at}",
                    random.randint(1, 4),
                    random.choice((DEVICES, DEVICES[:1], DEVICES[::-1])),
                    accounting=random.choice((Accounting.NODES, Accounting.DEVICES)),
                    class_name=random.choice(CLASSES),
                )
                for at in range(random.randint(0, 2))
            ),
        )
        for name in ("x", "y")
    )
    replicas = tuple(
        Replica(
            random.choice((*TEAMS, "other")),
            f"r{at}",
            f"u{at}",
            f"d{at}",
            random.choice(("x", "y", "z")),
            0,
            engines(random),
        )
        for at in range(random.randint(0, 8))
    )
    quotas = []
    for team in TEAMS:
        limits = []
        for _ in range(random.randint(0, 4)):
            nominal = random.randint(0, 12)
            limits.append(
                Limit(
                    random.choice((*CLASSES, "absent")),
                    nominal,
                    random.choice(("", "gpu", "nic")),
                    random.choice((None, 0, 3)),
                    random.choice((None, random.randint(0, nominal))),
                )
            )
        problem = "unreadable" if random.random() < 0.1 else ""
        quotas.append(
            Quota(f"of-{team}", frozenset({team}), random.choice(("all", "all", "")), tuple(limits), problem)
        )
    return Fleet(clusters, replicas, quotas=tuple(quotas))


def members(fleet: Fleet, own: Quota) -> tuple[Quota, ...]:
    if not own.cohort:
        return (own,)
    return tuple(each for each in fleet.quotas if each.cohort == own.cohort and not each.problem)


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(TEAMS))
def test_counting_what_is_asked_for_is_counting_everything(seed: int, team: str) -> None:
    random = Random(seed)  # noqa: S311  nothing here is a secret
    fleet = a_fleet(random)
    reserved = tuple(
        Reservation(
            Deployment(random.choice(TEAMS), "d", "u", 1, ()), random.choice(("x", "z")), engines(random)
        )
        for _ in range(random.randint(0, 2))
    )
    budget = SearchBudget()
    tested = QuotaLedger(fleet, team, Ledger(fleet.replicas, Selection(budget), budget), reserved)
    own = tested.quota
    assert own is not None
    reference = Reference(fleet, members(fleet, own))
    for replica in fleet.replicas:
        reference.charge(replica.namespace, reference.devices(replica.cluster, replica.engines))
    for each in reserved:
        reference.charge(each.deployment.namespace, reference.devices(each.cluster, each.engines))
    keys = [DeviceKey(of, name) for of in (*CLASSES, "absent") for name in ("gpu", "nic", "")]
    for _ in range(random.randint(1, 8)):
        step(random, tested, reference, team)
        for quota in reference.members:
            asked = random.sample(keys, 3)
            expected = [reference.standing(quota, key) for key in asked]
            assert [tested.find_standing(quota, key) for key in asked] == expected
    if own in reference.members:
        expected_all = [(key, reference.standing(own, key)) for key in reference.limits(own)]
        assert list(tested.list_standings()) == expected_all


def step(random: Random, tested: QuotaLedger, reference: Reference, team: str) -> None:
    """Place, grow or remove a replica in both."""
    placed, sign = engines(random), random.choice((1, -1))
    cluster = random.choice(reference.fleet.clusters)
    replicas = reference.fleet.replicas
    action = random.choice(("charge", "grow", "release", "nothing"))
    own = reference.quota_of(team)
    if action == "charge" and own is not None and own.limits:
        tested.charge(cluster, placed, sign)
        reference.charge(team, reference.devices(cluster.name, placed), sign)
    elif action == "grow" and replicas and own is not None and own.limits:
        replica = random.choice(replicas)
        tested.grow(replica, placed, sign)
        before = reference.devices(replica.cluster, replica.engines)
        reference.charge(team, reference.devices(replica.cluster, placed) - before, sign)
    elif action == "release" and replicas:
        replica = random.choice(replicas)
        tested.release(replica, sign)
        reference.charge(replica.namespace, reference.devices(replica.cluster, replica.engines), sign)

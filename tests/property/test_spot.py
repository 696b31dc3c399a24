"""Spot pools in simulated time: notices, losses and returns of nodes, at random, over hours.

No replica is on spot without consent, the base is held wherever new replicas are placed, none moves without
a reason, nothing is overcommitted, and no replica that serves is withdrawn while no other one does.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import Phase, example, given, settings, strategies as st
from msgspec.structs import replace

from modelplane.api.fields.deployment.placement_settings import PlacementPolicy, SpotFallback
from modelplane.compose.cluster.noticed_nodes import BLOCKED
from modelplane.compose.deployment.scheduler_input import evicted_before
from modelplane.scheduler import (
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Member,
    Placement,
    Pool,
    Replica,
    Spot,
    find_spot_pools,
    schedule,
)

TICK = timedelta(seconds=30)
STARTS = timedelta(seconds=90)
LOSING = timedelta(hours=2)
QUIET = timedelta(hours=1, minutes=30)
START = datetime(2026, 1, 1, tzinfo=UTC)
ENGINES = (Engine("main", members=(Member(requests=(DeviceRequest("gpu"),)),)),)


@dataclass
class World:
    """A fleet whose spot nodes come and go, and whose deployments are placed one at a time."""

    random: Random
    now: datetime = START
    clusters: dict[str, Cluster] = field(default_factory=dict)
    deployments: list[Deployment] = field(default_factory=list)
    replicas: dict[str, Replica] = field(default_factory=dict)
    born: dict[str, datetime] = field(default_factory=dict)
    blocked: dict[tuple[str, str], datetime] = field(default_factory=dict)
    returns: dict[str, datetime] = field(default_factory=dict)
    """When a replica that lost its node gets another one of the same pool."""
    lost: set[str] = field(default_factory=set)
    """Replicas whose node with a notice is gone."""

    def __post_init__(self) -> None:
        random = self.random
        device = (Device("gpu", "gpu", 1, device_class_name="gpu"),)
        for name in "abc"[: random.randint(1, 3)]:
            pools = tuple(
                Pool(f"p{at}", random.randint(0, 4), device, currency="USD", prices=(at,), spot=at == 0)
                for at in range(random.randint(1, 2))
            )
            self.clusters[name] = Cluster(name, gateway_address="192.0.2.1", pools=pools)
        for at in range(random.randint(1, 3)):
            spot = Spot(random.randint(0, 2), random.choice(list(SpotFallback)))
            self.deployments.append(
                Deployment(
                    "ml",
                    f"d{at}",
                    f"uid-{at}",
                    random.randint(1, 4),
                    ENGINES,
                    spot=random.choice((None, spot, spot)),
                    policy=random.choice((None, *PlacementPolicy)),
                )
            )

    def is_on_spot(self, replica: Replica) -> bool:
        return bool(find_spot_pools(self.clusters[replica.cluster], replica.engines))

    def pool_of(self, replica: Replica) -> tuple[str, str]:
        return replica.cluster, replica.engines[0].members[0].pool

    def lose(self) -> None:
        """Give notices of nodes, or lose nodes without one; nodes with a notice go at their deadline."""
        for name, each in list(self.replicas.items()):
            if self._is_over(each):
                self._gone(each)
            elif self.is_on_spot(each) and not each.evicted and self.random.random() < 0.01:
                if self.random.random() < 0.2:
                    self._gone(each)
                    continue
                deadline = self.now + timedelta(seconds=self.random.choice((30, 120, 600)))
                self.replicas[name] = replace(
                    each, evicted="its node is taken back", evicted_at=deadline.isoformat()
                )
                self.blocked[self.pool_of(each)] = self.now + BLOCKED

    def _is_over(self, replica: Replica) -> bool:
        over = bool(replica.evicted_at) and replica.evicted_at <= self.now.isoformat()
        return over and replica.name not in self.lost

    def _gone(self, replica: Replica) -> None:
        self.replicas[replica.name] = replace(replica, ready=False)
        self.born[replica.name] = self.now + timedelta(days=1)
        self.lost.add(replica.name)
        self.returns[replica.name] = self.now + timedelta(seconds=self.random.choice((30, 600, 3600)))
        self.blocked[self.pool_of(replica)] = self.now + BLOCKED

    def serve(self) -> None:
        """Let replicas become ready, and those that lost their node start on another one."""
        for name, at in list(self.returns.items()):
            if name not in self.replicas or at <= self.now:
                del self.returns[name]
                self.born[name] = self.now
        for name, each in self.replicas.items():
            ready = self.now - self.born[name] >= STARTS
            if ready and not each.ready:
                self.lost.discard(name)
                self.replicas[name] = replace(each, ready=True, evicted="", evicted_at="")
            else:
                self.replicas[name] = replace(each, ready=ready)

    def fleet(self) -> Fleet:
        clusters = [
            replace(
                cluster,
                pools=tuple(
                    replace(pool, blocked="blocked")
                    if self.blocked.get((cluster.name, pool.name), START) > self.now and pool.spot
                    else pool
                    for pool in cluster.pools
                ),
            )
            for cluster in self.clusters.values()
        ]
        replicas = list(self.replicas.values())
        self.random.shuffle(clusters)
        self.random.shuffle(replicas)
        return Fleet(tuple(clusters), tuple(replicas), evicted_before=evicted_before(self.now))

    def reconcile(self, deployment: Deployment) -> None:
        """Place a deployment, and write the result: withdraw first, then delete."""
        fleet = self.fleet()
        placement = schedule(fleet, deployment)
        self._check(deployment, placement)
        for each in placement.assignments:
            if each.replica:
                self.replicas[each.replica] = replace(self.replicas[each.replica], draining=False)
                continue
            name = f"r{len(self.born):04}"
            self.born[name] = self.now
            self.replicas[name] = Replica(
                "ml", name, deployment.uid, deployment.name, each.cluster, each.index, each.engines
            )
        for gone in placement.dropped:
            there = self.replicas.pop(gone.replica)
            if not there.draining:
                self.replicas[gone.replica] = replace(there, draining=True)

    def _check(self, deployment: Deployment, placement: Placement) -> None:
        own = {name: each for name, each in self.replicas.items() if each.deployment_uid == deployment.uid}
        staying = [each for each in placement.assignments if not each.leaving]
        new = [each for each in staying if not each.replica]
        blocked = {pool for pool, until in self.blocked.items() if until > self.now}
        for each in new:
            assert deployment.spot or not each.spot_pools, "spot without consent"
            assert not {(each.cluster, pool) for pool in each.spot_pools} & blocked, "a blocked pool"
        if deployment.spot and any(each.spot_pools for each in new):
            on_spot = sum(bool(each.spot_pools) for each in staying)
            assert on_spot <= max(deployment.replicas - deployment.spot.base_on_demand, 0), "the base"
        retained = {each.replica for each in placement.assignments if not each.leaving}
        is_extra = len(own) > deployment.replicas
        for name, replica in own.items():
            has_reason = replica.evicted or replica.draining or is_extra
            assert name in retained or has_reason, "it moved without a reason"
        dropped = {each.replica for each in placement.dropped}
        if any(own[name].serves for name in dropped):
            left = [replica for name, replica in own.items() if name not in dropped]
            assert any(replica.serves for replica in left), "the last one that serves was withdrawn"
        taken = Counter(map(self.pool_of, self.replicas.values()))
        taken.update((each.cluster, each.engines[0].members[0].pool) for each in new)
        for (name, pool), count in taken.items():
            nodes = next(each.nodes for each in self.clusters[name].pools if each.name == pool)
            assert count <= nodes, "overcommitted"

    def run(self) -> None:
        while self.now < START + LOSING + QUIET:
            self.now += TICK
            if self.now < START + LOSING:
                self.lose()
            else:
                self._let_go()
            self.serve()
            for each in self.deployments:
                self.reconcile(each)

    def _let_go(self) -> None:
        """Nodes with a notice still go at their deadline; no further ones get any."""
        for each in list(self.replicas.values()):
            if self._is_over(each):
                self._gone(each)


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**32))
@example(6925)  # A node that is lost without a notice comes back, and then gets one.
def test_whatever_nodes_are_lost_the_rules_hold_and_the_fleet_converges(seed: int) -> None:
    world = World(Random(seed))  # noqa: S311 - not for secrets
    world.run()
    for deployment in world.deployments:
        own = [each for each in world.replicas.values() if each.deployment_uid == deployment.uid]
        placement = schedule(world.fleet(), deployment)
        assert len(own) == placement.diagnosis.placed <= deployment.replicas
        assert placement.dropped == ()
        assert all(each.ready for each in own)
        if len(own) < deployment.replicas:
            assert placement.diagnosis.excluded, "it says why"

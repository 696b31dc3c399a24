"""Drains of random fleets, in random orders: nothing is lost, and every drain ends or says why."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from modelplane.api.fields.cluster.drain_settings import Cordon
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
    Role,
    list_moving,
    schedule,
)

GPU = DeviceRequest("gpu", 1, ('device.driver == "gpu"',))
SINGLE = (Engine("main", members=(Member(requests=(GPU,)),)),)
GANG = (Engine("main", members=(Member(Role.LEADER, 1, (GPU,)), Member(Role.WORKER, 1, (GPU,)))),)


class World:
    """A fleet whose controllers run one deployment at a time, as the one lane of placements does."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.clusters = {
            name: Cluster(
                name,
                gateway_address="192.0.2.1",
                pools=tuple(
                    Pool(
                        f"p{number}",
                        random.randint(0, 4),
                        (Device("gpu", "gpu", 1, device_class_name="gpu"),),
                    )
                    for number in range(random.randint(1, 2))
                ),
                max_moving=random.randint(1, 2),
                max_moving_in_fleet=random.randint(1, 3),
            )
            for name in "abc"[: random.randint(2, 3)]
        }
        self.deployments = [
            Deployment(
                "ml", f"d{at}", f"uid-{at}", random.randint(1, 3), random.choice((SINGLE, SINGLE, GANG))
            )
            for at in range(random.randint(1, 4))
        ]
        self.replicas: dict[str, Replica] = {}
        self.made = 0

    def fleet(self) -> Fleet:
        clusters, replicas = list(self.clusters.values()), list(self.replicas.values())
        self.random.shuffle(clusters)
        self.random.shuffle(replicas)
        return Fleet(tuple(clusters), tuple(replicas))

    def serving(self, uid: str) -> int:
        return sum(each.serves for each in self.replicas.values() if each.deployment_uid == uid)

    def reconcile(self, deployment: Deployment) -> Placement:
        """Compose a deployment, and write the result as ``model_deployment`` does: withdraw, then delete."""
        before = self.serving(deployment.uid)
        placement = schedule(self.fleet(), deployment)
        for each in placement.assignments:
            if each.replica:
                there = self.replicas[each.replica]
                self.replicas[each.replica] = replace(there, draining=False)
                continue
            self.made += 1
            name = f"r{self.made:04}"
            self.replicas[name] = Replica(
                "ml", name, deployment.uid, deployment.name, each.cluster, each.index, each.engines
            )
        for gone in placement.dropped:
            there = self.replicas.pop(gone.replica)
            if not there.draining:
                self.replicas[gone.replica] = replace(there, draining=True)
        assert self.serving(deployment.uid) >= min(before, deployment.replicas)
        self.fits()
        return placement

    def fits(self) -> None:
        """Check that no pool has more pods than nodes."""
        used = Counter(
            (replica.cluster, member.pool)
            for replica in self.replicas.values()
            for engine in replica.engines
            for member in engine.members
            for _ in range(member.pods)
        )
        for (name, pool), pods in used.items():
            nodes = next(each.nodes for each in self.clusters[name].pools if each.name == pool)
            assert pods <= nodes, (name, pool)

    def close(self, name: str, cordon: Cordon, *, pool: bool = False) -> None:
        cluster = self.clusters[name]
        if pool:
            pools = (replace(cluster.pools[0], cordon=cordon), *cluster.pools[1:])
            self.clusters[name] = replace(cluster, pools=pools)
        else:
            self.clusters[name] = replace(cluster, cordon=cordon)

    def start(self) -> None:
        """Let every replica become ready."""
        self.replicas = {name: replace(each, ready=True) for name, each in self.replicas.items()}

    def settle(self) -> dict[str, Placement]:
        """Reconcile until nothing changes any more; return the last placements."""
        for _ in range(80):
            before = dict(self.replicas)
            last = {each.uid: self.reconcile(each) for each in self.deployments}
            self.start()
            if self.replicas == before:
                return last
        pytest.fail("the fleet does not converge")

    def over_budget(self) -> bool:
        moves = list_moving(self.clusters, self.replicas.values())
        load = Counter(each.cluster for each in moves)
        limits = [each.max_moving_in_fleet for each in self.clusters.values()]
        return len(moves) > max(limits) or any(
            count > self.clusters[name].max_moving for name, count in load.items()
        )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_random_drains_lose_nothing_and_end_or_say_why(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - not for secrets
    world = World(random)
    world.settle()
    for _ in range(30):
        match random.randrange(6):
            case 0:
                cordon = random.choice(list(Cordon))
                world.close(random.choice(sorted(world.clusters)), cordon, pool=random.random() < 0.3)
            case 1 | 2 | 3:
                world.reconcile(random.choice(world.deployments))
            case _ if world.replicas:
                name = random.choice(sorted(world.replicas))
                world.replicas[name] = replace(world.replicas[name], ready=random.random() < 0.8)
    last = world.settle()
    for deployment in world.deployments:
        placement = last[deployment.uid]
        assert not placement.dropped
        if any(each.leaving or each.waits for each in placement.assignments):
            assert placement.diagnosis.placed < deployment.replicas
            assert placement.diagnosis.excluded


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_a_drain_moves_no_more_at_a_time_than_it_may(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - not for secrets
    world = World(random)
    placed = world.settle()
    # A replica that starts for another reason counts as a move, since only its own deployment knows.
    world.deployments = [each for each in world.deployments if not placed[each.uid].diagnosis.unsatisfied]
    world.close("a", Cordon.DRAINING)
    for _ in range(20 if world.deployments else 0):
        world.reconcile(random.choice(world.deployments))
        assert not world.over_budget()
        if world.replicas and random.random() < 0.6:
            name = random.choice(sorted(world.replicas))
            world.replicas[name] = replace(world.replicas[name], ready=True)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_an_uncordon_in_mid_drain_leaves_no_replica_too_many(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - not for secrets
    world = World(random)
    world.settle()
    placed = Counter(each.deployment_uid for each in world.replicas.values())
    world.close("a", Cordon.DRAINING)
    for _ in range(random.randint(1, 6)):
        world.reconcile(random.choice(world.deployments))
    world.close("a", Cordon.NONE)
    world.settle()
    assert Counter(each.deployment_uid for each in world.replicas.values()) == placed


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_a_cordon_moves_nothing(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - not for secrets
    world = World(random)
    world.settle()
    before = dict(world.replicas)
    for name in world.clusters:
        world.close(name, Cordon.CORDONED, pool=random.random() < 0.5)
    world.settle()
    assert world.replicas == before

"""Quotas, priorities and preemption in fleets at random: what holds after every step, in any order.

Deployments are placed one at a time in random order, as controllers place them. What one drops withdraws its
endpoint first, and is gone some steps later. Replicas start and fail in between.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from modelplane.scheduler import (
    Accounting,
    Cluster,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Fleet,
    Limit,
    Member,
    Placement,
    Pool,
    Priority,
    Quota,
    Replica,
    schedule,
)

TEAMS = ("a", "b", "c")
DEVICES = 2
"""Devices of a node."""


def clusters(random: Random) -> tuple[Cluster, ...]:
    device = (Device("gpu", "gpu", DEVICES, device_class_name="gpu"),)
    return tuple(
        Cluster(
            name,
            gateway_address="192.0.2.1",
            pools=(
                Pool(
                    "p",
                    random.randint(1, 4),
                    device,
                    accounting=random.choice((Accounting.NODES, Accounting.DEVICES)),
                    class_name="h100",
                ),
            ),
        )
        for name in ("east", "west")[: random.randint(1, 2)]
    )


def quotas(random: Random) -> tuple[Quota, ...]:
    found = []
    for team in TEAMS:
        nominal = random.randint(0, 8)
        borrowing = random.choice((None, 0, 2))
        lending = random.choice((None, random.randint(0, nominal)))
        limits = (Limit("h100", nominal, borrowing=borrowing, lending=lending),)
        found.append(Quota(f"of-{team}", frozenset({team}), "all", limits))
    return tuple(found)


def deployments(random: Random) -> list[Deployment]:
    found = []
    for at, team in enumerate(random.choices(TEAMS, k=random.randint(2, 5))):
        value = random.choice((None, -1, 5, 5, 9))
        priority = Priority() if value is None else Priority(f"p{value}", value, random.random() < 0.8)
        count = random.randint(1, DEVICES)
        engines = (Engine("main", random.randint(1, 2), (Member(requests=(DeviceRequest("gpu", count),)),)),)
        found.append(
            Deployment(
                team, f"d{at}", f"u{at}", random.randint(1, 4), engines, created=f"t{at}", priority=priority
            )
        )
    return found


@dataclass
class Simulation:
    """A fleet, and the replicas that are there."""

    random: Random
    clusters: tuple[Cluster, ...] = ()
    quotas: tuple[Quota, ...] = ()
    deployments: list[Deployment] = field(default_factory=list)
    there: dict[str, Replica] = field(default_factory=dict)
    made: int = 0

    def fleet(self, own: Deployment) -> Fleet:
        """Return the fleet in any order."""
        others = [each for each in self.deployments if each.uid != own.uid]
        there, quotas, clusters = [*self.there.values()], [*self.quotas], [*self.clusters]
        for each in (others, there, quotas, clusters):
            self.random.shuffle(each)
        return Fleet(tuple(clusters), tuple(there), quotas=tuple(quotas), others=tuple(others))

    def place(self, own: Deployment) -> Placement:
        """Place a deployment, and carry the result out."""
        placement = schedule(self.fleet(own), own)
        assert schedule(self.fleet(own), own) == placement, "the order of the input decides nothing"
        for each in placement.assignments:
            name = each.replica
            if not name:
                self.made += 1
                name = f"r{self.made:03}"
                self.there[name] = Replica(
                    own.namespace,
                    name,
                    own.uid,
                    own.name,
                    each.cluster,
                    each.index,
                    each.engines,
                    created=f"t{self.made:03}",
                )
            else:
                self.there[name] = replace(self.there[name], draining=False)
        for name in (each.replica for each in placement.dropped):
            before = self.there[name]
            self.there[name] = replace(before, draining=True, deleting=before.draining)
        return placement

    def pass_time(self) -> None:
        """Let replicas start, fail and end."""
        for name, each in tuple(self.there.items()):
            if each.deleting and self.random.random() < 0.5:
                del self.there[name]
            elif self.random.random() < 0.4:
                self.there[name] = replace(each, ready=self.random.random() < 0.9)

    def used(self) -> Counter[str]:
        """Return the devices that each team holds."""
        counts = {each.name: each.pools[0].accounting for each in self.clusters}
        used: Counter[str] = Counter()
        for each in self.there.values():
            for engine in each.engines:
                for member in engine.members:
                    pods = member.pods * engine.copies
                    of_nodes = counts[each.cluster] is Accounting.NODES
                    used[each.namespace] += pods * (DEVICES if of_nodes else member.claims[0].count)
        return used


def simulation(seed: int) -> Simulation:
    random = Random(seed)  # noqa: S311 - to be repeated, not to be secret
    return Simulation(random, clusters(random), quotas(random), deployments(random))


def steps(world: Simulation, count: int) -> Iterator[tuple[Deployment, dict[str, Replica], Placement]]:
    """Yield each placement, with what was there before it."""
    for _ in range(count):
        own = world.random.choice(world.deployments)
        before = dict(world.there)
        yield own, before, world.place(own)
        world.pass_time()


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(seeds)
def test_no_sequence_of_placements_exceeds_a_quota(seed: int) -> None:
    world = simulation(seed)
    limits = {each.name.removeprefix("of-"): each.limits[0] for each in world.quotas}
    for _ in steps(world, 25):
        used = world.used()
        for team, limit in limits.items():
            if limit.borrowing is not None:
                assert used[team] <= limit.nominal + limit.borrowing
        assert used.total() <= sum(each.nominal for each in limits.values())
        for team, limit in limits.items():
            # What a team does not lend is there for it, whatever the others hold.
            others = sum(used[other] for other in limits if other != team)
            assert others <= sum(each.nominal for each in limits.values()) - limit.guaranteed


@settings(deadline=None)
@given(seeds)
def test_a_replica_leaves_only_by_drain_for_a_higher_priority_and_never_the_last_that_serves(
    seed: int,
) -> None:
    world = simulation(seed)
    for own, before, placement in steps(world, 25):
        left = [before[each.replica] for each in placement.dropped if not before[each.replica].deleting]
        if not left:
            continue
        assert max(each.priority.value for each in world.deployments) > own.priority.value
        assert all(world.there[each.name].draining for each in left)
        staying = [each for each in before.values() if each.deployment_uid == own.uid and each not in left]
        assert any(not each.withdrawn for each in staying)
        if any(each.serves for each in left):
            assert any(each.serves for each in staying)


@settings(deadline=None)
@given(seeds)
def test_what_leaves_for_another_ends_with_that_one_placed_or_with_no_change(seed: int) -> None:
    world = simulation(seed)
    world.deployments.sort(key=lambda each: (-each.priority.value, each.order))
    for _ in range(120):
        before = dict(world.there)
        for own in world.deployments:
            world.place(own)
        for name, each in tuple(world.there.items()):
            if each.deleting:
                del world.there[name]
            else:
                world.there[name] = replace(each, ready=True)
        if world.there == before:
            return
    raise AssertionError("replicas leave and come for ever")

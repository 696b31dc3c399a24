"""What holds for failover, whatever fails and returns: two hundred random schedules in simulated time."""

from dataclasses import dataclass, field
from enum import Enum
from random import Random

import pytest
from msgspec.structs import replace

from modelplane.compose.deployment.deployment_failover import mark_doubt
from modelplane.deciders.cluster_health import (
    ClusterSeen,
    ClusterState,
    Evidence,
    Memory,
    Move,
    Observation,
    Witness,
    Witnesses,
    step,
)
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
    schedule,
)
from support.seeds import drawn

TICK_S = 20.0
STARTS_S = 60.0
NODES = 2
FAILING_S = 2400.0
QUIET_S = 3 * 3600.0


class Mode(Enum):
    """What is the matter with a cluster: whether the API server answers, and whether its replicas do."""

    UP = (True, True)
    DEAD = (False, False)
    ISOLATED = (False, True)
    UNSERVED = (True, False)


@dataclass
class Site:
    name: str
    region: str
    mode: Mode = Mode.UP
    returns_at: float = 0.0
    started_at: float = 0.0
    """When its replicas began to start: they do again after it was dead."""

    def witnesses(self) -> Witnesses:
        api, serves = self.mode.value
        return Witnesses(_witness(api), _witness(serves))


def _witness(good: bool) -> Witness:
    return Witness(Evidence.GOOD) if good else Witness(Evidence.BAD, "silent")


@dataclass
class World:
    """A fleet with its replicas: what is true, and what the control plane last saw."""

    random: Random
    sites: dict[str, Site]
    deployments: tuple[tuple[Deployment, float], ...]
    now: float = 0.0
    replicas: list[Replica] = field(default_factory=list)
    born: dict[str, float] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    made: int = 0
    known: dict[str, tuple[Fleet, Placement]] = field(default_factory=dict)

    def serves(self, replica: Replica) -> bool:
        """Return whether requests to a replica are answered, which the control plane may not know."""
        site = self.sites[replica.cluster]
        began = max(self.born[replica.name], site.started_at)
        return site.mode.value[1] and self.now - began >= STARTS_S

    def fail_and_return(self) -> None:
        for site in self.sites.values():
            if site.mode is not Mode.UP and self.now >= site.returns_at:
                # It had no power, or only no network: then its replicas have been running all the time.
                has_restarted = site.mode is Mode.DEAD and self.random.random() < 0.5
                site.started_at = self.now if has_restarted else site.started_at
                site.mode = Mode.UP
            elif self.now < FAILING_S and self.random.random() < 0.01:
                self._fail(site)  # it fails, or fails in another way
            elif site.mode is Mode.UP and self.now < FAILING_S and self.random.random() < 0.001:
                for each in self.sites.values():
                    if each.region == site.region and each.mode is Mode.UP:
                        self._fail(each)

    def _fail(self, site: Site) -> None:
        site.mode = self.random.choice((Mode.DEAD, Mode.DEAD, Mode.DEAD, Mode.ISOLATED, Mode.UNSERVED))
        site.returns_at = self.now + self.random.choice((20.0, 60.0, 200.0, 600.0, 1500.0))

    def observe(self) -> None:
        """Read what can be read: on a silent cluster, replicas stay as they were last seen."""
        kept = []
        for replica in self.replicas:
            answers = self.sites[replica.cluster].mode.value[0]
            if replica.deleting and answers:
                self._remove([replica])
                continue
            if answers:
                # A cluster does not notice that its replicas cannot be reached from outside.
                site = self.sites[replica.cluster]
                began = max(self.born[replica.name], site.started_at)
                kept.append(replace(replica, ready=self.now - began >= STARTS_S, unreachable=""))
            else:
                kept.append(replace(replica, unreachable="silent"))
        self.replicas = kept

    def watch(self) -> None:
        moves = []
        for deployment, after_s in self.deployments:
            ours = [each for each in self.replicas if each.deployment_uid == deployment.uid]
            serving = sum(
                each.ready and not each.unreachable and self.sites[each.cluster].mode is Mode.UP
                for each in ours
            )
            for name in {each.cluster for each in ours if not each.deleting}:
                count = sum(each.cluster == name for each in ours)
                moves.append(Move(name, deployment.uid, after_s, count, serving >= deployment.replicas))
        clusters = {name: ClusterSeen(site.witnesses(), site.region) for name, site in self.sites.items()}
        # A controller that is restarted, or stands still, has watched nothing before.
        memory = Memory() if self.random.random() < 0.01 else self.memory
        self.memory = step(memory, Observation(clusters, tuple(moves)), self.now)

    def fleet(self, deployment: Deployment) -> Fleet:
        lost = self.memory.report_for_deployment(deployment.uid).lost
        clusters = []
        for name, site in self.sites.items():
            standing = self.memory.standings[name]
            told = {"reason": str(standing.state), "message": standing.cause}
            answers = site.mode.value[0]
            cluster = Cluster(
                name,
                ready=answers,
                not_ready="" if answers else "silent",
                gateway_address="192.0.2.1",
                pools=(Pool("l4", NODES, (Device("gpu", "gpu.example.com", 1),)),),
            )
            clusters.append(mark_doubt(cluster, told, lost.get(name)))
        return Fleet(tuple(clusters), tuple(self.replicas))

    def place(self) -> None:
        for deployment, _ in self.deployments:
            fleet = self.fleet(deployment)
            before, placement = self.known.get(deployment.uid, (None, None))
            if placement is None or fleet != before:
                placement = schedule(fleet, deployment)
                self.known[deployment.uid] = fleet, placement
            self._apply(deployment, placement)

    def _apply(self, deployment: Deployment, placement: Placement) -> None:
        dropped = {each.replica for each in placement.dropped}
        going = [each for each in self.replicas if each.name in dropped and not each.deleting]
        # What is on a silent cluster goes when that answers, whatever is true by then.
        now = [each for each in going if self.sites[each.cluster].mode.value[0]]
        self.replicas = [
            replace(each, deleting=True) if each in going else each
            for each in self.replicas
            if each not in now
        ]
        self._remove(now)
        for each in placement.assignments:
            if not each.retained:
                self.made += 1
                name = f"{deployment.name}-{self.made}"
                self.born[name] = self.now
                self.replicas.append(
                    Replica(
                        "ml", name, deployment.uid, deployment.name, each.cluster, each.index, each.engines
                    )
                )

    @property
    def is_settled(self) -> bool:
        """Return whether every failure is over, for the world and for the control plane."""
        states = {each.state for each in self.memory.standings.values()}
        return (
            self.now > FAILING_S
            and states == {ClusterState.REACHABLE}
            and all(map(self.serves, self.replicas))
        )

    def _remove(self, going: list[Replica]) -> None:
        """Remove replicas from their clusters, of which none may be the last one that serves."""
        for name in {each.deployment_uid for each in going if self.serves(each)}:
            left = [each for each in self.replicas if each.deployment_uid == name and each not in going]
            assert any(map(self.serves, left)), f"{name} lost its last serving replica at {self.now}"

    def tick(self) -> None:
        self.now += TICK_S
        self.fail_and_return()
        self.observe()
        self.watch()
        self.place()
        for name in self.sites:
            held = sum(each.cluster == name for each in self.replicas)
            assert held <= NODES, f"{name} is overcommitted at {self.now}"


def world(seed: int) -> World:
    random = Random(seed)  # noqa: S311  it must repeat
    sites = {name: Site(name, f"region-{'xyz'[at // 2]}") for at, name in enumerate("abcdef")}
    engine = Engine("main", members=(Member(requests=(DeviceRequest("gpu"),)),))
    deployments = tuple(
        (
            Deployment("ml", name, f"uid-{name}", random.randint(1, 3), (engine,), failover=True),
            random.choice((20.0, 60.0, 300.0)),
        )
        for name in ("qwen", "llama", "gemma")
    )
    return World(random, sites, deployments)


@pytest.mark.parametrize("first", range(0, drawn(200), 50))
def test_failures_and_returns_overcommit_nothing_take_no_last_replica_and_end_as_asked(first: int) -> None:
    replaced = 0
    for seed in range(first, first + 50):
        fleet = world(seed)
        while fleet.now < FAILING_S + QUIET_S and not fleet.is_settled:
            fleet.tick()
        fleet.tick()
        asked = {deployment.uid: deployment.replicas for deployment, _ in fleet.deployments}
        there = {uid: [each for each in fleet.replicas if each.deployment_uid == uid] for uid in asked}
        assert {uid: len(found) for uid, found in there.items()} == asked, seed
        assert all(map(fleet.serves, fleet.replicas)), seed
        assert {each.state for each in fleet.memory.standings.values()} == {ClusterState.REACHABLE}, seed
        replaced += fleet.made > sum(asked.values())
    assert replaced > 25, "a schedule in which nothing is replaced proves little"

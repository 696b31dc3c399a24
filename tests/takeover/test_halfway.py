"""Takeovers in the middle of everything that happens to replicas, and back.

One code composes a deployment step by step until it is in the middle of a situation. The other one takes
over the stored objects, without the memory of the former process. It changes nothing at first, and brings the
situation to its end. Clusters and engines are simulated, and each code runs in a process of its own.

The replicas and their content don't change. `make contract` compares the pods that both compose of a replica.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from modelplane.deciders.canary import Decision, Observed, Outcome
from support.checkouts import ROOT
from support.replica_worlds import NODES, Item
from takeover.halfway_world import Composer, World

pytestmark = pytest.mark.kubernetes

_NOTICE = 100
"""Ticks until a node with a notice is gone."""


def _serves(count: int) -> Callable[[World], bool]:
    return lambda world: len(world.serving("model")) == len(world.replicas("model")) == count


def _surge(world: World) -> None:
    world.deploy("model", 2)
    world.until(_serves(2))
    world.edit("model", "better")


def _surge_halfway(world: World) -> bool:
    return world.images() == ["better", "good", "good"] and len(world.serving("model")) == 2


def _surge_finish(world: World) -> None:
    world.until(lambda world: world.images() == ["better"] * 2 and len(world.serving("model")) == 2)


def _canary(world: World) -> None:
    steps = [{"weight": 30, "durationSeconds": 60}, {"weight": 60, "durationSeconds": 60}]
    world.deploy("model", 3, rollout={"maxUnavailable": 0, "maxSurge": 1, "canary": {"steps": steps}})
    world.until(_serves(3))
    world.edit("model", "better")


def _canary_status(world: World) -> Item:
    canary: Item = world.status().get("rollout", {}).get("canary", {})
    return canary


def _canary_halfway(world: World) -> bool:
    canary = _canary_status(world)
    is_begun = (canary.get("phase"), canary.get("step")) == ("Running", 1) and "stepStartTime" in canary
    return is_begun and {"good", "better"} == {*world.images()} and world.reason("Progressing") != ""


def _end_step(world: World) -> None:
    """Decide that the step has ended, from the answers that a control loop has counted."""
    canary = _canary_status(world)
    if "stepStartTime" in canary:
        step_of = canary["revision"], canary["step"], canary["stepStartTime"]
        world.canaries["model"] = Observed(*step_of, Decision(Outcome.ENDED, "as told"))


def _canary_finish(world: World) -> None:
    def is_second(world: World) -> bool:
        _end_step(world)
        return _canary_status(world).get("step") == 2

    def is_done(world: World) -> bool:
        _end_step(world)
        return world.images() == ["better"] * 3 and len(world.serving("model")) == 3

    world.until(is_second)
    world.until(is_done)


def _pause(world: World) -> None:
    world.deploy("model", 3, rollout={"maxUnavailable": 1, "maxSurge": 0})
    world.until(_serves(3))
    world.edit("model", "better")
    world.until(lambda world: "better" in world.images())
    world.edit("model", rollout={"maxUnavailable": 1, "maxSurge": 0, "paused": True})


def _pause_halfway(world: World) -> bool:
    is_mixed = world.images() == ["better", "good", "good"]
    return is_mixed and len(world.serving("model")) == 3 and world.reason("Progressing").endswith("Paused")


def _pause_finish(world: World) -> None:
    for _ in range(5):
        world.advance()
    assert _pause_halfway(world), "the pause lasts"
    world.edit("model", rollout={"maxUnavailable": 1, "maxSurge": 0, "paused": False})
    world.until(lambda world: world.images() == ["better"] * 3 and len(world.serving("model")) == 3)


def _drain(world: World) -> None:
    world.sites["a"].item["spec"]["drain"] = {"maxMoving": 1}
    world.sites["b"].usable = world.sites["c"].usable = 0
    world.deploy("model", 2)
    world.until(_serves(2))
    world.sites["b"].usable = NODES
    world.sites["a"].drains = True


def _drain_halfway(world: World) -> bool:
    return len(world.staying()) == 3 and len(world.serving("model")) == 2


def _drain_finish(world: World) -> None:
    world.until(lambda world: _serves(2)(world) and {"b"} == _clusters(world))


def _clusters(world: World) -> set[str]:
    return {replica["spec"]["clusterName"] for replica in world.replicas("model").values()}


def _failover(world: World) -> None:
    world.sites["b"].usable = world.sites["c"].usable = 0
    world.deploy("model", 1, failover={"after": "1m"})
    world.until(_serves(1))
    world.sites["b"].usable = world.sites["c"].usable = NODES
    world.sites["a"].answers = world.sites["a"].serves = False
    world.until(lambda world: "lostClusters" in world.status().get("failover", {}))


def _failover_halfway(world: World) -> bool:
    return len(world.staying()) == 2 and not world.serving("model") and not world.sites["a"].answers


def _failover_finish(world: World) -> None:
    world.until(lambda world: len(world.serving("model")) == 1)
    assert len(world.staying()) == 2, "nobody sees whether the replica on the lost cluster serves"
    world.sites["a"].answers = world.sites["a"].serves = True
    world.until(lambda world: _serves(1)(world) and _clusters(world) == {"b"})


def _spot(world: World) -> None:
    world.sites["b"].usable = world.sites["c"].usable = 0
    world.deploy("model", 1)
    world.until(_serves(1))
    world.sites["b"].usable = NODES
    world.sites["a"].usable = 0
    [replica] = world.replicas("model").values()
    world.running[replica["metadata"]["name"]].gone_at = world.tick + _NOTICE


def _spot_halfway(world: World) -> bool:
    noticed = [replica for replica in world.staying() if "eviction" in replica.get("status", {})]
    return len(noticed) == 1 and len(world.staying()) == 2 and len(world.serving("model")) == 1


def _spot_finish(world: World) -> None:
    world.until(lambda world: _serves(1)(world) and _clusters(world) == {"b"})


def _standby(world: World) -> None:
    world.sites["b"].usable = world.sites["c"].usable = 0
    world.sites["a"].usable = 2
    world.deploy("model", 2)
    settings = {"name": "model", "afterSeconds": 60, "returnAfterSeconds": 60}
    world.deploy("second", 1, large=True, standbyFor=settings)
    world.until(lambda world: _serves(2)(world) and world.reason("StandbyActive", "second") == "NotNeeded")
    world.edit("model", replicas=3)


def _standby_halfway(world: World) -> bool:
    is_active = world.status("second").get("standby", {}).get("active")
    return bool(is_active) and len(world.staying("second")) == 1 and not world.serving("second")


def _standby_finish(world: World) -> None:
    world.until(lambda world: len(world.serving("second")) == 1)
    world.edit("model", replicas=2)
    world.until(lambda world: not world.replicas("second") and _serves(2)(world))


def _preemption(world: World) -> None:
    world.has_priorities = True
    world.sites["b"].usable = world.sites["c"].usable = 0
    world.deploy("model", NODES, priorityClassName="low")
    world.until(_serves(NODES))
    world.deploy("urgent", 1, priorityClassName="high")


def _preemption_halfway(world: World) -> bool:
    return (
        len(world.staying()) == NODES - 1
        and len(world.replicas("model")) == NODES
        and not world.uids("urgent")
    )


def _preemption_finish(world: World) -> None:
    world.until(lambda world: len(world.serving("urgent")) == 1)
    assert len(world.serving("model")) == NODES - 1


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return what differs."""
    names = sorted(before.keys() | after.keys())
    return [
        (name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    ]


class Case(NamedTuple):
    """A situation: how it begins, its middle, its end, and what a takeover could break."""

    name: str
    reason: str
    least: int
    """Replicas that serve at any time; of a lost cluster, none does."""
    kept: int
    """Replicas that are there before the takeover begins, or a cluster is lost, and at the end."""
    begin: Callable[[World], None]
    is_halfway: Callable[[World], bool]
    finish: Callable[[World], None]


CASES = (
    Case(
        "surge",
        "the replica in addition is taken for a surplus, or there is a second one",
        2,
        2,
        _surge,
        _surge_halfway,
        _surge_finish,
    ),
    Case(
        "canary step",
        "the step begins again, is skipped, or its share of the requests changes",
        3,
        3,
        _canary,
        _canary_halfway,
        _canary_finish,
    ),
    Case("pause", "the rollout goes on, or is undone", 2, 3, _pause, _pause_halfway, _pause_finish),
    Case(
        "drain",
        "the other replica moves before its turn, or the first one gets a second replacement",
        2,
        0,
        _drain,
        _drain_halfway,
        _drain_finish,
    ),
    Case(
        "failover",
        "the new process knows of no lost cluster, and takes the replacement for a surplus",
        0,
        1,
        _failover,
        _failover_halfway,
        _failover_finish,
    ),
    Case(
        "spot eviction",
        "the replacement is a surplus, or the replica goes before it serves",
        1,
        0,
        _spot,
        _spot_halfway,
        _spot_finish,
    ),
    Case(
        "standby",
        "the state of the standby is lost, and its replica is withdrawn",
        2,
        2,
        _standby,
        _standby_halfway,
        _standby_finish,
    ),
    Case(
        "preemption",
        "another replica stops too, or the first one is kept",
        NODES - 1,
        NODES - 1,
        _preemption,
        _preemption_halfway,
        _preemption_finish,
    ),
)


@pytest.fixture(scope="module")
def composers(earlier: Path) -> Iterator[dict[str, Composer]]:
    """The code of the earlier commit, and that of the working tree."""
    composers = {"before": Composer(earlier), "now": Composer(ROOT)}
    yield composers
    for composer in composers.values():
        composer.close()


@pytest.mark.parametrize(
    ("begins", "continues"), [("before", "now"), ("now", "before")], ids=["there", "back"]
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_who_takes_over_halfway_changes_nothing_and_finishes(
    composers: dict[str, Composer], case: Case, begins: str, continues: str
) -> None:
    world = World(composers[begins])
    case.begin(world)
    first = world.uids()
    world.least = len(world.serving("model"))
    world.until(case.is_halfway)
    before = world.lasting()
    world.take_over(composers[continues])
    assert case.is_halfway(world), world.describe()
    assert _changes(before, world.lasting()) == [], case.reason
    case.finish(world)
    assert world.least == case.least, "a replica was withdrawn before another one served"
    assert len(world.uids() & first) == case.kept


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_who_is_at_the_end_is_halfway_no_more(composers: dict[str, Composer], case: Case) -> None:
    world = World(composers["now"])
    case.begin(world)
    world.until(case.is_halfway)
    case.finish(world)
    assert not case.is_halfway(world)

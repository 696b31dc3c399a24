"""Where replicas go: each case is a fleet, what exists, a deployment, and the placement."""

from typing import Any

import msgspec
import pytest

from modelplane.cel import SelectorError
from modelplane.scheduler import (
    Assignment,
    Cause,
    Demand,
    Dropped,
    PlacedEngine,
    PlacedMember,
    ResolvedRequest,
    Role,
    schedule,
)


@pytest.mark.parametrize(
    ("clusters", "want", "expected"),
    [
        pytest.param(
            "a: l4 x3", "2: 20Gi", ["a/0 l4", "a/1 l4"], id="one cluster is packed when it is alone"
        ),
        pytest.param(
            "b: l4 x3 | a: l4 x3",
            "3: 20Gi",
            ["a/0 l4", "a/1 l4", "b/0 l4"],
            id="replicas spread first, by name on a tie",
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x3",
            "4: 20Gi",
            ["a/0 l4", "b/0 l4", "b/1 l4", "b/2 l4"],
            id="replicas pack once every cluster has one",
        ),
        pytest.param("a: l4 x1", "3: 20Gi", ["a/0 l4"], id="what does not fit is not placed"),
        pytest.param("a: l4 x1", "0: 20Gi", [], id="no replicas are a wish like any other"),
        pytest.param("a: l4 x1, h200 x1", "1: 100Gi", ["a/0 h200"], id="the pool is chosen by its devices"),
        pytest.param(
            "a: h200 x1, a100 x1",
            "1: 80Gi",
            ["a/0 h200"],
            id="the first pool that fits is taken, as published",
        ),
        pytest.param("a: h200 x1", "1: 100Gi*8", ["a/0 h200"], id="eight devices of one node"),
        pytest.param("a: h200 x1", "1: 100Gi*9", [], id="more devices than a node has"),
        pytest.param("a: h200 x3", "3: 20Gi", ["a/0 h200", "a/1 h200", "a/2 h200"], id="a pod costs a node"),
        pytest.param("a: h200 x3", "1: 100Gi*8 +2", ["a/0 h200"], id="a gang costs a node per pod"),
        pytest.param("a: h200 x2", "1: 100Gi*8 +2", [], id="a gang that is larger than the pool"),
        pytest.param("a: h200 x5", "1: 100Gi*8 +2 x2", [], id="copies multiply the cost"),
        pytest.param(
            "a: one=h200 x2, two=h200 x2",
            "1: 100Gi*8 +2",
            [],
            id="an engine is not split over pools without a fabric",
        ),
        pytest.param(
            "a: l4 x1, h200 x1",
            "1: x=20Gi, y=100Gi",
            ["a/0 x:l4 y:h200"],
            id="engines of one replica may use different pools",
        ),
        pytest.param(
            "a: l4 x1 | b: h200 x1",
            "1: x=20Gi, y=100Gi",
            [],
            id="engines of one replica may not use two clusters",
        ),
        pytest.param(
            "a: h200 x1, l4 x1",
            "1: x=20Gi, y=100Gi",
            ["a/0 x:l4 y:h200"],
            id="an engine makes room for the next one that has no other pool",
        ),
        pytest.param(
            "a: one=h200 x2 @ib, two=h200 x2 @ib",
            "1: 100Gi*8 +2",
            ["a/0 one+two"],
            id="an engine is split over pools with one fabric: the leader in one, the workers in the other",
        ),
        pytest.param(
            "a: one=h200 x2 @ib, two=h200 x2 @roce",
            "1: 100Gi*8 +2",
            [],
            id="two fabrics do not join",
        ),
        pytest.param(
            "a: one=h200 x2 @ib, two=h200 x3 @ib",
            "1: 100Gi*8 +2",
            ["a/0 two"],
            id="a pool for the whole gang comes before two",
        ),
        pytest.param(
            "a: one=h200 x1 @ib, two=h200 x1 @ib",
            "1: 100Gi*8 +2",
            [],
            id="the workers are not split",
        ),
        pytest.param("a: h200 *1", "9: 100Gi", [f"a/{n} h200" for n in range(8)], id="devices are counted"),
        pytest.param(
            "a: h200 *2",
            "9: 100Gi*3",
            [f"a/{n} h200" for n in range(4)],
            id="three of eight: two pods on each node, whatever is left over",
        ),
        pytest.param(
            "a: h200 *2", "3: 100Gi*8", ["a/0 h200", "a/1 h200"], id="eight of eight: one pod on each node"
        ),
        pytest.param(
            "a: h200 *2",
            "1: x=100Gi, y=100Gi*8",
            ["a/0 x:h200 y:h200"],
            id="a whole node is sure while the others fit on one node less",
        ),
        pytest.param(
            "a: h200 *2",
            "2: x=100Gi, y=100Gi*8",
            ["a/0 x:h200 y:h200"],
            id="a whole node is not sure while two small pods may be on two nodes",
        ),
        pytest.param(
            "a: h200 *3",
            "3: 100Gi*4 +1",
            ["a/0 h200", "a/1 h200"],
            id="gangs share nodes: two may close two nodes to a third, which needs two",
        ),
        pytest.param(
            "a: h200 *1",
            "1: 100Gi*4 +1",
            [],
            id="the pods of one gang do not share a node",
        ),
        pytest.param("a: synthetic x3", "1: 20Gi", [], id="nothing runs on devices that nobody hands out"),
        pytest.param(
            "a: synthetic x3, a100 x1", "1: 20Gi", ["a/0 a100"], id="devices that can be claimed win"
        ),
        pytest.param("a: bare x3", "1: 20Gi", [], id="a pool without devices"),
        pytest.param("a:", "1: 20Gi", [], id="a cluster without pools"),
        pytest.param("", "1: 20Gi", [], id="no clusters"),
    ],
)
def test_new_replicas(say: Any, clusters: str, want: str, expected: list[str]) -> None:
    assert say.shown(schedule(say.fleet(clusters), say.deployment(want))) == expected


@pytest.mark.parametrize(
    ("clusters", "want", "expected"),
    [
        pytest.param(
            "a: l4 x1 tier=dev | b: l4 x1 tier=prod", "2: 20Gi; in tier=prod", ["b/0 l4"], id="labels"
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x1 tier=prod",
            "2: 20Gi; cached tier=prod",
            ["b/0 l4"],
            id="the cache's clusters",
        ),
        pytest.param(
            "a: l4 x1 tier=prod",
            "1: 20Gi; in tier=prod; cached tier=dev",
            [],
            id="a label that the deployment and its cache want differently is found nowhere",
        ),
        pytest.param("a: l4 x1", "1: 20Gi; cache-unknown", [], id="a cache that cannot be read"),
        pytest.param("a: l4 x1 !drain | b: l4 x1", "2: 20Gi", ["b/0 l4"], id="a NoSchedule taint"),
        pytest.param("a: l4 x1 !!drain | b: l4 x1", "2: 20Gi", ["b/0 l4"], id="a NoExecute taint"),
        pytest.param(
            "a: l4 x1 !drain !old", "1: 20Gi; tolerating drain", [], id="every taint must be tolerated"
        ),
        pytest.param("a: l4 x1 !drain", "1: 20Gi; tolerating drain", ["a/0 l4"], id="a tolerated taint"),
        pytest.param("a: l4 x1 down", "1: 20Gi", [], id="a cluster that is not ready"),
        pytest.param("a: l4 x1 unreachable", "1: 20Gi", [], id="a cluster without a gateway address"),
        pytest.param("a: l4 x1 no-dra", "1: 20Gi", [], id="a cluster without DRA"),
        pytest.param(
            "a: h200 x2 no-lws | b: h200 x2", "1: 100Gi +1", ["b/0 h200"], id="a gang needs LeaderWorkerSet"
        ),
        pytest.param("a: l4 x1 no-lws", "1: 20Gi", ["a/0 l4"], id="a single pod needs no LeaderWorkerSet"),
        pytest.param(
            "a: l4 x2 no-inference-pool | b: l4 x2",
            "1: x=20Gi, y=20Gi; PrefillDecode",
            ["b/0 x:l4 y:l4"],
            id="PrefillDecode needs InferencePool",
        ),
    ],
)
def test_clusters_that_new_replicas_may_go_to(
    say: Any, clusters: str, want: str, expected: list[str]
) -> None:
    assert say.shown(schedule(say.fleet(clusters), say.deployment(want))) == expected


@pytest.mark.parametrize(
    ("clusters", "existing", "want", "expected"),
    [
        pytest.param(
            "a: l4 x9 | b: l4 x9",
            "q1@b/0 l4 | q2@b/1 l4",
            "2: 20Gi",
            ["q1@b/0 l4", "q2@b/1 l4"],
            id="nothing moves to even things out",
        ),
        pytest.param(
            "a: l4 x9 | b: l4 x9",
            "q1@b/0 l4",
            "3: 20Gi",
            ["a/0 l4", "a/1 l4", "q1@b/0 l4"],
            id="what exists counts towards the spread, and the tie goes to the first name",
        ),
        pytest.param(
            "a: l4 x9",
            "q1@a/0 l4 | q3@a/2 l4",
            "3: 20Gi",
            ["q1@a/0 l4", "a/1 l4", "q3@a/2 l4"],
            id="the lowest free number is given",
        ),
        pytest.param(
            "a: l4 x9",
            "q1@a/0 l4 deleting",
            "1: 20Gi",
            ["a/1 l4"],
            id="a replica that is being deleted is replaced, and keeps its number until it is gone",
        ),
        pytest.param(
            "a: l4 x1",
            "q1@a/0 l4 deleting",
            "1: 20Gi",
            [],
            id="a replica that is being deleted keeps its nodes until it is gone",
        ),
        pytest.param(
            "a: l4 x1 down unreachable",
            "q1@a/0 l4",
            "1: 20Gi",
            ["q1@a/0 l4"],
            id="a failing cluster evicts nothing",
        ),
        pytest.param(
            "a: down",
            "q1@a/0 l4",
            "1: 20Gi",
            ["q1@a/0 l4"],
            id="a failing cluster that no longer publishes its pools evicts nothing",
        ),
        pytest.param(
            "a: l4 x1 tier=dev",
            "q1@a/0 l4",
            "1: 20Gi; in tier=prod",
            ["q1@a/0 l4"],
            id="a relabelled cluster",
        ),
        pytest.param(
            "a: l4 x1", "q1@a/0 l4", "1: 20Gi; cached tier=prod", ["q1@a/0 l4"], id="a narrowed cache"
        ),
        pytest.param(
            "a: l4 x9", "q1@a/0 l4", "2: 20Gi; cache-unknown", ["q1@a/0 l4"], id="a cache that cannot be read"
        ),
        pytest.param("a: l4 x1 !drain", "q1@a/0 l4", "1: 20Gi", ["q1@a/0 l4"], id="a NoSchedule taint"),
        pytest.param("a: l4 x0", "q1@a/0 l4", "1: 20Gi", ["q1@a/0 l4"], id="a pool that shrinks"),
        pytest.param(
            "a: h200 *1",
            "q1@a/0 h200*9",
            "1: 20Gi x9",
            ["q1@a/0 h200"],
            id="a pool of counted devices that shrinks",
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x1",
            "o1@a/0 l4 other t1 | q1@a/0 l4 t2",
            "1: 20Gi",
            ["q1@a/0 l4 leaving", "b/0 l4"],
            id="of two replicas with one node, the newer yields",
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x1",
            "o1@a/0 l4 other t2 | q1@a/0 l4 t1",
            "1: 20Gi",
            ["q1@a/0 l4"],
            id="of two replicas with one node, the older stays",
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x1",
            "o1@a/0 l4 other t1 | q1@a/0 l4 t2 ready",
            "1: 20Gi",
            ["q1@a/0 l4"],
            id="of two replicas with one node, the one that serves stays",
        ),
        pytest.param(
            "a: l4 x1",
            "q1@a/0 l4 t1 | q2@a/1 l4 t2",
            "2: 20Gi",
            ["q1@a/0 l4", "q2@a/1 l4"],
            id="a replica that only its own deployment crowds stays",
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x1",
            "o1@a/0 l4 other t2 ready | q1@a/0 l4 t1",
            "1: 20Gi",
            ["q1@a/0 l4 leaving", "b/0 l4"],
            id="of two replicas with one node, the older yields to a newer that serves: its pods came first",
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x2",
            "o1@a/0 l4 other t1 | q1@a/0 l4 t2 | q2@a/1 l4 t3",
            "2: 20Gi",
            ["q1@a/0 l4 leaving", "q2@a/1 l4 leaving", "b/0 l4", "b/1 l4"],
            id="as many yield as are too many, not only one",
        ),
        pytest.param(
            "a: h200 *1 | b: h200 *1",
            "o1@a/0 h200*5 other t1 | q1@a/0 h200*5 t2",
            "1: 20Gi x5",
            ["q1@a/0 h200 leaving", "b/0 h200"],
            id="devices are yielded like nodes",
        ),
        pytest.param(
            "a: l4 x3",
            "q1@a/0 l4 | q2@a/0 l4",
            "2: 20Gi",
            ["q1@a/0 l4", "q2@a/1 l4"],
            id="of two replicas with one number, the second by name gets another",
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x1",
            "q1@a/0 l4 other",
            "2: 20Gi",
            ["b/0 l4"],
            id="a replica of another owner holds its nodes, though it carries our name",
        ),
        pytest.param(
            "a: synthetic x3, a100 x3",
            "q1@a/0 synthetic",
            "1: 20Gi",
            ["q1@a/0 synthetic leaving", "a/1 a100"],
            id="a pool with nothing to claim is left",
        ),
        pytest.param(
            "a: l4 x3", "q1@a/0 l4", "1: 20Gi x3", ["q1@a/0 l4"], id="an engine grows where there is room"
        ),
        pytest.param(
            "a: l4 x3",
            "q1@a/0 old:l4",
            "1: new=20Gi",
            ["q1@a/0 new:l4"],
            id="an engine that is renamed is placed again beside the others",
        ),
        pytest.param(
            "a: l4 x1",
            "q1@a/0 old:l4",
            "1: new=20Gi",
            ["q1@a/0 new:l4"],
            id="an engine that is renamed may use the nodes that the replica holds",
        ),
        pytest.param(
            "a: l4 x2, h200 x4",
            "q1@a/0 x:l4*2 y:h200",
            "2: x=20Gi, y=100Gi x2",
            ["q1@a/0 x:l4 y:h200"],
            id="what a replica gives up while it grows elsewhere is its own until it has changed",
        ),
        pytest.param(
            "a: l4 x2, h200 x4",
            "q1@a/0 x:l4 y:h200*2",
            "2: x=20Gi, y=100Gi x2",
            ["q1@a/0 x:l4 y:h200", "a/1 x:l4 y:h200"],
            id="what a replica has given up is for others",
        ),
        pytest.param(
            "a: h200 *2, l4 x2",
            "q1@a/0 x:h200#8 y:l4",
            "2: x=100Gi*4, y=20Gi x2",
            ["q1@a/0 x:h200 y:l4"],
            id="devices are held like nodes",
        ),
    ],
)
def test_replicas_that_exist(say: Any, clusters: str, existing: str, want: str, expected: list[str]) -> None:
    assert say.shown(schedule(say.fleet(clusters, existing), say.deployment(want))) == expected


NOT_NEEDED = "no longer fits, and no longer needed"


@pytest.mark.parametrize(
    ("clusters", "existing", "want", "expected", "dropped"),
    [
        pytest.param(
            "a: l4 x1 | b: h200 x1",
            "q1@a/0 l4 ready",
            "1: 100Gi",
            ["q1@a/0 l4 leaving", "b/0 h200"],
            (),
            id="a replica that no longer fits stays while its replacement is made",
        ),
        pytest.param(
            "a: l4 x1 | b: h200 x1",
            "q1@a/0 l4 ready | q2@b/0 h200",
            "1: 100Gi",
            ["q1@a/0 l4 leaving", "q2@b/0 h200"],
            (),
            id="a replica that no longer fits stays while its replacement starts",
        ),
        pytest.param(
            "a: l4 x1 | b: h200 x1",
            "q1@a/0 l4 ready | q2@b/0 h200 ready",
            "1: 100Gi",
            ["q2@b/0 h200"],
            (Dropped("q1", "a", 0, NOT_NEEDED, Cause.MISFIT),),
            id="a replica that no longer fits goes when its replacement serves",
        ),
        pytest.param(
            "a: l4 x2 | b: h200 x2",
            "q1@a/0 l4 ready | q2@a/1 l4 ready | q3@b/0 h200 ready | q4@b/1 h200",
            "2: 100Gi",
            ["q1@a/0 l4 leaving", "q3@b/0 h200", "q4@b/1 h200"],
            (Dropped("q2", "a", 1, NOT_NEEDED, Cause.MISFIT),),
            id="of replicas that no longer fit, one goes for each replacement that serves",
        ),
        pytest.param(
            "a: l4 x1",
            "q1@a/0 l4 ready",
            "1: 100Gi",
            ["q1@a/0 l4 leaving"],
            (),
            id="a replica that no longer fits stays where there is no room for another",
        ),
        pytest.param(
            "a: l4 x1",
            "q1@a/0 l4 ready",
            "1: 20Gi x2",
            ["q1@a/0 l4 leaving"],
            (),
            id="an engine that grows beyond its pool stays as it is",
        ),
        pytest.param(
            "a: l4 x3 | b: l4 x1",
            "q1@b/0 l4 ready",
            "1: 20Gi x2",
            ["a/0 l4", "q1@b/0 l4 leaving"],
            (),
            id="an engine that grows beyond its pool moves to where there is room",
        ),
        pytest.param(
            "a: h200 x1",
            "q1@a/0 l4",
            "1: 20Gi",
            ["a/1 h200", "q1@a/0 l4 leaving"],
            (),
            id="a pool that a ready cluster no longer publishes is left",
        ),
        pytest.param(
            "b: l4 x1",
            "q1@a/0 l4 ready",
            "1: 20Gi",
            ["b/0 l4"],
            (Dropped("q1", "a", 0, 'InferenceCluster "a" does not exist', Cause.NO_CLUSTER),),
            id="a cluster that does not exist",
        ),
        pytest.param(
            "a: l4 x1 !!drain | b: l4 x1",
            "q1@a/0 l4 ready",
            "1: 20Gi",
            ["b/0 l4"],
            (
                Dropped(
                    "q1",
                    "a",
                    0,
                    ('taint drain:NoExecute of InferenceCluster "a" evicts the replica'),
                    Cause.TAINTED,
                ),
            ),
            id="a NoExecute taint does not wait for a replacement",
        ),
        pytest.param(
            "a: l4 x1 !!drain",
            "q1@a/0 l4 ready",
            "1: 20Gi; tolerating drain",
            ["q1@a/0 l4"],
            (),
            id="a NoExecute taint that is tolerated evicts nothing",
        ),
        pytest.param(
            "a: l4 x1",
            "q1@a/0 l4 deleting",
            "0: 20Gi",
            [],
            (Dropped("q1", "a", 0, "the replica is being deleted", Cause.DELETED),),
            id="a replica that is being deleted",
        ),
    ],
)
def test_replicas_that_move(
    say: Any, clusters: str, existing: str, want: str, expected: list[str], dropped: tuple[Dropped, ...]
) -> None:
    placement = schedule(say.fleet(clusters, existing), say.deployment(want))
    assert (sorted(say.shown(placement)), placement.dropped) == (sorted(expected), dropped)


@pytest.mark.parametrize(
    ("clusters", "existing", "want", "expected"),
    [
        pytest.param(
            "a: l4 x1 | b: h200 x1",
            "q1@a/0 l4 ready",
            "1: 100Gi",
            ["q1@a/0 l4"],
            id="one that does not fit stays, and has no replacement",
        ),
        pytest.param(
            "a: l4 x1 | b: l4 x2",
            "q1@a/0 l4 ready",
            "1: 20Gi x2",
            ["q1@a/0 l4"],
            id="one that would need more devices stays as it is",
        ),
        pytest.param(
            "a: l4 x2",
            "q1@a/0 l4 ready",
            "2: 20Gi x2",
            ["q1@a/0 l4"],
            id="what it would need more is not taken",
        ),
        pytest.param(
            "a: l4 x1 | b: h200 x1",
            "q1@a/0 other:l4 ready",
            "1: 100Gi",
            ["q1@a/0 other:l4"],
            id="one with other engines stays as it is",
        ),
        pytest.param(
            "a: l4 x2",
            "q1@a/0 l4 ready",
            "2: 20Gi",
            ["q1@a/0 l4", "a/1 l4"],
            id="one that fits counts like any other",
        ),
        pytest.param(
            "a: h200 x1",
            "q1@a/0 l4",
            "1: 20Gi",
            ["a/1 h200", "q1@a/0 l4 leaving"],
            id="one whose pool is gone leaves",
        ),
        pytest.param(
            "a: l4 x1 !!drain | b: h200 x1",
            "q1@a/0 l4 ready",
            "1: 100Gi",
            ["b/0 h200"],
            id="a NoExecute taint evicts it",
        ),
    ],
)
def test_replicas_that_are_pinned(
    say: Any, clusters: str, existing: str, want: str, expected: list[str]
) -> None:
    deployment = say.deployment(want)
    demands = (Demand(0), Demand(deployment.replicas, pinned=("q1",)))
    placement = schedule(say.fleet(clusters, existing), deployment, demands)
    assert sorted(say.shown(placement)) == sorted(expected)


@pytest.mark.parametrize(
    ("existing", "replicas", "left"),
    [
        pytest.param(
            "q1@a/0 l4 ready | q2@a/1 l4 ready | q3@b/0 l4 ready", 2, ["q1", "q3"], id="the fullest cluster"
        ),
        pytest.param("q1@a/0 l4 ready | q2@b/0 l4 ready", 1, ["q1"], id="the last name on a tie"),
        pytest.param("q1@a/1 l4 ready | q2@a/0 l4 ready", 1, ["q2"], id="the highest number"),
        pytest.param(
            "q1@a/0 l4 | q2@a/1 l4 ready | q3@b/0 l4 ready", 2, ["q2", "q3"], id="first what does not serve"
        ),
        pytest.param("q1@a/0 l4 ready | q2@b/0 l4 ready", 0, [], id="all of them"),
    ],
)
def test_scaling_down(say: Any, existing: str, replicas: int, left: list[str]) -> None:
    placement = schedule(say.fleet("a: l4 x9 | b: l4 x9", existing), say.deployment(f"{replicas}: 20Gi"))
    assert [each.replica for each in placement.assignments] == left
    assert {each.reason for each in placement.dropped} == {"scaled down"}


def test_an_assignment_carries_the_claims_of_each_member(say: Any) -> None:
    want = say.deployment("1: 100Gi*8 +1")
    claims = (ResolvedRequest("gpu", "gpu.nvidia.com", 8, want.engines[0].members[0].requests[0].selectors),)
    assert schedule(say.fleet("a: h200 x2"), want).assignments == (
        Assignment(
            "a",
            0,
            (
                PlacedEngine(
                    "main",
                    1,
                    (
                        PlacedMember(Role.LEADER, "h200", 1, claims),
                        PlacedMember(Role.WORKER, "h200", 1, claims),
                    ),
                ),
            ),
        ),
    )


def test_a_member_without_requests_rides_along_at_no_cost(say: Any) -> None:
    want = say.deployment("1: 100Gi*8 +4")
    leader, worker = want.engines[0].members
    engine = msgspec.structs.replace(
        want.engines[0], members=(leader, msgspec.structs.replace(worker, requests=()))
    )
    placement = schedule(say.fleet("a: h200 x1"), msgspec.structs.replace(want, engines=(engine,)))
    assert placement.assignments[0].engines[0].members[1] == PlacedMember(Role.WORKER, "h200", 4, ())


def test_a_synthetic_device_steers_but_is_not_claimed(say: Any) -> None:
    want = say.deployment("1: 100Gi*8")
    member = want.engines[0].members[0]
    nic = msgspec.structs.replace(
        member.requests[0],
        name="nic",
        count=1,
        selectors=('device.attributes["nic.nvidia.com"].linkType == "infiniband"',),
    )
    engine = msgspec.structs.replace(
        want.engines[0], members=(msgspec.structs.replace(member, requests=(*member.requests, nic)),)
    )
    placement = schedule(say.fleet("a: a100 x1, h200 x1"), msgspec.structs.replace(want, engines=(engine,)))
    assert [claim.name for claim in placement.assignments[0].engines[0].members[0].claims] == ["gpu"]


def test_a_selector_that_does_not_compile_is_an_error_and_not_an_empty_placement(say: Any) -> None:
    want = say.deployment('1: 20Gi"))')
    with pytest.raises(SelectorError):
        schedule(say.fleet("a: l4 x1", "q1@a/0 l4 ready"), want)

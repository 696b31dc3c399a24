"""Events about replicas: one sentence for all that a reconcile places, and one for all that it removes."""

from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.readiness import exists
from modelplane.controllers.condition_events import Decision, decisions

OWNER = {"kind": "ModelDeployment", "metadata": {"name": "qwen"}}


def replica(number: int, **metadata):
    name = f"qwen-{number:02}"
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": name, **metadata},
        "spec": {"clusterName": f"c{number}"},
    }


def desired(number: int) -> Desired:
    return Desired(f"replica-c{number}-0", replica(number), exists)


def observed(*numbers: int, **metadata):
    return {f"replica-c{number}-0": replica(number, **metadata) for number in numbers}


def test_placed_and_removed_replicas_are_named_with_their_clusters():
    composition = Composition((desired(1), desired(2), desired(3)))

    assert list(decisions(OWNER, observed(1, 4), composition)) == [
        Decision("ReplicasPlaced", "Placing", "placed 2 replicas: qwen-02 on c2, qwen-03 on c3"),
        Decision("ReplicasRemoved", "Removing", "removed 1 replica: qwen-04 from c4"),
    ]


def test_many_replicas_are_one_sentence_of_bounded_length():
    [told] = decisions(OWNER, {}, Composition(tuple(map(desired, range(1, 65)))))

    assert told.note.startswith("placed 64 replicas: qwen-01 on c1, ")
    assert told.note.endswith("and 56 more")


def test_nothing_is_told_of_what_stays_is_kept_or_goes_already():
    composition = Composition((desired(1), Keep("replica-c2-0")))
    there = observed(1, 2) | observed(3, deletionTimestamp="2026-07-01T00:00:00Z")

    assert list(decisions(OWNER, there, composition)) == []


def test_nothing_is_told_of_the_children_of_other_kinds():
    assert list(decisions({**OWNER, "kind": "ModelService"}, {}, Composition((desired(1),)))) == []

"""Canaries of edits that change where replicas fit: the other replicas keep their place and template."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.deployment.demands import CACHES
from modelplane.deciders.canary import Outcome
from support.manifests import CLASS, cluster
from support.rollouts import BAD, BETTER, GOOD, SteppedRollout

STEPS = [{"weight": 25, "durationSeconds": 60}, {"weight": 75, "durationSeconds": 60}]
LARGE = CLASS.replace("name: l4", "name: h100").replace("23034Mi", "81559Mi")


def cache(name: str, clusters: str = "{}") -> str:
    return f"""\
apiVersion: modelplane.ai/v1alpha1
kind: ModelCache
metadata: {{name: {name}, namespace: ml-team}}
spec:
  source: HuggingFace
  huggingFace: {{repo: Qwen/Qwen3-8B, sizeGiB: 20}}
  clusterSelector: {{matchLabels: {clusters}}}
"""


def with_cache(text: str, region: str) -> str:
    storage = "existing: {cache: {storageClassName: rwx}, "
    labeled = text.replace("metadata: {name: ", f"metadata: {{labels: {{region: {region}}}, name: ")
    return labeled.replace("existing: {", storage)


def large(nodes: int = 8) -> tuple[str, ...]:
    return LARGE, cluster("north", nodes=nodes, class_name="h100")


def select(bench: SteppedRollout, condition: str) -> None:
    """Let the template need devices whose memory meets a condition."""
    (engine,) = bench.owner["spec"]["engines"]
    (device,) = engine["members"][0]["nodeSelector"]["devices"]
    sign, amount = condition.split()
    cel = f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{amount}")) {sign} 0'
    device["selectors"] = [{"cel": cel}]


def settled(replicas: int = 4, nodes: int = 8, **rollout: Any) -> SteppedRollout:
    """Return a settled deployment on small devices, beside a cluster of large ones."""
    bench = SteppedRollout(replicas, {"canary": {"steps": STEPS}, **rollout}, nodes=6, others=large(nodes))
    select(bench, "< 40Gi")
    bench.settle()
    return bench


def edit(bench: SteppedRollout) -> None:
    """Write a template that fits no device that the replicas have."""
    bench.edit(BETTER)
    select(bench, ">= 40Gi")


def moved(replicas: int = 4, nodes: int = 8, **rollout: Any) -> SteppedRollout:
    """Return such a deployment after the edit."""
    bench = settled(replicas, nodes, **rollout)
    edit(bench)
    bench.settle()
    return bench


def find(bench: SteppedRollout, kind: str, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change an object that is read from now on."""
    there = bench.find

    def changed(requirement: Requirement) -> Any:
        found: tuple[dict[str, Any], ...] = copy.deepcopy(there(requirement))
        for each in found:
            if (each["kind"], each["metadata"]["name"]) == (kind, name):
                change(each)
                each["metadata"]["resourceVersion"] = "changed"
        return tuple(each for each in found if requirement.matches(each))

    bench.find = changed


SPOILED: dict[str, Callable[[dict[str, Any]], object]] = {
    "gone": lambda each: each["metadata"].update(name="other"),
    "unreadable": lambda each: each.update(spec={"clusterSelector": 1}),
}


def places(bench: SteppedRollout) -> list[tuple[str, str]]:
    """Return the cluster and the image of each replica, sorted."""
    return sorted(
        (
            each["spec"]["clusterName"],
            each["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"],
        )
        for each in bench.replicas().values()
    )


OLD = [("east", GOOD)] * 2 + [("west", GOOD)] * 2


def test_an_edit_of_selectors_moves_one_replica_and_leaves_the_others_where_they_are() -> None:
    bench = moved()
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "25")]
    assert places(bench).count(("north", BETTER)) == 1
    assert bench.said()[1] == "CanaryRunning"


def test_with_surge_no_replica_moves() -> None:
    bench = moved(maxSurge=1, maxUnavailable=0)
    assert places(bench) == sorted([*OLD, ("north", BETTER)])
    assert bench.weights() == [(GOOD, "")] * 4 + [(BETTER, "25")]


def test_the_replica_that_moves_serves_until_the_one_of_the_canary_does() -> None:
    bench = settled()
    edit(bench)
    for _ in range(6):
        bench.reconcile()
        assert places(bench) == sorted([*OLD, ("north", BETTER)])
        assert len(bench.serving()) == 4
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "25")]


def test_where_the_canary_has_no_place_all_replicas_stay() -> None:
    bench = moved(nodes=0)
    assert places(bench) == OLD
    assert bench.weights() == [(GOOD, "")] * 4
    assert "capacity for 1 replica" in bench.said()[2]


def test_the_next_step_moves_as_many_as_it_needs() -> None:
    bench = moved()
    bench.decide(Outcome.ENDED, "all well")
    assert bench.weights() == [(GOOD, "")] + [(BETTER, "75")] * 3
    bench.decide(Outcome.ENDED, "all well")
    assert places(bench) == [("north", BETTER)] * 4, "after the last step it is a rollout like any other"
    assert bench.said()[1] == "RolloutComplete"


def test_after_an_abort_the_other_replicas_stay_too() -> None:
    bench = moved()
    bench.decide(Outcome.ABORTED, "errors")
    assert bench.weights() == [(GOOD, "")] * 3
    assert places(bench).count(("north", BETTER)) == 1


def test_a_paused_canary_moves_none() -> None:
    bench = settled(paused=True)
    edit(bench)
    bench.settle()
    assert places(bench) == OLD


def test_a_pause_does_not_end_the_move_that_has_begun() -> None:
    bench = settled()
    edit(bench)
    bench.reconcile()
    assert places(bench) == sorted([*OLD, ("north", BETTER)])
    bench.owner["spec"]["rollout"]["paused"] = True
    bench.reconcile()
    assert places(bench) == sorted([*OLD, ("north", BETTER)])
    bench.settle()
    assert bench.images() == [GOOD] * 3 + [BETTER]


def test_a_replica_of_the_canary_that_never_serves_takes_no_place() -> None:
    bench = settled()
    bench.edit(BAD)
    select(bench, ">= 40Gi")
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 4
    bench.edit(GOOD)
    select(bench, "< 40Gi")
    bench.settle()
    assert places(bench) == OLD


def test_the_former_template_returns_to_where_it_fits() -> None:
    bench = moved()
    bench.decide(Outcome.ABORTED, "errors")
    bench.edit(GOOD)
    select(bench, "< 40Gi")
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 4
    assert all(name != "north" for name, _ in places(bench))


def test_where_nothing_counts_answers_none_moves() -> None:
    bench = settled()
    bench.canary = None
    edit(bench)
    bench.settle()
    assert places(bench) == OLD
    assert bench.said()[1] == "Unsupported"


def test_replicas_that_are_placed_meanwhile_are_selected_as_the_other_replicas() -> None:
    bench = moved()
    bench.owner["spec"]["replicas"] = 8
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 6 + [(BETTER, "25")] * 2
    assert all((image == BETTER) == (name == "north") for name, image in places(bench))


def test_where_the_canary_has_no_place_stable_replicas_are_placed() -> None:
    bench = moved(nodes=0)
    bench.owner["spec"]["replicas"] = 6
    bench.settle()
    assert places(bench) == [("east", GOOD)] * 3 + [("west", GOOD)] * 3
    told = {each["type"]: each for each in bench.owner["status"]["conditions"]}["ReplicasScheduled"]
    assert told["message"].startswith("4 of 6 replicas placed; ")


def test_an_edit_that_needs_more_devices_than_are_free_moves_none() -> None:
    bench = SteppedRollout(4, {"canary": {"steps": STEPS}}, nodes=2)
    bench.settle()
    bench.edit(BETTER)
    bench.owner["spec"]["engines"][0]["copies"] = 2
    bench.settle()
    assert places(bench) == OLD
    assert bench.weights() == [(GOOD, "")] * 4


def test_an_edit_that_needs_more_devices_grows_the_replica_of_the_canary_only() -> None:
    bench = SteppedRollout(4, {"canary": {"steps": STEPS}}, nodes=3)
    bench.settle()
    bench.edit(BETTER)
    bench.owner["spec"]["engines"][0]["copies"] = 2
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "25")]


def test_a_renamed_engine_leaves_the_other_replicas_as_they_are() -> None:
    bench = settled()
    bench.edit(BETTER)
    bench.owner["spec"]["engines"][0]["name"] = "renamed"
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "25")]
    names = [each["spec"]["engines"][0]["name"] for each in bench.replicas().values()]
    assert sorted(names) == ["qwen"] * 3 + ["renamed"]


def test_a_drain_moves_a_replica_that_is_held() -> None:
    bench = moved(maxSurge=1)
    assert places(bench) == sorted([*OLD, ("north", BETTER)])
    taint = {"key": labels.DRAIN, "effect": "NoSchedule"}
    find(bench, "InferenceCluster", "west", lambda west: west["spec"].update(taints=[taint]))
    bench.settle()
    assert places(bench) == [("east", GOOD)] * 3 + [("north", BETTER)], "the canary's counts as the other"


def test_without_the_stable_revision_replicas_keep_their_places_all_the_same() -> None:
    bench = settled()
    bench.children = bench.replicas()
    edit(bench)
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "25")]


CACHED = (
    with_cache(cluster("south", nodes=8), "south"),
    with_cache(cluster("north", nodes=8), "north"),
    cache("former", "{region: south}"),
    cache("next"),
)


def cached() -> SteppedRollout:
    """Return a deployment whose edit has another ModelCache, which another cluster has too."""
    bench = SteppedRollout(4, {"canary": {"steps": STEPS}}, others=CACHED)
    bench.owner["spec"]["modelCacheRef"] = {"name": "former"}
    bench.settle()
    bench.edit(BETTER)
    bench.owner["spec"]["modelCacheRef"] = {"name": "next"}
    bench.settle()
    return bench


def scale(bench: SteppedRollout, replicas: int) -> None:
    bench.owner["spec"]["replicas"] = replicas
    bench.settle()


def caches(bench: SteppedRollout) -> set[tuple[str, str]]:
    """Return the image and the ModelCache of the replicas."""
    return {
        (image, each["spec"]["modelCacheRef"]["name"])
        for each in bench.replicas().values()
        for image in [each["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]]
    }


def test_stable_replicas_have_the_former_cache_and_are_where_it_is() -> None:
    bench = cached()
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "25")]
    scale(bench, 8)
    assert bench.weights() == [(GOOD, "")] * 6 + [(BETTER, "25")] * 2
    assert places(bench) == [("north", BETTER)] + [("south", GOOD)] * 6 + [("south", BETTER)]
    assert caches(bench) == {(GOOD, "former"), (BETTER, "next")}


def test_after_an_abort_new_replicas_have_the_former_cache() -> None:
    bench = cached()
    bench.decide(Outcome.ABORTED, "errors")
    scale(bench, 6)
    assert bench.weights() == [(GOOD, "")] * 5
    assert all(name == "south" for name, image in places(bench) if image == GOOD)


def test_a_stable_replica_without_a_cache_is_where_any_is() -> None:
    bench = SteppedRollout(2, {"canary": {"steps": STEPS}}, others=CACHED)
    bench.settle()
    bench.edit(BETTER)
    bench.owner["spec"]["modelCacheRef"] = {"name": "next"}
    bench.settle()
    scale(bench, 4)
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "25")]
    assert [each["spec"].get("modelCacheRef") for each in bench.replicas().values()].count(None) == 3


@pytest.mark.parametrize("how", ["gone", "unreadable", "unknown"])
def test_without_its_cache_no_stable_replica_is_placed(how: str) -> None:
    bench = cached()
    if how == "unknown":
        unknown = bench.find
        bench.find = lambda each: Unknown("no") if each.key == CACHES else unknown(each)
    else:
        find(bench, "ModelCache", "former", SPOILED[how])
    scale(bench, 8)
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "25")] * 2
    assert bench.said()[:2] == ("False", "NotFound")
    assert 'ModelCache "former" of revision' in bench.said()[2]
    assert (
        "or continue without a canary with `modelplane rollout promote md/qwen -n ml-team`" in bench.said()[2]
    )

"""A deployment that scales during a canary: the canary keeps its share, and new capacity is stable."""

import copy
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.deciders.canary import Outcome
from support.rollouts import BETTER, GOOD, SteppedRollout

STEPS = [{"weight": 25, "durationSeconds": 60}, {"weight": 75, "durationSeconds": 60}]


def trial(replicas: int = 4, **rollout: Any) -> SteppedRollout:
    """Return a settled deployment whose template was edited."""
    bench = SteppedRollout(replicas, {"canary": {"steps": STEPS}, **rollout}, nodes=12)
    bench.settle()
    bench.edit(BETTER)
    bench.settle()
    return bench


def scale(bench: SteppedRollout, replicas: int) -> list[tuple[str, str]]:
    bench.owner["spec"]["replicas"] = replicas
    bench.settle()
    return bench.weights()


def ask_for(bench: SteppedRollout, name: str) -> None:
    """Name the device request anew: the two templates need different claims."""
    (engine,) = bench.owner["spec"]["engines"]
    engine["members"][0]["nodeSelector"]["devices"][0]["name"] = name


def test_replicas_that_are_placed_during_a_canary_have_the_stable_template() -> None:
    bench = trial()
    before = set(bench.replicas())
    assert scale(bench, 6) == [(GOOD, "")] * 4 + [(BETTER, "25")] * 2, "a quarter of six is two"
    assert scale(bench, 8) == [(GOOD, "")] * 6 + [(BETTER, "25")] * 2
    assert before <= set(bench.replicas())


def test_a_replica_that_the_canary_lacks_is_one_of_the_new_ones() -> None:
    bench = trial()
    serving = {key: each["metadata"]["generation"] for key, each in bench.replicas().items()}
    scale(bench, 8)
    after = {key: bench.replicas()[key]["metadata"]["generation"] for key in serving}
    assert after == serving, "none is restarted while a new one can have the template"


def test_with_surge_the_share_stays_too() -> None:
    bench = trial(maxSurge=1, maxUnavailable=0)
    assert bench.weights() == [(GOOD, "")] * 4 + [(BETTER, "25")]
    found = scale(bench, 5)
    assert (found.count((BETTER, "25")), found.count((GOOD, ""))) == (2, 4)
    found = scale(bench, 8)
    assert (found.count((BETTER, "25")), found.count((GOOD, ""))) == (2, 6)


def test_replicas_that_are_placed_after_an_abort_serve_with_the_stable_template() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    assert scale(bench, 6) == [(GOOD, "")] * 5


def test_where_nothing_counts_answers_new_replicas_have_the_stable_template() -> None:
    bench = SteppedRollout(3, {"canary": {"steps": STEPS}}, nodes=12)
    bench.canary = None
    bench.settle()
    bench.edit(BETTER)
    bench.settle()
    assert scale(bench, 5) == [(GOOD, "")] * 5


def test_scaling_down_removes_the_surplus_of_a_canary_first_and_promotes_nothing() -> None:
    bench = trial(8)
    bench.decide(Outcome.ENDED, "all well")
    assert bench.weights() == [(GOOD, "")] * 2 + [(BETTER, "75")] * 6
    assert scale(bench, 2) == [(GOOD, ""), (BETTER, "75")]
    assert bench.owner["status"]["rollout"]["canary"]["phase"] == "Running"


@pytest.mark.parametrize("surge", [1, 4])
def test_scaling_down_with_surge_leaves_a_replica_to_compare_with(surge: int) -> None:
    bench = trial(8, maxSurge=surge, maxUnavailable=0)
    bench.decide(Outcome.ENDED, "all well")
    found = scale(bench, 2)
    assert (GOOD, "") in found
    assert bench.owner["status"]["rollout"]["canary"]["phase"] == "Running"


def test_a_stable_template_that_needs_other_devices_is_placed_for_those() -> None:
    bench = SteppedRollout(4, {"canary": {"steps": STEPS}}, nodes=12)
    bench.settle()
    ask_for(bench, "other")
    bench.edit(BETTER)
    bench.settle()
    assert scale(bench, 8) == [(GOOD, "")] * 6 + [(BETTER, "25")] * 2
    claims = {
        (each["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]): each[
            "spec"
        ]["engines"][0]["members"][0]["deviceRequests"][0]["name"]
        for each in bench.replicas().values()
    }
    assert claims[BETTER] == "other" != claims[GOOD]


@pytest.mark.parametrize("how", ["missing", "of another template", "unreadable"])
def test_without_a_stable_revision_that_can_be_trusted_no_stable_replica_is_placed(how: str) -> None:
    bench = trial()
    (key,) = (
        key
        for key, each in bench.children.items()
        if each["kind"] == "ControllerRevision"
        and each["metadata"]["labels"][labels.REVISION]
        == bench.owner["status"]["rollout"]["canary"]["stableRevision"]
    )
    forged = copy.deepcopy(bench.children[key])
    if how == "missing":
        del bench.children[key]
    elif how == "unreadable":
        bench.children[key] = {**forged, "data": {"spec": {"engines": "?"}}}
    else:
        container = forged["data"]["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]
        container["image"] = "engine:forged"
        bench.children[key] = forged
    found = scale(bench, 6)
    assert found == [(GOOD, "")] * 3 + [(BETTER, "25")] * 2, "only what the canary lacks"
    status, reason, message = bench.said()
    assert (status, reason) == ("False", "NotFound")
    stable = bench.owner["status"]["rollout"]["canary"]["stableRevision"]
    assert message.endswith(
        "1 replica with the template of the other replicas cannot be placed, because ControllerRevision "
        f'"qwen-{stable}" with the template of revision {stable}, which other replicas use, does not '
        "exist: apply that template to the deployment again, or continue without a canary with `modelplane "
        "rollout promote md/qwen -n ml-team`"
    )
    told = {each["type"]: each for each in bench.owner["status"]["conditions"]}["ReplicasScheduled"]
    assert told["reason"] == "NotFound"
    assert told["message"].startswith("5 of 6 replicas placed; 1 replica with the template")


def test_after_the_last_step_the_stable_replicas_are_updated_too() -> None:
    bench = trial()
    scale(bench, 8)
    bench.decide(Outcome.ENDED, "all well")
    bench.decide(Outcome.ENDED, "all well")
    assert bench.weights() == [(BETTER, "")] * 8
    assert bench.said()[1] == "RolloutComplete"

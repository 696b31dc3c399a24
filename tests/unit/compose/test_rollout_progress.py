"""What a deployment says about its rollout, its revisions, and the time of its last progress."""

import datetime as dt
from typing import Any

import pytest

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Desired, Keep
from modelplane.compose.deployment.rollout_limits import RolloutLimits, compute_limits
from support.rollouts import BAD, BETTER, GOOD, SteppedRollout


def settled(replicas: int = 3, **rollout: Any) -> SteppedRollout:
    """Return a deployment whose replicas all serve."""
    run = SteppedRollout(replicas, rollout)
    run.settle()
    return run


def after(run: SteppedRollout, seconds: int) -> None:
    """Let time pass, and reconcile."""
    run.now += dt.timedelta(seconds=seconds)
    run.reconcile()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(None, RolloutLimits(1, 0), id="one serving replica at a time by default"),
        pytest.param({"maxUnavailable": 2, "maxSurge": 3}, RolloutLimits(2, 3), id="numbers"),
        pytest.param(
            {"maxUnavailable": "25%", "maxSurge": "25%"}, RolloutLimits(1, 2), id="shares of 6: down, and up"
        ),
        pytest.param({"maxUnavailable": "10%"}, RolloutLimits(1, 0), id="two that round to zero are one"),
        pytest.param({"maxUnavailable": 0, "maxSurge": "1%"}, RolloutLimits(0, 1), id="a surge is enough"),
        pytest.param({"paused": True}, RolloutLimits(1, 0, paused=True), id="paused"),
    ],
)
def test_limits_are_those_of_a_deployment(settings: Any, expected: RolloutLimits) -> None:
    assert compute_limits(decode_as(ModelDeployment, SteppedRollout(6, settings).owner)) == expected


def test_without_the_setting_there_are_no_revisions_and_no_condition() -> None:
    run = SteppedRollout(2, None)
    run.settle()
    assert "rollout" not in run.owner["status"]
    assert {each["type"] for each in run.owner["status"]["conditions"]} == {
        "ReplicasScheduled",
        "ReplicasReady",
    }
    assert {each["kind"] for each in run.children.values()} == {"ModelReplica"}


def test_a_complete_rollout_stays_complete_when_a_replica_fails() -> None:
    run = settled()
    complete = ("True", "RolloutComplete", "3 of 3 replicas updated")
    assert run.said() == complete
    run.report(min(run.replicas()), broken=True)
    after(run, 5000)
    assert run.said() == complete


def test_a_bad_image_stops_at_the_limit_and_says_so() -> None:
    run = settled(maxUnavailable=1, progressDeadlineSeconds=600)
    run.edit(BAD)
    run.reconcile()
    (edited,) = (key for key in run.replicas() if key not in run.serving())
    run.report(edited)
    run.reconcile()
    name = run.replicas()[edited]["metadata"]["name"]
    waits = f'1 of 3 replicas updated, waiting for replica "{name}" on cluster "east": ErrImagePull'
    assert run.said() == ("True", "Updating", waits)
    assert run.composition.again_in_s == 600
    after(run, 599)
    assert (run.said()[1], run.composition.again_in_s) == ("Updating", 1)
    after(run, 1)
    assert run.said() == (
        "False",
        "ProgressDeadlineExceeded",
        (
            f"{waits}. No progress since 2026-06-01T00:00:00Z. Replicas that are not updated yet don't "
            "change. Correct the template, or roll back with `modelplane rollout undo md/qwen -n ml-team`"
        ),
    )
    assert run.composition.again_in_s is None
    assert run.images() == [GOOD, GOOD, BAD]
    assert len(run.serving()) == 2
    run.edit(GOOD)
    run.settle()
    assert (run.images(), run.said()[1]) == ([GOOD] * 3, "RolloutComplete")


def test_each_step_of_progress_restarts_the_deadline() -> None:
    run = settled(progressDeadlineSeconds=600)
    run.edit(BETTER)
    after(run, 100)
    (edited,) = (key for key in run.replicas() if key not in run.serving())
    after(run, 500)
    run.report(edited)
    after(run, 0)
    assert run.owner["status"]["rollout"]["lastProgressTime"] == "2026-06-01T00:10:00Z"
    assert run.said()[1] == "Updating"


def test_a_paused_rollout_edits_nothing_and_has_no_deadline() -> None:
    run = settled(progressDeadlineSeconds=60)
    run.owner["spec"]["rollout"]["paused"] = True
    run.edit(BETTER)
    run.report(min(run.replicas()), broken=True)
    run.reconcile()
    after(run, 5000)
    assert run.images() == [GOOD] * 3
    assert run.said() == (
        "False",
        "Paused",
        (
            "0 of 3 replicas updated. The rollout is paused: to continue, run `modelplane rollout resume "
            "md/qwen -n ml-team`"
        ),
    )
    assert "lastProgressTime" not in run.owner["status"]["rollout"]
    run.owner["spec"]["rollout"]["paused"] = False
    run.reconcile()
    assert run.said()[1] == "Updating"
    assert run.owner["status"]["rollout"]["lastProgressTime"] == "2026-06-01T01:23:20Z"


def test_surge_replicas_stand_in_and_leave_at_the_end() -> None:
    run = settled(maxUnavailable=0, maxSurge=1)
    originals = set(run.replicas())
    run.edit(BETTER)
    run.reconcile()
    (surge,) = run.replicas().keys() - originals
    assert run.replicas()[surge]["metadata"]["annotations"] == {"modelplane.ai/surge": "true"}
    assert run.serving() == originals
    assert run.owner["status"]["rollout"]["surgeReplicas"] == 1
    run.settle()
    assert set(run.replicas()) == originals
    assert run.images() == [BETTER] * 3


def test_a_surge_that_is_given_up_takes_no_replica_that_serves() -> None:
    run = SteppedRollout(1, {"maxUnavailable": 0, "maxSurge": 1})
    run.settle()
    (original,) = run.replicas()
    run.edit(BETTER)
    run.reconcile()
    (surge,) = run.replicas().keys() - {original}
    run.report(surge)
    run.reconcile()
    run.report(original, broken=True)
    run.owner["spec"]["rollout"] = {"maxUnavailable": 1}
    run.reconcile()
    assert run.serving() == {surge}


def test_a_surge_without_capacity_is_named() -> None:
    run = SteppedRollout(4, {"maxUnavailable": 0, "maxSurge": 1}, nodes=2)
    run.settle()
    run.edit(BETTER)
    run.reconcile()
    assert run.images() == [GOOD] * 4
    status, reason, message = run.said()
    assert (status, reason) == ("True", "Updating")
    assert message.startswith(
        "0 of 4 replicas updated, waiting for capacity for a surge replica, or a larger maxUnavailable: "
    )
    assert run.composition.unsatisfied


def test_one_replica_without_capacity_is_counted_in_words_that_agree() -> None:
    run = SteppedRollout(5, {}, nodes=2)
    run.settle()
    assert run.said()[2] == "4 of 5 replicas updated, waiting for capacity for 1 replica"


def test_a_revision_that_returns_gets_the_highest_number() -> None:
    run = settled()
    run.edit(BETTER)
    run.settle()
    assert run.revisions() == {1: GOOD, 2: BETTER}
    run.edit(GOOD)
    run.settle()
    assert run.revisions() == {2: BETTER, 3: GOOD}


def test_old_revisions_are_pruned_and_those_in_use_are_not() -> None:
    run = settled(revisionHistoryLimit=1)
    for number in range(3):
        run.edit(f"engine:{number + 3}")
        run.settle()
    assert run.revisions() == {3: "engine:4", 4: "engine:5"}
    run.owner["spec"]["rollout"]["revisionHistoryLimit"] = 0
    run.edit(BAD)
    run.reconcile()
    assert run.revisions() == {4: "engine:5", 5: BAD}


def test_without_the_setting_revisions_that_exist_stay() -> None:
    run = settled()
    del run.owner["spec"]["rollout"]
    composition = run.reconcile()
    (kept,) = (each for each in composition.children if each.key.startswith("revision-"))
    assert isinstance(kept, Keep)
    assert not any(isinstance(each, Desired) and each.key == kept.key for each in composition.children)


def test_time_does_not_pass_offline() -> None:
    run = settled()
    run.edit(BAD)
    run.reconcile(offline=True)
    assert (run.said()[1], run.composition.again_in_s) == ("Updating", None)

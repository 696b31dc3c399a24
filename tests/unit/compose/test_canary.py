"""Canaries step by step, over clusters in memory, with decisions in the control loop's place."""

import datetime as dt
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.api.fields.deployment.rollout_settings import CanaryPhase
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.deployment.revisions import revision
from modelplane.deciders.canary import UNDECIDED, Decision, Observed, Outcome
from support.rollouts import BAD, BETTER, GOOD, SteppedRollout

STEPS = [{"weight": 5, "durationSeconds": 60}, {"weight": 50, "durationSeconds": 60}]
WORST = "engine:3"


def trial(replicas: int = 4, **rollout: Any) -> SteppedRollout:
    """Return a settled deployment whose template was edited."""
    bench = SteppedRollout(replicas, {"canary": {"steps": STEPS}, **rollout})
    bench.settle()
    bench.edit(BETTER)
    bench.settle()
    return bench


def state(bench: SteppedRollout) -> dict[str, Any]:
    return dict(bench.owner["status"]["rollout"].get("canary", {}))


def current(bench: SteppedRollout) -> str:
    return revision(decode_as(ModelDeployment, bench.owner).replica_template())


def annotate(bench: SteppedRollout, key: str, value: str) -> None:
    bench.owner["metadata"].setdefault("annotations", {})[key] = value


def test_the_first_replicas_have_no_canary() -> None:
    bench = SteppedRollout(4, {"canary": {"steps": STEPS}})
    bench.settle()
    assert (state(bench), bench.said()[1]) == ({}, "RolloutComplete")


def test_one_replica_is_updated_and_gets_the_weight_of_the_step() -> None:
    bench = trial()
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "5")]
    assert state(bench)["stepStartTime"]
    assert bench.said() == (
        "True",
        "CanaryRunning",
        f"canary step 1 of 2: 5% of requests go to revision {current(bench)}",
    )


def test_with_surge_the_canary_is_in_addition() -> None:
    bench = trial(maxSurge=2, maxUnavailable=0)
    assert bench.weights() == [(GOOD, "")] * 4 + [(BETTER, "5")]


def test_without_capacity_for_surge_a_replica_is_updated() -> None:
    bench = SteppedRollout(8, {"canary": {"steps": STEPS}, "maxSurge": 1}, nodes=4)
    bench.settle()
    bench.edit(BETTER)
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 7 + [(BETTER, "5")]


def test_the_weight_rises_when_the_replicas_that_it_needs_serve() -> None:
    bench = trial()
    bench.canary = _ended(bench)
    bench.reconcile()
    assert bench.weights() == [(GOOD, "")] * 2 + [(BETTER, "5")], "one restarts"
    assert (state(bench)["step"], state(bench)["weight"], state(bench)["replicas"]) == (2, 5, 2)
    assert "stepStartTime" not in state(bench)
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 2 + [(BETTER, "50")] * 2
    assert state(bench)["stepStartTime"]


def _ended(bench: SteppedRollout) -> Observed:
    known = state(bench)
    decision = Decision(Outcome.ENDED, "all well")
    return Observed(known["revision"], known["step"], known["stepStartTime"], decision)


def test_after_the_last_step_the_rollout_goes_on_and_no_weight_remains() -> None:
    bench = trial()
    bench.decide(Outcome.ENDED, "all well")
    bench.decide(Outcome.ENDED, "all well")
    assert bench.weights() == [(BETTER, "")] * 4
    assert (bench.said()[1], state(bench)) == ("RolloutComplete", {})


def test_a_decision_on_another_step_counts_for_nothing() -> None:
    bench = trial()
    ended = _ended(bench)
    bench.decide(Outcome.ENDED, "all well")
    bench.canary = ended
    bench.settle()
    assert state(bench)["step"] == 2


@pytest.mark.parametrize("surge", [0, 1], ids=["updated", "in addition"])
def test_an_aborted_canary_gets_no_requests_and_nothing_else_is_updated(surge: int) -> None:
    bench = trial(maxSurge=surge)
    bench.decide(Outcome.ABORTED, "9% of 130 answers of the new revision are errors")
    assert bench.weights() == [(GOOD, "")] * (3 + surge)
    told = bench.said()
    assert told[:2] == ("False", "CanaryAborted")
    assert "was aborted in step 1: 9% of 130 answers" in told[2]
    assert "modelplane rollout undo md/" in told[2]
    bench.canary = UNDECIDED
    bench.now += dt.timedelta(days=1)
    bench.settle()
    assert (bench.weights(), bench.said()) == ([(GOOD, "")] * (3 + surge), told)


def test_nothing_is_placed_after_an_abort_without_the_stable_template() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    kept = state(bench)["stableRevision"]
    bench.children = {key: each for key, each in bench.children.items() if not key.endswith(kept)}
    bench.owner["spec"]["replicas"] = 6
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3
    assert len(bench.replicas()) == 4
    status, reason, message = bench.said()
    assert (status, reason) == ("False", "CanaryAborted")
    assert "2 replicas with the template of the other replicas cannot be placed" in message


def test_an_old_replica_that_fails_after_an_abort_keeps_its_template() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    key = min(bench.serving())
    bench.report(key, broken=True)
    bench.reconcile()
    assert bench.images() == [GOOD] * 3


def test_a_pause_brings_no_aborted_replica_back() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    bench.owner["spec"]["rollout"]["paused"] = True
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3
    bench.edit(GOOD)
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3


def test_the_former_template_returns_without_a_canary() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    bench.edit(GOOD)
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 4
    assert bench.said()[1] == "RolloutComplete"


def test_an_aborted_replica_gets_no_requests_until_its_pods_have_the_next_template() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    bench.edit(GOOD)
    bench.reconcile()
    (key,) = (key for key, each in bench.replicas().items() if each["metadata"]["annotations"])
    bench.reconcile()
    edited = bench.replicas()[key]
    assert not edited["spec"].get("draining")
    assert edited["metadata"]["annotations"][labels.CANARY_WEIGHT] == labels.WITHDRAWN
    bench.report(key)
    bench.reconcile()
    assert bench.weights() == [(GOOD, "")] * 4


def test_the_former_template_returns_in_the_middle_of_a_canary() -> None:
    bench = trial(replicas=2)
    assert bench.weights() == [(GOOD, ""), (BETTER, "5")]
    bench.edit(GOOD)
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 2


def test_another_edit_begins_with_the_replica_of_the_canary() -> None:
    bench = trial()
    before = {key for key, each in bench.replicas().items() if each["metadata"]["annotations"]}
    bench.edit(WORST)
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3 + [(WORST, "5")]
    assert {key for key, each in bench.replicas().items() if each["metadata"]["annotations"]} == before
    bench.edit(GOOD)
    bench.settle()
    assert (bench.weights(), bench.said()[1]) == ([(GOOD, "")] * 4, "RolloutComplete")


def test_resume_begins_an_aborted_canary_again_once() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    annotate(bench, labels.RETRIED, state(bench)["abortTime"])
    bench.canary = UNDECIDED
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "5")]
    bench.decide(Outcome.ABORTED, "errors again")
    assert bench.weights() == [(GOOD, "")] * 3
    bench.settle()
    assert state(bench)["phase"] == CanaryPhase.ABORTED


@pytest.mark.parametrize("is_aborted", [False, True])
def test_promote_skips_the_rest(is_aborted: bool) -> None:
    bench = trial()
    if is_aborted:
        bench.decide(Outcome.ABORTED, "errors")
    annotate(bench, labels.PROMOTED, current(bench))
    bench.settle()
    assert bench.weights() == [(BETTER, "")] * 4


def test_without_evidence_a_step_holds_and_says_so() -> None:
    bench = trial()
    bench.decide(Outcome.HOLDS, "cannot count responses: no pod is ready")
    assert bench.weights() == [(GOOD, "")] * 3 + [(BETTER, "5")]
    status, reason, message = bench.said()
    assert (status, reason) == ("False", "CanaryHolds")
    assert message.endswith("The step is undecided: cannot count responses: no pod is ready")


def test_a_replica_that_fails_ends_no_step() -> None:
    bench = trial()
    (key,) = (key for key, each in bench.replicas().items() if each["metadata"]["annotations"])
    bench.report(key, broken=True)
    bench.canary = _ended(bench)
    bench.reconcile()
    assert (state(bench)["step"], bench.said()[:2]) == (1, ("False", "CanaryHolds"))
    assert "The step is undecided: waiting for replica " in bench.said()[2]
    bench.now += dt.timedelta(days=1)
    bench.reconcile()
    assert bench.said()[1] == "CanaryHolds", "the step takes its time"


def test_a_bad_image_stops_at_the_canary_and_the_deadline_says_so() -> None:
    bench = SteppedRollout(4, {"canary": {"steps": STEPS}, "maxUnavailable": 3})
    bench.settle()
    bench.edit(BAD)
    bench.settle()
    assert bench.images() == [GOOD] * 3 + [BAD]
    bench.now += dt.timedelta(seconds=1201)
    bench.reconcile()
    assert bench.said()[1] == "ProgressDeadlineExceeded"


def test_a_long_step_is_no_lack_of_progress() -> None:
    bench = trial()
    bench.now += dt.timedelta(days=1)
    bench.settle()
    assert bench.said()[1] == "CanaryRunning"


def test_a_paused_canary_ends_no_step_but_is_aborted() -> None:
    bench = trial()
    bench.owner["spec"]["rollout"]["paused"] = True
    bench.decide(Outcome.ENDED, "all well")
    assert (state(bench)["step"], bench.said()[1]) == (1, "Paused")
    bench.decide(Outcome.ABORTED, "errors")
    assert bench.weights() == [(GOOD, "")] * 3


def test_where_nothing_counts_answers_no_replica_is_updated_until_it_is_promoted() -> None:
    bench = SteppedRollout(4, {"canary": {"steps": STEPS}})
    bench.canary = None
    bench.settle()
    bench.edit(BETTER)
    bench.settle()
    assert bench.images() == [GOOD] * 4
    assert bench.said()[:2] == ("False", "Unsupported")
    annotate(bench, labels.PROMOTED, current(bench))
    bench.settle()
    assert bench.images() == [BETTER] * 4


def test_an_abort_is_kept_where_nothing_counts_answers() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    bench.canary = None
    bench.settle()
    assert (bench.weights(), bench.said()[1]) == ([(GOOD, "")] * 3, "CanaryAborted")


def test_the_only_replica_needs_surge() -> None:
    bench = trial(replicas=1)
    assert (bench.images(), bench.said()[1]) == ([GOOD], "Unsupported")
    bench = trial(replicas=1, maxSurge=1)
    assert bench.weights() == [(GOOD, ""), (BETTER, "5")]


def test_an_aborted_revision_serves_where_no_earlier_one_is_left() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    bench.owner["spec"]["replicas"] = 0
    bench.settle()
    bench.owner["spec"]["replicas"] = 2
    bench.settle()
    assert bench.weights() == [(BETTER, "")] * 2
    assert bench.said()[1] == "CanaryAborted"
    assert "No replicas of an earlier revision exist" in bench.said()[2]


def test_without_the_setting_the_rollout_goes_on() -> None:
    bench = trial()
    bench.decide(Outcome.ABORTED, "errors")
    del bench.owner["spec"]["rollout"]["canary"]
    bench.settle()
    assert bench.weights() == [(BETTER, "")] * 4


def test_a_lost_status_begins_the_canary_again_and_updates_no_more() -> None:
    bench = trial()
    bench.decide(Outcome.ENDED, "all well")
    bench.owner["status"] = {}
    bench.canary = UNDECIDED
    bench.settle()
    assert bench.weights() == [(GOOD, "")] * 2 + [(BETTER, "5")] * 2

"""Standbys: they run after a time of need, return after a longer one without, and change nothing on doubt."""

from typing import Any

import pytest

from modelplane.compose.deployment.replica_state import is_draining
from support.variants import ADA, AMPERE, BF16, FP8, HOPPER, INT4, START, SteppedVariants


def _autoscaler(desired: int, in_flight: int, *, limited: bool, active: bool = True, most: int = 2) -> Any:
    said = {"ScalingActive": active, "ScalingLimited": limited}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceAutoscaler",
        "metadata": {"name": FP8, "namespace": "ml-team"},
        "spec": {
            "deploymentRef": {"name": FP8},
            "minReplicas": 1,
            "maxReplicas": most,
            "targets": {"requestsPerReplica": 10},
        },
        "status": {
            "replicas": {"desired": desired, "ready": desired},
            "load": {
                "time": "2026-06-01T00:00:00Z",
                "inFlight": in_flight,
                "held": 0,
                "tokensPerSecond": 0,
            },
            "conditions": [
                {
                    "type": type_,
                    "status": str(holds),
                    "reason": "R",
                    "lastTransitionTime": "2026-06-01T00:00:00Z",
                }
                for type_, holds in said.items()
            ],
        },
    }


def test_the_preferred_runs_alone_while_it_fits() -> None:
    run = SteppedVariants()
    run.run(3600, 60)
    assert run.running() == {FP8: 1}
    assert run.changes == []
    assert run.said(BF16)[:2] == ("False", "NotNeeded")
    assert run.said(BF16, "ReplicasReady")[0] == "True"
    assert run.said(INT4)[2] == f'no replicas run while "{BF16}" is itself a standby that is not needed'


def test_a_standby_runs_after_the_time_and_says_why_and_since_when() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.run(120)
    assert run.running() == {}
    assert run.said(BF16) == (
        "False",
        "Pending",
        (
            f'"{FP8}" lacks capacity since 2026-06-01T00:00:10Z, with 0 of 1 replicas placed: see '
            "condition ReplicasScheduled. Replicas start after 120 s"
        ),
    )
    assert run.compose(BF16).again_in_s == 10
    run.run(10)
    assert run.changes == [(130, BF16, True)]
    assert run.running() == {BF16: 1}
    assert run.said(BF16) == (
        "True",
        "Unplaced",
        (
            f'the replicas run since 2026-06-01T00:02:10Z, because "{FP8}" could not place all its '
            f'replicas for 120 s. They are removed when all replicas of "{FP8}" have served for 600 s: now '
            "0 of 1 serve"
        ),
    )
    assert run.compose(BF16).again_in_s is None


def test_the_next_in_the_order_runs_only_if_the_one_before_it_is_needed_and_does_not_fit() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.nodes(AMPERE, 0)
    run.run(600)
    assert run.changes == [(130, BF16, True), (250, INT4, True)]
    assert run.running() == {INT4: 1}


def test_no_time_begins_while_the_one_before_is_a_standby_that_is_not_needed() -> None:
    run = SteppedVariants()
    run.nodes(AMPERE, 0)
    run.run(1200)
    assert run.changes == []


def test_all_of_the_order_return_when_the_first_serves_for_the_time() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.nodes(AMPERE, 0)
    run.run(600)
    run.nodes(HOPPER, 2)
    run.run(600)
    assert [each[1] for each in run.changes] == [BF16, INT4]
    assert run.serving(INT4) == run.serving(FP8) == 1
    assert run.said(INT4)[2].endswith(f'"{FP8}" have served for 600 s: since 2026-06-01T00:11:10Z')
    run.run(300)
    assert run.running() == {FP8: 1}
    back = [second for second, name, active in run.changes if name == INT4 and not active]
    # Placed at 610, ready at 670, and 600 seconds of that.
    assert back == [1270]


def test_one_in_the_middle_of_the_order_sends_the_ones_after_it_back() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.nodes(AMPERE, 0)
    run.run(600)
    run.nodes(AMPERE, 2)
    run.run(900)
    assert run.running() == {BF16: 1}
    assert [(name, active) for _, name, active in run.changes] == [(BF16, True), (INT4, True), (INT4, False)]


def test_a_return_withdraws_the_endpoint_before_the_replica_is_deleted() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.run(300)
    run.nodes(HOPPER, 2)
    while run.active(BF16):
        run.step(10)
    [leaving] = run.children[BF16].values()
    assert is_draining(leaving)
    assert run.serving(FP8) == 1
    run.step(10)
    assert run.running() == {FP8: 1}


def test_a_short_lack_or_a_short_return_changes_nothing() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    for _ in range(10):
        run.run(100)
        run.nodes(HOPPER, 2)
        run.run(20)
        run.evict(HOPPER)
        run.nodes(HOPPER, 0)
    assert run.changes == []
    run.run(200)
    for _ in range(5):
        run.nodes(HOPPER, 2)
        run.run(600)
        run.evict(HOPPER)
        run.nodes(HOPPER, 0)
        run.run(60)
    assert [active for _, _, active in run.changes] == [True]


def test_a_restart_begins_the_times_anew() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.run(110)
    run.restart(down_s=3600)
    # The first looks are at what was there before the restart.
    run.reconcile(BF16)
    assert not run.active(BF16)
    run.run(110)
    assert not run.active(BF16)
    run.run(20)
    assert run.active(BF16)
    run.nodes(HOPPER, 2)
    run.run(600)
    run.restart(down_s=3600)
    run.run(590)
    assert run.active(BF16)
    run.run(30)
    assert not run.active(BF16)


def test_restarts_that_follow_one_another_sooner_than_the_time_start_nothing() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    for _ in range(10):
        run.run(100)
        run.restart()
    assert run.changes == []


def test_a_clock_that_is_set_back_begins_the_time_anew() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.run(60)
    run.now = run.watching_since = START.replace(year=2025)
    run.step(10)
    run.run(110)
    assert not run.active(BF16)
    run.run(20)
    assert run.active(BF16)


def test_a_preferred_one_that_stops_serving_during_the_return_keeps_the_standby() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.run(300)
    run.nodes(HOPPER, 2)
    run.run(600)
    run.broken = {FP8}
    run.run(1200)
    assert run.active(BF16)
    assert run.serving(BF16) == 1
    assert run.said(BF16)[2].endswith("now 0 of 1 serve")


def test_a_preferred_one_that_asks_for_nothing_is_not_short_and_takes_nothing_away() -> None:
    run = SteppedVariants()
    run.edit(FP8, replicas=0)
    run.run(600)
    assert run.changes == []
    run.edit(FP8, replicas=3)
    run.run(300)
    run.edit(FP8, replicas=0)
    run.run(1200)
    assert run.active(BF16)
    assert run.said(BF16)[2].endswith(f'They are kept while "{FP8}" asks for no replicas: scale it up')


def test_a_standby_runs_all_its_replicas_for_a_lack_of_one() -> None:
    run = SteppedVariants()
    run.edit(FP8, replicas=3)
    run.edit(BF16, replicas=2)
    run.run(300)
    assert run.running() == {FP8: 2, BF16: 2}


def test_replicas_that_were_there_before_stay_until_the_preferred_one_has_served() -> None:
    run = SteppedVariants()
    settings = run.deployments[BF16]["spec"].pop("standbyFor")
    run.run(120)
    run.edit(BF16, standbyFor=settings)
    run.run(590)
    assert run.running() == {FP8: 1, BF16: 1}
    assert run.said(BF16)[1] == "HadReplicas"
    run.run(120)
    assert run.running() == {FP8: 1}


def test_a_standby_that_is_none_any_more_runs_and_says_nothing() -> None:
    run = SteppedVariants()
    run.run(60)
    del run.deployments[BF16]["spec"]["standbyFor"]
    run.edit(BF16)
    run.run(120)
    assert run.running() == {FP8: 1, BF16: 1}
    assert "standby" not in run.deployments[BF16]["status"]


@pytest.mark.parametrize("active", [True, False])
def test_a_preferred_one_that_is_gone_changes_nothing(active: bool) -> None:
    run = SteppedVariants()
    if active:
        run.nodes(HOPPER, 0)
    run.run(300)
    before = run.running()
    del run.deployments[FP8]
    del run.children[FP8]
    run.run(3600, 60)
    assert run.active(BF16) is active
    assert run.running().get(BF16) == before.get(BF16)
    runs = "the replicas run" if active else "no replicas run"
    assert run.said(BF16) == (
        str(active),
        "NotFound",
        (
            f"{runs}, and nothing changes until the order is known: "
            f'ModelDeployment "{FP8}" does not exist in namespace "ml-team": create it, or '
            "correct spec.standbyFor"
        ),
    )


def test_a_preferred_one_that_cannot_be_read_changes_nothing() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.run(300)
    run.deployments[FP8]["spec"]["replicas"] = "many"
    for _ in range(100):
        run.step_only(10, BF16)
    assert run.running() == {BF16: 1}
    assert run.said(BF16, "StandbyActive")[1] == "Unreadable"


def test_a_status_that_is_older_than_the_last_edit_is_no_evidence() -> None:
    run = SteppedVariants()
    run.run(60)
    run.edit(FP8, replicas=3)
    for _ in range(50):
        run.step_only(10, BF16)
    assert run.said(BF16)[1] == "NotNeeded"
    assert run.changes == []


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        ({FP8: FP8}, f'"{FP8}" -> "{FP8}"'),
        ({FP8: BF16}, f'"{FP8}" -> "{BF16}" -> "{FP8}"'),
        ({FP8: INT4}, f'"{FP8}" -> "{INT4}" -> "{BF16}" -> "{FP8}"'),
    ],
    ids=["itself", "two", "three"],
)
def test_a_cycle_is_refused_and_everything_stays(edits: dict[str, str], path: str) -> None:
    run = SteppedVariants()
    run.run(120)
    for name, preferred in edits.items():
        run.stand_by(name, name=preferred)
    run.nodes(HOPPER, 0)
    run.run(1200)
    assert run.running() == {FP8: 1}
    assert run.said(FP8) == (
        "True",
        "InvalidSettings",
        (
            "the replicas run, and nothing changes until the order is known: "
            f"the order of deployments is a cycle: {path}. Correct spec.standbyFor of one of them"
        ),
    )


def test_an_order_has_a_limit() -> None:
    run = SteppedVariants()
    before = INT4
    for number in range(10):
        run.add(run.deployments[INT4], f"more-{number}")
        run.stand_by(f"more-{number}", name=before)
        before = f"more-{number}"
    run.run(60)
    assert run.said("more-5", "StandbyActive")[1] == "NotNeeded"
    assert run.said("more-6", "StandbyActive")[1] == "LimitExceeded"


def test_the_objects_that_a_decision_follows_from_trigger_the_next_one() -> None:
    run = SteppedVariants()
    run.run(60)
    watched = {(each.kind, each.name) for each in run.compose(INT4).also_watch}
    assert watched == {("ModelDeployment", BF16), ("ModelDeployment", FP8)}
    watched = {(each.kind, each.name) for each in run.compose(BF16).also_watch}
    assert watched == {("ModelDeployment", FP8), ("InferenceAutoscaler", FP8)}


def test_a_saturated_one_gets_help_and_the_help_leaves_when_there_is_room() -> None:
    run = SteppedVariants()
    run.edit(FP8, replicas=2)
    run.autoscalers = (_autoscaler(2, 30, limited=True),)
    run.run(310)
    assert run.changes == [(310, BF16, True)]
    assert run.said(BF16)[1] == "Saturated"
    # The standby takes its share, and the preferred one is full and not over.
    run.autoscalers = (_autoscaler(2, 20, limited=False),)
    run.run(3600)
    assert run.active(BF16)
    assert run.said(BF16)[2].endswith("has served for 600 s and its load allows it")
    run.autoscalers = (_autoscaler(2, 12, limited=False),)
    run.run(700)
    assert run.running() == {FP8: 2}


def test_one_whose_autoscaler_asks_for_more_than_fits_is_saturated() -> None:
    run = SteppedVariants()
    run.stand_by(BF16, when=["Saturated"])
    run.edit(FP8, replicas=3)
    run.run(600)
    assert run.changes == []
    run.autoscalers = (_autoscaler(3, 30, limited=False, most=5),)
    run.run(310)
    assert [each[1:] for each in run.changes] == [(BF16, True)]


def test_the_load_of_one_whose_counts_cannot_be_read_keeps_the_help() -> None:
    run = SteppedVariants()
    run.edit(FP8, replicas=2)
    run.autoscalers = (_autoscaler(2, 30, limited=True),)
    run.run(400)
    run.autoscalers = (_autoscaler(2, 0, limited=False, active=False),)
    run.run(3600, 60)
    assert run.active(BF16)
    assert run.said(BF16)[2].endswith("and its load is known")


def test_a_standby_for_a_saturated_standby_is_not_sent_back_by_the_first() -> None:
    run = SteppedVariants()
    run.nodes(AMPERE, 0)
    run.edit(FP8, replicas=2)
    run.autoscalers = (_autoscaler(2, 30, limited=True),)
    run.run(1200)
    assert run.running() == {FP8: 2, INT4: 1}


def test_saturation_without_an_autoscaler_is_told() -> None:
    run = SteppedVariants()
    run.autoscalers = ()
    run.run(60)
    assert run.said(BF16, "SettingsSupported") == (
        "False",
        "NoMetrics",
        (
            f'ModelDeployment "{FP8}" is never considered Saturated, because no InferenceAutoscaler scales '
            "the deployment: create one, or remove Saturated from spec.standbyFor.when"
        ),
    )
    run.nodes(HOPPER, 0)
    run.evict(HOPPER)
    run.run(200)
    assert run.active(BF16)


def test_only_the_own_namespace_is_read() -> None:
    read = [each for each in SteppedVariants().requirements(BF16) if each.namespace]
    assert {(each.key, each.namespace) for each in read} == {
        ("deployments", "ml-team"),
        ("autoscalers", "ml-team"),
    }


def test_offline_a_new_standby_runs_if_the_preferred_one_has_no_place() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.reconcile(FP8)
    assert run.compose(BF16, offline=True).status["standby"]["active"] is True
    run.nodes(HOPPER, 2)
    run.step(10)
    run.step(10)
    assert run.compose(BF16, offline=True).status["standby"]["active"] is False


def test_the_status_is_written_only_when_something_changes() -> None:
    run = SteppedVariants()
    run.nodes(HOPPER, 0)
    run.nodes(AMPERE, 0)
    run.nodes(ADA, 0)
    run.run(600)
    before = run.written
    run.run(3600)
    assert run.written == before

"""How fast things go: waves of new replicas, edits, what is said, times to live."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.conditions import false
from modelplane.compose.readiness import exists
from modelplane.crossplane.function import pace

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def said(type_: str, status: str, seconds: float, reason: str = "Why", message: str = "") -> dict[str, Any]:
    told = {"type": type_, "status": status, "reason": reason, "message": message}
    return {**told, "lastTransitionTime": ago(seconds)}


def owner(*conditions: dict[str, Any], kind: str = "ModelDeployment", uid: str = "uid") -> dict[str, Any]:
    return {"kind": kind, "metadata": {"uid": uid}, "spec": {}, "status": {"conditions": list(conditions)}}


def replica(name: str, image: str = "one", **status: Any) -> dict[str, Any]:
    container = {"name": "engine", "image": image}
    member = {"role": "Standalone", "nodePoolName": "p", "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": "ml-team", "creationTimestamp": ago(5)},
        "spec": {"clusterName": "a", "engines": [{"name": "e", "members": [member]}]},
        **status,
    }


def serving(name: str, since: float) -> dict[str, Any]:
    return replica(name, status={"conditions": [said("Ready", "True", since), said("Synced", "True", since)]})


def wanted(number: int, image: str = "one") -> tuple[Desired, ...]:
    return tuple(Desired(f"r{each:03}", replica(f"r{each:03}", image), exists) for each in range(number))


class TestNewReplicas:
    def test_the_first_wave_is_as_many_as_a_bucket_holds(self) -> None:
        composition, look_in = pace.pace_changes(Composition(children=wanted(25)), {}, NOW)
        assert [child.key for child in composition.children] == [f"r{each:03}" for each in range(5)]
        assert 0 < look_in <= 3

    def test_the_next_one_is_large_because_each_applies_all_replicas_again(self) -> None:
        composed = {f"r{each:03}": serving("x", 60) for each in range(5)}
        composition, _ = pace.pace_changes(Composition(children=wanted(100)), composed, NOW)
        assert len(composition.children) == 5 + 40

    def test_the_next_ones_follow_as_those_before_are_composed(self) -> None:
        composed = {f"r{each:03}": replica("x") for each in range(4)}
        composed |= {f"r{each:03}": serving("x", 60) for each in range(4, 10)}
        composition, _ = pace.pace_changes(Composition(children=wanted(100)), composed, NOW)
        assert len(composition.children) == 10 + 36

    def test_one_that_is_never_composed_holds_up_nobody_for_long(self) -> None:
        stuck = replica("x")
        stuck["metadata"]["creationTimestamp"] = ago(60)
        composed = {f"r{each:03}": stuck for each in range(40)}
        assert (
            len(pace.pace_changes(Composition(children=wanted(90)), composed, NOW).composition.children) == 80
        )

    def test_what_is_there_is_never_left_out(self) -> None:
        composed = {f"r{each:03}": replica("x") for each in range(15, 55)}
        composition, _ = pace.pace_changes(Composition(children=wanted(55)), composed, NOW)
        assert {child.key for child in composition.children} == composed.keys()


class TestEdits:
    def test_a_serving_one_waits_until_the_others_have_served_on(self) -> None:
        composed = {"r000": serving("r000", 3), "r001": serving("r001", 600)}
        edited = (Keep("r000"), wanted(2, "two")[1])
        held, look_in = pace.pace_changes(Composition(children=edited), composed, NOW)
        assert (held.children, look_in) == ((Keep("r000"), Keep("r001")), 7)

    def test_of_many_each_waits_twice_as_long(self) -> None:
        composed = {f"r{each:03}": serving("x", 3) for each in range(6)}
        kept = tuple(Keep(f"r{each:03}") for each in range(5))
        edited: tuple[Desired | Keep, ...] = (*kept, wanted(6, "two")[5])
        assert pace.pace_changes(Composition(children=edited), composed, NOW).look_in == 17

    @pytest.mark.parametrize("others", [{}, {"r000": serving("r000", 30)}])
    def test_it_goes_ahead_where_nothing_else_is_moving(self, others: dict[str, Any]) -> None:
        edited = Composition(children=wanted(2, "two")[1:])
        assert pace.pace_changes(edited, {**others, "r001": serving("r001", 1)}, NOW).composition is edited

    def test_one_that_does_not_serve_is_edited_at_once(self) -> None:
        edited = Composition(children=wanted(2, "two")[1:])
        composed = {"r000": serving("r000", 1), "r001": replica("r001")}
        assert pace.pace_changes(edited, composed, NOW).composition is edited

    def test_one_that_stays_the_same_waits_for_nothing(self) -> None:
        same = Composition(children=wanted(2))
        composed = {"r000": serving("r000", 1), "r001": serving("r001", 1)}
        assert pace.pace_changes(same, composed, NOW).composition is same


class TestWhatIsSaid:
    before = (said("Ready", "False", 4), said("ReplicasReady", "False", 4, "ModelStarting", "0 of 3"))
    news = (false("ReplicasReady", "ModelStarting", "1 of 3"),)

    def test_it_is_repeated_on_the_way_to_ready(self) -> None:
        assert pace.repeats_status(owner(*self.before), self.news, False, NOW)

    def test_that_it_is_ready_is_said_at_once(self) -> None:
        assert not pace.repeats_status(owner(*self.before), self.news, True, NOW)

    def test_that_it_is_no_longer_ready_is_said_at_once(self) -> None:
        was = owner(said("Ready", "True", 4), self.before[1])
        assert not pace.repeats_status(was, self.news, False, NOW)

    def test_what_somebody_must_act_on_is_said_at_once(self) -> None:
        alarm = false("ReplicasReady", "ClusterUnreachable", "it does not answer")
        assert not pace.repeats_status(owner(*self.before), (alarm,), False, NOW)

    @pytest.mark.parametrize("seconds", [11, -30])
    def test_it_is_not_repeated_for_long_whatever_the_clocks_say(self, seconds: float) -> None:
        before = (said("Ready", "False", seconds), {**self.before[1], "lastTransitionTime": ago(seconds)})
        assert not pace.repeats_status(owner(*before), self.news, False, NOW)

    @pytest.mark.parametrize(("replicas", "is_repeated"), [(5, False), (6, True)])
    def test_a_deployment_of_many_replicas_repeats_it_twice_as_long(
        self, replicas: int, is_repeated: bool
    ) -> None:
        before = (said("Ready", "False", 15), {**self.before[1], "lastTransitionTime": ago(15)})
        deployment = {**owner(*before), "spec": {"replicas": replicas}}
        assert pace.repeats_status(deployment, self.news, False, NOW) is is_repeated

    def test_other_kinds_speak_at_once(self) -> None:
        assert not pace.repeats_status(owner(*self.before, kind="ModelCache"), self.news, False, NOW)


class TestTimesToLive:
    def ready(self, seconds: float, **fields: Any) -> dict[str, Any]:
        return owner(said("Ready", "True", seconds), **fields)

    def test_they_grow_while_nothing_happens(self) -> None:
        after = [pace.compute_ttl_s(self.ready(each), pace.OwnerState(True), NOW) for each in (0, 60, 3600)]
        assert after == sorted(after)
        assert (12 <= after[0] <= 15, 96 <= after[-1] <= 120) == (True, True)

    def test_each_object_has_its_own(self) -> None:
        times = {
            pace.compute_ttl_s(self.ready(3600, uid=str(each)), pace.OwnerState(True), NOW)
            for each in range(50)
        }
        assert len(times) > 10

    def test_news_begin_anew(self) -> None:
        assert pace.compute_ttl_s(self.ready(3600), pace.OwnerState(True, is_news=True), NOW) <= 15

    def test_one_that_fails_is_looked_at_within_a_minute(self) -> None:
        state = pace.OwnerState(True, is_failing=True)
        assert pace.compute_ttl_s(self.ready(3600, kind="InferenceCluster"), state, NOW) <= 60

    def test_a_deployment_that_waits_is_looked_at_soon_and_less_often_in_time(self) -> None:
        waiting = [owner(said("Ready", "False", each)) for each in (1, 3600)]
        state = pace.OwnerState(False, awaits=True)
        assert [pace.compute_ttl_s(each, state, NOW) for each in waiting] == [1, 15]

    @pytest.mark.parametrize(
        ("replicas", "seconds"),
        [
            pytest.param(1, 1, id="few are looked at soon"),
            pytest.param(60, 3, id="of many, each look applies all"),
            pytest.param(5000, 10, id="however many there are"),
        ],
    )
    def test_a_deployment_that_waits_for_many_is_looked_at_less_often(
        self, replicas: int, seconds: int
    ) -> None:
        waiting = {**owner(said("Ready", "False", 1)), "spec": {"replicas": replicas}}
        assert pace.compute_ttl_s(waiting, pace.OwnerState(False, awaits=True), NOW) == seconds

    @pytest.mark.parametrize(("children", "overflows"), [(9, False), (10, True)])
    def test_changes_of_many_children_overflow_a_bucket(self, children: int, overflows: bool) -> None:
        desired = tuple(Desired(str(key), {}, lambda _: True) for key in range(children))
        assert pace.overflows(Composition(children=desired)) is overflows

    def test_one_that_leaves_is_looked_at_soon(self) -> None:
        assert (
            pace.compute_ttl_s(
                self.ready(3600, kind="ModelReplica"), pace.OwnerState(True, is_leaving=True), NOW
            )
            == 2
        )

    @pytest.mark.parametrize(("since", "most"), [(60, 15), (3600, 120)])
    def test_one_that_hears_nothing_is_looked_at_often_while_that_lasts(
        self, since: float, most: int
    ) -> None:
        deaf = owner(said("Ready", "True", 3600), said("Responsive", "False", since))
        assert most * 0.8 <= pace.compute_ttl_s(deaf, pace.OwnerState(True), NOW) <= most

    def test_a_service_never_waits_long(self) -> None:
        assert pace.compute_ttl_s(self.ready(3600, kind="ModelService"), pace.OwnerState(True), NOW) == 10

"""What the fleet as a whole allows to be replaced: the clock, the breaker and the pace."""

from collections.abc import Iterable

import pytest

from modelplane.deciders.cluster_health import (
    ClusterSeen,
    ClusterState,
    Evidence,
    Located,
    Memory,
    Move,
    Observation,
    Pace,
    Standing,
    Witness,
    Witnesses,
    explain_pause,
    step,
)

UP = Witnesses(Witness(Evidence.GOOD), Witness(Evidence.GOOD))
DOWN = Witnesses(Witness(Evidence.BAD, "no API"), Witness(Evidence.BAD, "no answers"))
AFTER_S = 60.0


def observation(
    down: Iterable[str] = (), moves: Iterable[Move] = (), own_problem: str = "", gone: Iterable[str] = ()
) -> Observation:
    """Return what is seen of the clusters a to f, two in each of three regions."""
    clusters = {
        name: ClusterSeen(DOWN if name in down else UP, f"region-{'xyz'[at // 2]}", gone=name in gone)
        for at, name in enumerate("abcdef")
    }
    return Observation(clusters, tuple(moves), own_problem)


def watched(*seen: Observation, memory: Memory | None = None, every_s: float = 10.0) -> Memory:
    memory = memory or Memory()
    for each in seen:
        memory = step(memory, each, (memory.at or 0.0) + every_s)
    return memory


MOVE = Move("a", "qwen", AFTER_S, 1)
LOST = observation("a", [MOVE])


def test_replicas_are_replaced_once_their_cluster_was_lost_for_as_long_as_the_deployment_says() -> None:
    memory = watched(*[LOST] * 6)
    assert memory.report_for_deployment("qwen").lost == {}
    assert watched(LOST, memory=memory).report_for_deployment("qwen").lost == {"a": "no API and no answers"}
    assert watched(LOST, memory=memory).report_for_deployment("other").lost == {}


def test_nothing_is_replaced_any_more_when_the_cluster_answers_again() -> None:
    memory = watched(*[LOST] * 7, observation((), [MOVE]))
    assert memory.report_for_deployment("qwen").lost == {}
    assert memory.report_for_cluster("a").standing == memory.standings["a"]
    assert memory.standings["a"].state is ClusterState.RETURNING


@pytest.mark.parametrize("gap_s", [31.0, 3600.0, -5.0])
def test_time_in_which_nobody_watched_restarts_every_window(gap_s: float) -> None:
    memory = watched(*[LOST] * 7)
    memory = step(memory, LOST, (memory.at or 0.0) + gap_s)
    assert memory.report_for_deployment("qwen").lost == {}
    assert watched(*[LOST] * 6, memory=memory).report_for_deployment("qwen").lost != {}


def test_a_new_process_begins_anew() -> None:
    assert watched(*[LOST] * 7, LOST).report_for_deployment("qwen").lost != {}
    assert step(Memory(), LOST, 1e6).report_for_deployment("qwen").lost == {}


def located(lost: str, regions: str) -> dict[str, Located]:
    """Return clusters, each in the region at its place in a text; a dot is no region."""
    return {
        name: Located(
            Standing(ClusterState.LOST if name in lost else ClusterState.REACHABLE, silent=name in lost),
            region.strip("."),
        )
        for name, region in zip("abcdefghij", regions, strict=False)
    }


@pytest.mark.parametrize(
    ("lost", "regions", "why"),
    [
        pytest.param("", "xyz", "", id="nothing is lost"),
        pytest.param("a", "xyz", "", id="one of three"),
        pytest.param("a", "xy", "", id="one of two"),
        pytest.param("abc", "xxxyyy", "", id="a whole region"),
        pytest.param("abcd", "xxxyyy", "", id="a whole region, and a third of the others"),
        pytest.param(
            "abcde", "xxxyyy", "2 of the 3 clusters outside x don't respond either", id="two regions"
        ),
        pytest.param("ab", "xyz", "1 of the 2 clusters outside x don't respond either", id="two of three"),
        pytest.param(
            "ab", "...", "1 of the 2 clusters outside cluster a don't respond either", id="without regions"
        ),
        pytest.param(
            "a",
            "x",
            "no cluster in the fleet responds, so the control plane's own connection can be the cause",
            id="the only one",
        ),
    ],
)
def test_the_breaker_lets_one_region_go(lost: str, regions: str, why: str) -> None:
    assert explain_pause(located(lost, regions), None) == (why or None)


def test_clusters_of_which_nothing_tells_whether_they_are_lost_count_for_the_breaker() -> None:
    fleet = located("a", "xyz") | {"b": Located(Standing(ClusterState.SUSPECT, silent=True), "y")}
    assert explain_pause(fleet, None) == "1 of the 2 clusters outside x don't respond either"


def test_a_control_plane_that_does_not_answer_judges_no_cluster() -> None:
    assert explain_pause(located("a", "xyz"), "slow") == "the control plane cannot judge clusters: slow"
    assert explain_pause(located("", "xyz"), "slow") is None, "there is nothing to stop"


def test_an_open_breaker_stops_what_is_in_work_and_everything_is_watched_anew_when_it_closes() -> None:
    memory = watched(*[LOST] * 7)
    memory = watched(observation("acef", [MOVE]), memory=memory)
    assert memory.report_for_deployment("qwen").lost == {}
    assert memory.report_for_deployment("qwen").paused == memory.report_for_cluster("b").paused != ""
    memory = watched(LOST, memory=memory)
    assert memory.paused == ""
    assert memory.report_for_deployment("qwen").lost == {}
    assert watched(*[LOST] * 6, memory=memory).report_for_deployment("qwen").lost != {}


def test_a_person_closes_the_breaker_by_deleting_clusters_that_do_not_come_back() -> None:
    open_ = watched(*[observation("acef", [MOVE])] * 3)
    assert open_.paused
    closed = watched(observation("acef", [MOVE], gone="cef"), memory=open_)
    assert closed.paused == ""
    assert closed.standings["c"].state is ClusterState.GONE


def admitted(moves: Iterable[Move], pace: Pace, clusters: int, now: float, passed_s: float = 0.0) -> Pace:
    standings = {f"c{at}": Standing(ClusterState.LOST, lost_s=1000.0 - at) for at in range(clusters)}
    return pace.admit(moves, standings, now, passed_s)


def test_one_cluster_in_ten_is_replaced_at_a_time_and_the_next_when_it_is_done() -> None:
    moves = [Move(f"c{at}", "qwen", AFTER_S, 1) for at in range(4)]
    for clusters, at_once in ((4, 1), (19, 1), (20, 2), (40, 4)):
        assert len(admitted(moves, Pace(), clusters, 0.0).admitted) == at_once
    pace = admitted(moves, Pace(), 4, 0.0)
    assert list(pace.admitted) == [("c0", "qwen")], "the cluster that was lost first"
    done = [Move("c0", "qwen", AFTER_S, 1, replaced=True), *moves[1:]]
    assert list(admitted(done, pace, 4, 10.0).admitted) == [("c0", "qwen"), ("c1", "qwen")]


def test_a_cluster_whose_replicas_find_no_place_does_not_stop_the_others() -> None:
    moves = [Move(f"c{at}", "qwen", AFTER_S, 1) for at in range(2)]
    pace = admitted(moves, Pace(), 4, 0.0)
    assert len(admitted(moves, pace, 4, 599.0).admitted) == 1
    assert len(admitted(moves, pace, 4, 600.0).admitted) == 2


def test_ten_replicas_begin_within_a_minute() -> None:
    moves = [Move("c0", f"md-{at:02}", AFTER_S, 4) for at in range(5)]
    pace = admitted(moves, Pace(), 4, 0.0)
    assert len(pace.admitted) == 2
    assert len(admitted(moves, pace, 4, 6.0, 6.0).admitted) == 2
    assert len(admitted(moves, pace, 4, 12.0, 12.0).admitted) == 3


def test_a_deployment_with_more_replicas_than_the_pace_takes_its_whole_minute() -> None:
    moves = [Move("c0", "large", AFTER_S, 25), Move("c0", "small", AFTER_S, 1)]
    pace = admitted(moves, Pace(), 4, 0.0)
    assert list(pace.admitted) == [("c0", "large")]
    assert list(admitted(moves, pace, 4, 90.0, 90.0).admitted) == [("c0", "large")]
    assert len(admitted(moves, pace, 4, 96.0, 96.0).admitted) == 2


def test_a_very_large_deployment_delays_others_by_five_minutes_at_most() -> None:
    moves = [Move("c0", "large", AFTER_S, 10_000), Move("c0", "small", AFTER_S, 1)]
    pace = admitted(moves, Pace(), 4, 0.0)
    assert len(admitted(moves, pace, 4, 240.0, 240.0).admitted) == 1
    assert len(admitted(moves, pace, 4, 300.0, 300.0).admitted) == 2


def test_many_deployments_of_a_namespace_delay_others_by_no_more_than_one_does() -> None:
    hostile = [Move("c0", f"a-{at:03}", AFTER_S, 10, namespace="hostile") for at in range(100)]
    moves = [*hostile, Move("c0", "own", AFTER_S, 1, namespace="other")]
    pace = admitted(moves, Pace(), 4, 0.0)
    assert list(pace.admitted) == [("c0", "a-000")]
    assert ("c0", "own") in admitted(moves, pace, 4, 60.0, 60.0).admitted


def test_a_namespace_whose_replicas_find_no_place_keeps_the_next_cluster_waiting_once() -> None:
    hostile = [Move("c0", f"a-{at:03}", AFTER_S, 10, namespace="hostile") for at in range(100)]
    moves = [*hostile, Move("c1", "own", AFTER_S, 1, namespace="other")]
    pace = Pace()
    for minute in range(10):
        pace = admitted(moves, pace, 4, minute * 60.0, 60.0)
        assert ("c1", "own") not in pace.admitted
    pace = admitted(moves, pace, 4, 600.0, 60.0)
    assert ("c1", "own") in pace.admitted
    assert len(admitted(moves, pace, 4, 660.0, 60.0).admitted) > len(pace.admitted), "both go on"

"""The state of one cluster, from what its witnesses say over time."""

import pytest

from modelplane.deciders.cluster_health import (
    ClusterState,
    Evidence,
    Standing,
    Witness,
    Witnesses,
    advance,
    judge,
)

G, B, U = Evidence.GOOD, Evidence.BAD, Evidence.UNKNOWN


def witnesses(api: Evidence, data_path: Evidence = U, heartbeat: Evidence = U) -> Witnesses:
    return Witnesses(Witness(api, "no API"), Witness(data_path, "no answers"), Witness(heartbeat, "no sign"))


GOOD, LOST = witnesses(G, G), witnesses(B, B)


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        pytest.param(witnesses(G), ClusterState.REACHABLE, id="an API server that answers is enough"),
        pytest.param(witnesses(U), None, id="no evidence is no finding"),
        pytest.param(witnesses(U, G), None, id="requests that succeed do not show that the API answers"),
        pytest.param(witnesses(B), ClusterState.SUSPECT, id="one bad witness alone never loses a cluster"),
        pytest.param(
            witnesses(G, B), ClusterState.SUSPECT, id="replicas that do not answer stay where they are"
        ),
        pytest.param(witnesses(U, B), ClusterState.SUSPECT, id="an unknown API is not a silent one"),
        pytest.param(witnesses(G, B, B), ClusterState.SUSPECT, id="an API server that answers is not lost"),
        pytest.param(witnesses(B, G), ClusterState.ISOLATED, id="it serves without its API server"),
        pytest.param(witnesses(B, B), ClusterState.LOST, id="API server and data path"),
        pytest.param(witnesses(B, U, B), ClusterState.LOST, id="API server and heartbeat"),
        pytest.param(witnesses(B, G, B), ClusterState.LOST, id="the second witness counts, whichever it is"),
    ],
)
def test_a_finding_needs_two_witnesses_to_lose_a_cluster(seen: Witnesses, state: ClusterState | None) -> None:
    assert judge(seen) is state


def after(*steps: tuple[Witnesses, float], of: Standing | None = None, at: float = 0.0) -> Standing:
    """Return the standing after witnesses have said the same for so many seconds, in steps of 10 s."""
    standing = of or Standing()
    for seen, lasting_s in steps:
        for _ in range(int(lasting_s // 10)):
            at += 10
            standing = advance(standing, seen, at, 10.0)
    return standing


def test_the_time_for_which_a_cluster_is_lost_begins_when_it_is_seen_lost() -> None:
    standing = after((GOOD, 60), (LOST, 100))
    assert (standing.state, standing.lost_s, standing.cause) == (
        ClusterState.LOST,
        90.0,
        "no API and no answers",
    )


def test_time_in_which_nothing_is_known_does_not_count() -> None:
    assert after((LOST, 50), (witnesses(U), 600)).lost_s == 40.0


def test_a_short_doubt_leaves_no_trace() -> None:
    assert after((witnesses(B), 600), (GOOD, 10)) == Standing()


@pytest.mark.parametrize(
    ("relapses", "trusted_after_s"),
    [
        pytest.param(0, 120, id="two minutes"),
        pytest.param(1, 240, id="twice as long after a relapse"),
        pytest.param(2, 480, id="four times after a second one"),
        pytest.param(7, 1800, id="thirty minutes at most"),
    ],
)
def test_the_damper_trusts_a_cluster_that_relapses_later_each_time(
    relapses: int, trusted_after_s: float
) -> None:
    flaps = [(LOST, 20.0), (GOOD, 20.0)] * relapses
    returning = after(*flaps, (LOST, 20), (GOOD, trusted_after_s))
    assert returning.state is ClusterState.RETURNING
    assert (
        after((GOOD, 10), of=returning, at=relapses * 40 + 20 + trusted_after_s).state
        is ClusterState.REACHABLE
    )


def test_a_relapse_is_forgotten_after_an_hour() -> None:
    standing = after((LOST, 20), (GOOD, 3700), (LOST, 20), (GOOD, 130))
    assert standing.state is ClusterState.REACHABLE


def test_a_cluster_that_comes_and_goes_adds_up_the_time_for_which_it_was_lost() -> None:
    assert after(*[(LOST, 60.0), (GOOD, 60.0)] * 3).lost_s == 150.0
    assert after((LOST, 60), (GOOD, 140), (LOST, 60)).lost_s == 50.0, "trusted in between"

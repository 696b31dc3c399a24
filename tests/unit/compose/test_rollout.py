"""What happens to each slot of a deployment: which replicas an edit reaches now, and which wait."""

from collections.abc import Sequence
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.deployment.replica_lifecycle import Action, Phase, Policy, Runs, Slot, plan_slots
from modelplane.compose.deployment.revisions import revision
from modelplane.scheduler import Cause, ReplicaRole

OLD, NEW = Runs.STABLE, Runs.NEW


def slot(key: str, runs: Runs, serving: str = "", **fields: Any) -> Slot:
    """Return a slot of a replica that stays; `serving` says how it serves."""
    return Slot(
        key,
        ReplicaRole.STAYS,
        runs,
        is_same=runs is NEW,
        serves=serving in ("serves", "updates"),
        is_updating=serving == "updates",
        is_seen=serving != "unseen",
        **fields,
    )


def planned(slots: Sequence[Slot], policy: Policy) -> tuple[str, str]:
    """Return the keys of the replicas that are updated, and of those that wait."""
    plans = plan_slots(slots, policy)
    return "".join(plan.key for plan in plans if plan.is_updated), "".join(
        plan.key for plan in plans if plan.waits
    )


EMPTY = Slot("a", ReplicaRole.NEW)


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        pytest.param(
            (slot("a", NEW, "serves"), slot("b", NEW, "serves")), ("ab", ""), id="all are up to date"
        ),
        pytest.param(
            (slot("a", OLD, "serves"), slot("b", OLD, "serves")),
            ("", "b"),
            id="the first that serves goes first",
        ),
        pytest.param(
            (slot("a", NEW), slot("b", OLD, "serves")),
            ("a", "b"),
            id="the next one waits while the first does not serve",
        ),
        pytest.param(
            (slot("a", NEW, "updates"), slot("b", OLD, "serves")),
            ("", "b"),
            id="the next one waits while a copy of the first has yet to be replaced",
        ),
        pytest.param(
            (slot("a", NEW, "serves"), slot("b", OLD, "serves")),
            ("a", ""),
            id="the next one goes when the first serves",
        ),
        pytest.param(
            (slot("a", OLD, "updates"), slot("b", OLD, "serves")),
            ("", "b"),
            id="what is in hand may be corrected",
        ),
        pytest.param(
            (slot("a", OLD, "serves"), slot("b", OLD)), ("", "a"), id="what does not serve goes at once"
        ),
        pytest.param((slot("a", OLD), slot("b", OLD)), ("", ""), id="all that does not serve goes at once"),
        pytest.param(
            (slot("a", NEW, "unseen"), slot("b", OLD, "serves")),
            ("a", "b"),
            id="what cannot be seen is not counted on",
        ),
        pytest.param(
            (slot("a", OLD, "unseen"), slot("b", OLD, "serves")),
            ("", "ab"),
            id="what cannot be seen is not edited",
        ),
        pytest.param((EMPTY, slot("b", OLD, "serves")), ("", "b"), id="one that is to be made comes before"),
        pytest.param((EMPTY,), ("", ""), id="nothing is there yet"),
    ],
)
def test_one_serving_replica_at_a_time(slots: tuple[Slot, ...], expected: tuple[str, str]) -> None:
    assert planned(slots, Policy(2)) == expected


@pytest.mark.parametrize(
    ("other", "waiting"),
    [
        pytest.param(Slot("b", ReplicaRole.LEAVES, OLD), "a", id="it leaves and does not serve"),
        pytest.param(
            Slot("b", ReplicaRole.LEAVES, OLD, serves=True), "", id="it serves until it is replaced"
        ),
        pytest.param(
            Slot("b", ReplicaRole.LEAVES, OLD, serves=True, cause=Cause.REGION),
            "a",
            id="it gets no requests outside the regions",
        ),
        pytest.param(Slot("b", None, OLD), "a", id="it is withdrawn now"),
    ],
)
def test_replicas_without_a_replacement_count_as_unavailable(other: Slot, waiting: str) -> None:
    assert planned((slot("a", OLD, "serves"), other), Policy(2)) == ("", waiting)


def test_a_pause_updates_none() -> None:
    slots = (slot("a", OLD, "serves"), slot("b", OLD))
    assert planned(slots, Policy(2, is_paused=True)) == ("", "ab")


@pytest.mark.parametrize(
    ("phase", "waiting"),
    [(Phase.ROLLOUT, ""), (Phase.RUNNING, "bd"), (Phase.REFUSED, "bcd"), (Phase.ABORTED, "bcd")],
)
def test_a_canary_updates_no_more_than_its_step_needs(phase: Phase, waiting: str) -> None:
    """Two are needed: the one that is new, and first the one of a canary that was cut short."""
    slots = (
        slot("a", NEW, "serves"),
        slot("b", OLD, "serves"),
        slot("c", Runs.OTHER, "serves"),
        slot("d", OLD),
    )
    assert planned(slots, Policy(4, phase, unavailable=4, step=2)) == ("a", waiting)


@pytest.mark.parametrize(
    ("there", "phase", "share", "is_withdrawn"),
    [
        pytest.param(slot("a", NEW), Phase.ROLLOUT, None, False, id="no canary"),
        pytest.param(slot("a", NEW, share="5"), Phase.ROLLOUT, "", False, id="the canary is over"),
        pytest.param(slot("a", NEW), Phase.RUNNING, "10", False, id="it has the weight of the step"),
        pytest.param(slot("a", NEW), Phase.ABORTED, labels.WITHDRAWN, True, id="it was aborted"),
        pytest.param(
            slot("a", NEW, share=labels.WITHDRAWN),
            Phase.RUNNING,
            labels.WITHDRAWN,
            False,
            id="its pods do not serve with the next template yet",
        ),
        pytest.param(
            Slot("a", ReplicaRole.NEW, gets=OLD), Phase.RUNNING, None, False, id="a stable replica has none"
        ),
    ],
)
def test_the_share_of_a_replica(there: Slot, phase: Phase, share: str | None, is_withdrawn: bool) -> None:
    (plan,) = plan_slots((there,), Policy(1, phase, step=1, weight=10))
    assert (plan.share, plan.is_withdrawn) == (share, is_withdrawn)


@pytest.mark.parametrize(
    ("there", "action"),
    [
        pytest.param(EMPTY, Action.CREATE, id="the file is empty"),
        pytest.param(slot("a", NEW, "serves"), Action.WRITE, id="it has its revision"),
        pytest.param(slot("a", OLD), Action.WRITE, id="it does not serve"),
        pytest.param(slot("a", OLD, "serves"), Action.KEEP, id="too few others serve"),
        pytest.param(
            slot("a", OLD, "unseen", is_draining=True), Action.RETURN, id="it was withdrawn, and stays"
        ),
        pytest.param(
            slot("a", OLD, "unseen", is_draining=True, share=labels.WITHDRAWN),
            Action.KEEP,
            id="its canary was aborted",
        ),
        pytest.param(Slot("a", ReplicaRole.LEAVES, NEW), Action.KEEP, id="its replacement does not serve"),
        pytest.param(Slot("a", None, NEW, has_endpoint=True), Action.WITHDRAW, id="it has to go"),
        pytest.param(Slot("a", None, NEW), Action.DELETE, id="it has no endpoint any more"),
    ],
)
def test_what_happens_to_a_slot(there: Slot, action: Action) -> None:
    (plan,) = plan_slots((there,), Policy(1, unavailable=0))
    assert plan.action is action


def deployment(**changes: Any) -> ModelDeployment:
    members = [{"template": {"spec": {"containers": [{"name": "engine", "image": "engine:2"}]}}}]
    spec = {"replicas": 1, "engines": [{"name": "main", "members": members}]}
    return decode_as(ModelDeployment, {"metadata": {"name": "d", "namespace": "n"}, "spec": spec | changes})


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        pytest.param({"replicas": 5}, True, id="how many there are"),
        pytest.param({"clusterSelector": {"matchLabels": {"a": "b"}}}, True, id="where they may go"),
        pytest.param({"modelCacheRef": {"name": "weights"}}, False, id="the weights"),
        pytest.param({"serving": {"mode": "Unified", "routing": "EndpointPicker"}}, False, id="the routing"),
    ],
)
def test_the_revision_is_of_what_a_replica_is(changes: dict[str, Any], same: bool) -> None:
    before = revision(deployment().replica_template())
    assert (revision(deployment(**changes).replica_template()) == before) == same

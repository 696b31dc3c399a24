"""Canaries over seeded traffic, and over every order of decisions, edits and failures."""

import random
from fractions import Fraction
from typing import Any

from hypothesis import Phase, example, given, settings, strategies as st

from modelplane.api import labels
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.deployment.replica_state import is_surge
from modelplane.compose.deployment.revisions import revision
from modelplane.deciders.canary import Answers, Decision, Evidence, Limits, Observed, Outcome, Sample, decide
from support.manifests import CLASS, cluster
from support.rollouts import BAD, BETTER, GOOD, SteppedRollout
from support.seeds import drawn

_LIMITS = Limits(Fraction(5, 100), Fraction("1.5"), 200)
_STEP_S = 600


def _traffic(seed: int, errors: float, slow: float, per_look: int) -> Outcome:
    """Return how a step ends in which the new revision has errors, and takes so many times as long."""
    chance = random.Random(seed)  # noqa: S311 - a seed makes it the same each time
    evidence = Evidence()
    for look in range(2 * _STEP_S):
        at = 2.0 * look
        evidence = evidence.add_sample(
            Sample(at, _answers(chance, per_look, errors, slow), _answers(chance, per_look * 4, 0.005, 1.0)),
            _LIMITS.least,
        )
        decision = decide(evidence, _LIMITS, left_s=_STEP_S - at)
        if decision.outcome in (Outcome.ABORTED, Outcome.ENDED):
            return decision.outcome
    return decision.outcome


def _answers(chance: random.Random, count: int, errors: float, slow: float) -> Answers:
    failed = sum(chance.random() < errors for _ in range(count))
    took = sum(chance.expovariate(1 / (800 * slow)) for _ in range(count))
    return Answers(count, failed, count, round(took))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**9), per_look=st.integers(1, 8))
def test_a_good_revision_is_not_aborted_by_chance(seed: int, per_look: int) -> None:
    assert _traffic(seed, errors=0.01, slow=1.0, per_look=per_look) is Outcome.ENDED


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**9), per_look=st.integers(1, 8))
def test_a_bad_revision_is_aborted(seed: int, per_look: int) -> None:
    assert _traffic(seed, errors=0.2, slow=1.0, per_look=per_look) is Outcome.ABORTED
    assert _traffic(seed, errors=0.0, slow=3.0, per_look=per_look) is Outcome.ABORTED


_counts = st.builds(
    Answers, st.integers(0, 400), st.integers(0, 400), st.integers(0, 400), st.integers(0, 400_000)
)


@given(
    samples=st.lists(st.builds(Sample, st.floats(0, 1e6), _counts, _counts), max_size=8),
    left=st.floats(-1, 1),
)
def test_without_enough_answers_or_a_gateway_nothing_is_decided(samples: Any, left: float) -> None:
    evidence = Evidence(tuple(samples))
    decided = (Outcome.ABORTED, Outcome.ENDED)
    assert decide(evidence, _LIMITS, left_s=left, problem="no pod is ready").outcome not in decided
    if evidence.new.count < _LIMITS.least and evidence.new.timed < _LIMITS.least:
        assert decide(evidence, _LIMITS, left_s=left).outcome not in decided


_steps = st.lists(
    st.one_of(
        st.just(("reconcile", 0)),
        st.tuples(st.sampled_from(("report", "report", "report", "break")), st.integers(0, 9)),
        st.tuples(st.just("edit"), st.integers(0, 3)),
        st.just(("forget", 0)),
        st.tuples(st.just("scale"), st.integers(1, 5)),
        st.tuples(st.just("pause"), st.integers(0, 1)),
        st.tuples(st.just("decide"), st.sampled_from(tuple(Outcome))),
        st.just(("retry", 0)),
    ),
    min_size=5,
    max_size=60,
)


_SCALED_DOWN_AFTER_AN_ABORT = [
    *(("scale", 2), ("edit", 3), ("reconcile", 0), ("report", 2)),
    *(("decide", Outcome.ABORTED), ("scale", 1)),
]
"""A replica that serves is withdrawn, because it is one too many."""

_EDITED_WHILE_A_REPLICA_IS_PLACED = [
    *(("edit", 3), ("scale", 5), ("forget", 0)),
    *(("edit", 1), ("report", 8), ("edit", 3)),
]
"""The surge replica of a canary that was cut short serves, and leaves, because it was there in addition."""

_EDITED_WHILE_ONLY_A_SURGE_REPLICA_SERVES = [
    *(("scale", 2), ("scale", 4), ("report", 5)),
    *(("edit", 1), ("retry", 0)),
]
"""A surge replica that serves stays, and those go that have not reported."""

_EDITED_WHILE_THE_ONLY_REPLICA_IS_BROKEN = [
    *(("scale", 1), ("break", 0), ("edit", 2), ("report", 4)),
    *(("break", 7), ("scale", 3), ("report", 8)),
]
"""A replica that does not serve is edited at once; those that were leaving are nothing to compare with."""

_MOVES = 3
_LARGE = CLASS.replace("name: l4", "name: h100").replace("23034Mi", "81559Mi")


def _canary(run: SteppedRollout) -> dict[str, Any]:
    return dict(run.owner["status"].get("rollout", {}).get("canary", {}))


def _current(run: SteppedRollout) -> str:
    return revision(decode_as(ModelDeployment, run.owner).replica_template())


def _edit(run: SteppedRollout, number: int) -> None:
    """Write another template; the last one fits no device that the first ones have."""
    run.edit((GOOD, BETTER, BAD, BETTER)[number])
    sign = ">=" if number == _MOVES else "<"
    run.owner["spec"]["engines"][0]["members"][0]["nodeSelector"]["devices"][0]["selectors"] = [
        {"cel": f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) {sign} 0'}
    ]


def _take(run: SteppedRollout, kind: str, number: Any) -> None:
    there = sorted(run.replicas())
    if kind in {"report", "break"} and there:
        run.report(there[number % len(there)], broken=kind == "break")
    elif kind == "edit":
        _edit(run, number)
    elif kind == "forget":
        run.children = run.replicas()
    elif kind == "scale":
        run.owner["spec"]["replicas"] = number
    elif kind == "pause":
        run.owner["spec"]["rollout"]["paused"] = bool(number)
    elif kind == "decide" and "stepStartTime" in (known := _canary(run)):
        step = known["revision"], known["step"], known["stepStartTime"]
        run.canary = Observed(*step, Decision(number, "as told"))
    elif kind == "retry" and "abortTime" in (known := _canary(run)):
        run.owner["metadata"].setdefault("annotations", {})[labels.RETRIED] = known["abortTime"]


def _revisions(run: SteppedRollout) -> dict[str, str]:
    return {key: each["metadata"]["labels"][labels.REVISION] for key, each in run.replicas().items()}


def _check_new(
    run: SteppedRollout,
    known: dict[str, Any],
    before: dict[str, str],
    after: dict[str, str],
    *,
    had_older: bool,
) -> None:
    """Check that replicas are placed with the new revision only as far as the canary lacks them.

    ``had_older``: a replica of another revision was to stay.
    """
    if not had_older or known["revision"] == known["stableRevision"]:
        return
    placed = [key for key in after if key not in before and after[key] == known["revision"]]
    needed = known["replicas"] if known["phase"] == "Running" else 0
    staying = [key for key, each in run.replicas().items() if not each["spec"].get("draining")]
    assert not placed or sum(after[key] == known["revision"] for key in staying) <= needed
    if known["phase"] == "Running" and run.owner["spec"]["replicas"]:
        assert any(each != known["revision"] for each in after.values()), "there is something to compare with"


def _check_older(run: SteppedRollout, known: dict[str, Any], older: set[str]) -> None:
    """Check that no more replicas of other revisions are withdrawn than make room for the canary."""
    needed = known["replicas"] if known["phase"] == "Running" else 0
    staying = {
        key for key in older & run.replicas().keys() if not run.replicas()[key]["spec"].get("draining")
    }
    assert len(staying) >= min(len(older), run.owner["spec"]["replicas"] - needed)


def _reconcile(run: SteppedRollout) -> None:
    """Reconcile, and check that no replica of an older revision is updated beyond what a canary needs."""
    before, served = _revisions(run), run.serving()
    surge = {key for key, each in run.replicas().items() if is_surge(each)}
    staying = [key for key, each in run.replicas().items() if not each["spec"].get("draining")]
    run.reconcile()
    known, after = _canary(run), _revisions(run)
    if known.get("revision") != _current(run) or known["phase"] == "Promoted":
        return
    cut_short = {key for key in surge if before[key] != known["stableRevision"]}
    older = {key for key in served - cut_short if before[key] != known["revision"]}
    _check_older(run, known, older)
    updated = {key for key in before if before[key] != after.get(key, before[key])}
    there = [key for key in after if after[key] == known["revision"]]
    had_older = any(before[key] != known["revision"] for key in staying)
    _check_new(run, known, before, after, had_older=had_older)
    if known["phase"] == "Running":
        staying = [key for key in there if not run.replicas()[key]["spec"].get("draining")]
        assert not updated or len(staying) <= known["replicas"]
    elif any(each != known["revision"] for each in after.values()):
        assert not updated, "after an abort nothing is updated"
        taking = {key for key in there if not run.replicas()[key]["spec"].get("draining")}
        assert not taking, "an aborted revision gets no requests"
        surplus = max(0, len(older) - run.owner["spec"]["replicas"])
        assert len((older - run.serving()) & after.keys()) <= surplus


@settings(max_examples=drawn(40), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(unavailable=st.integers(0, 3), surge=st.integers(0, 2), taken=_steps)
@example(unavailable=2, surge=1, taken=_SCALED_DOWN_AFTER_AN_ABORT)
@example(unavailable=1, surge=1, taken=_EDITED_WHILE_A_REPLICA_IS_PLACED)
@example(unavailable=1, surge=2, taken=_EDITED_WHILE_ONLY_A_SURGE_REPLICA_SERVES)
@example(unavailable=0, surge=2, taken=_EDITED_WHILE_THE_ONLY_REPLICA_IS_BROKEN)
def test_a_canary_updates_no_more_than_it_needs_and_a_promoted_template_heals(
    unavailable: int, surge: int, taken: Any
) -> None:
    steps = [{"weight": 10, "durationSeconds": 60}, {"weight": 50, "durationSeconds": 60}]
    limits = {"maxUnavailable": unavailable, "maxSurge": surge or int(not unavailable)}
    large = (_LARGE, cluster("north", nodes=4, class_name="h100"))
    run = SteppedRollout(3, {**limits, "canary": {"steps": steps}}, others=large)
    _edit(run, 0)
    run.settle()
    for kind, number in taken:
        _take(run, kind, number)
        _reconcile(run)
    _edit(run, 0)
    run.owner["spec"]["rollout"]["paused"] = False
    run.owner["metadata"].setdefault("annotations", {})[labels.PROMOTED] = _current(run)
    run.settle()
    assert run.images() == [GOOD] * run.owner["spec"]["replicas"]
    assert len(run.serving()) == len(run.replicas()) == run.owner["spec"]["replicas"]
    assert {share for _, share in run.weights()} == {""}
    assert run.said()[1] == "RolloutComplete"

"""Rollouts within their limits, whatever is edited, fails and reports, in any order."""

from typing import Any

from hypothesis import Phase, given, settings, strategies as st

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.deployment.rollout_limits import compute_limits
from support.rollouts import BAD, BETTER, GOOD, SteppedRollout
from support.seeds import drawn

counts = st.one_of(st.integers(0, 3), st.sampled_from(("0%", "25%", "50%", "100%")))
steps = st.lists(
    st.one_of(
        st.just(("reconcile", 0)),
        st.tuples(st.sampled_from(("report", "report", "report", "break")), st.integers(0, 9)),
        st.tuples(st.just("edit"), st.integers(0, 2)),
        st.tuples(st.just("scale"), st.integers(1, 5)),
        st.tuples(st.just("pause"), st.integers(0, 1)),
    ),
    min_size=5,
    max_size=60,
)


def _reconcile(run: SteppedRollout) -> None:
    """Reconcile, and check what it did to replicas that served."""
    served = run.serving()
    run.reconcile()
    owner = decode_as(ModelDeployment, run.owner)
    limit = compute_limits(owner)
    staying = [each for each in run.replicas().values() if not each["spec"].get("draining")]
    assert len(staying) <= owner.spec.replicas + limit.surge
    if served - run.serving():
        least = min(owner.spec.replicas, len(staying)) - limit.unavailable
        assert len(run.serving()) >= least


def _take(run: SteppedRollout, step: tuple[str, int]) -> None:
    kind, number = step
    there = sorted(run.replicas())
    if kind in {"report", "break"} and there:
        run.report(there[number % len(there)], broken=kind == "break")
    elif kind == "edit":
        run.edit((GOOD, BETTER, BAD)[number])
    elif kind == "scale":
        run.owner["spec"]["replicas"] = number
    elif kind == "pause":
        run.owner["spec"]["rollout"]["paused"] = bool(number)
    _reconcile(run)


@settings(max_examples=drawn(30), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(unavailable=counts, surge=counts, taken=steps)
def test_limits_hold_and_a_good_template_heals(unavailable: Any, surge: Any, taken: Any) -> None:
    run = SteppedRollout(3, {"maxUnavailable": unavailable, "maxSurge": surge})
    run.settle()
    for step in taken:
        _take(run, step)
    run.edit(GOOD)
    run.owner["spec"]["rollout"]["paused"] = False
    for _ in range(60):
        _reconcile(run)
        for key in run.replicas():
            run.report(key)
    assert run.images() == [GOOD] * run.owner["spec"]["replicas"]
    assert len(run.serving()) == len(run.replicas()) == run.owner["spec"]["replicas"]
    assert run.said()[1] == "RolloutComplete"


@settings(max_examples=drawn(15), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(unavailable=st.integers(0, 3), surge=st.integers(0, 3), replicas=st.integers(1, 5), order=st.randoms())
def test_a_bad_template_stops_at_the_limit(unavailable: int, surge: int, replicas: int, order: Any) -> None:
    run = SteppedRollout(replicas, {"maxUnavailable": unavailable, "maxSurge": surge})
    run.settle()
    limit = compute_limits(decode_as(ModelDeployment, run.owner))
    run.edit(BAD)
    for _ in range(12):
        _reconcile(run)
        there = sorted(run.replicas())
        run.report(order.choice(there))
    assert run.images().count(GOOD) >= max(0, replicas - limit.unavailable)
    assert len(run.serving()) >= max(0, replicas - limit.unavailable)

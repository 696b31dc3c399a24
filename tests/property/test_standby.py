"""Standbys keep their times, take no service its last replica, and settle, whatever clusters do."""

from itertools import pairwise

from hypothesis import Phase, given, settings, strategies as st

from support.variants import ADA, AMPERE, BF16, FP8, HOPPER, INT4, SteppedVariants

ORDER = (FP8, BF16, INT4)
CLUSTERS = (HOPPER, AMPERE, ADA)
AFTER_S, RETURN_S = 120, 600
cluster = st.sampled_from(range(3))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("time"), st.integers(1, 300), st.just(0)),
        st.tuples(st.just("time"), st.integers(100, 1500), st.just(0)),
        st.tuples(st.just("lose"), st.sampled_from((0, 0, 1, 2)), st.just(0)),
        st.tuples(st.just("gain"), st.sampled_from((0, 0, 1, 2)), st.integers(1, 3)),
        st.tuples(st.sampled_from(("break", "mend")), cluster, st.just(0)),
        st.tuples(st.just("scale"), cluster, st.integers(1, 3)),
        st.tuples(st.just("restart"), st.integers(0, 900), st.just(0)),
    ),
    min_size=10,
    max_size=40,
)


class Checked(SteppedVariants):
    """The variants, with a memory of when each standby had no cause for a change."""

    def __init__(self) -> None:
        super().__init__()
        self.calm = dict.fromkeys(ORDER, self.now)

    def _in_full(self, name: str) -> bool:
        return self.serving(name) >= self._wanted(name)

    def _wanted(self, name: str) -> int:
        return int(self.deployments[name]["spec"]["replicas"])

    def checked(self, name: str) -> None:
        """Reconcile one deployment, and check what it did to those that served."""
        before = {each: self.serving(each) for each in ORDER}
        above, was_active = ORDER[: ORDER.index(name)], self.active(name)
        has_cause = any(map(self._in_full, above)) if was_active else bool(above) and self.short(above[-1])
        if not has_cause:
            self.calm[name] = self.now
        self.reconcile(name)
        after = {each: self.serving(each) for each in ORDER}
        if sum(after.values()) < sum(before.values()) and was_active:
            assert sum(after.values()) > 0
        if self.active(name) != was_active:
            least = RETURN_S if was_active else AFTER_S
            assert (self.now - max(self.calm[name], self.watching_since)).total_seconds() >= least
            assert not was_active or any(map(self._in_full, above))
            self.calm[name] = self.now

    def short(self, name: str) -> bool:
        """Return True if a deployment has fewer places than it asks for."""
        staying = [each for each in self.children[name].values() if not each["spec"].get("draining")]
        return len(staying) < self._wanted(name)


def _pass(run: Checked, seconds: int, each_s: int = 30) -> None:
    for _ in range(max(1, seconds // each_s)):
        run.wait(min(each_s, seconds))
        for name in ORDER:
            run.checked(name)


def _take(run: Checked, step: tuple[str, int, int]) -> None:
    kind, number, count = step
    if kind == "time":
        _pass(run, number)
    elif kind == "lose":
        run.nodes(CLUSTERS[number], 0)
        run.evict(CLUSTERS[number])
    elif kind == "gain":
        run.nodes(CLUSTERS[number], count)
    elif kind == "break":
        run.broken.add(ORDER[number])
    elif kind == "mend":
        run.broken.discard(ORDER[number])
    elif kind == "scale":
        run.edit(ORDER[number], replicas=count)
    elif kind == "restart":
        run.restart(down_s=number)
    # The order of reconciles is any.
    for name in ORDER if number % 2 else reversed(ORDER):
        run.checked(name)


@settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(taken=steps)
def test_times_are_kept_the_last_replica_stays_and_it_settles(taken: list[tuple[str, int, int]]) -> None:
    run = Checked()
    for step in taken:
        _take(run, step)
    run.broken = set()
    _pass(run, 5000, 60)
    assert run.active(BF16) == run.short(FP8)
    assert run.active(INT4) == (run.active(BF16) and run.short(BF16))
    settled = len(run.changes)
    _pass(run, 3000, 60)
    assert len(run.changes) == settled
    for name in (BF16, INT4):
        changes = [(second, active) for second, changed, active in run.changes if changed == name]
        for (before, _), (second, active) in pairwise(changes):
            assert second - before >= (AFTER_S if active else RETURN_S)

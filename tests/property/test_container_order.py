"""The order of a pod's containers, whatever the containers do: KEP-753 as invariants."""

from dataclasses import replace

from hypothesis import given, strategies as st

from modelplane.kubelet.pods import container_worker
from modelplane.kubelet.pods.views import ContainerView, PodView, Role, Running, Terminated, Waiting

UP = Running("")
POLICIES = st.sampled_from(["Always", "OnFailure", "Never"])
ROLES = st.builds(
    lambda inits, mains: (*inits, *(Role.MAIN for _ in range(mains))),
    st.lists(st.sampled_from([Role.INIT, Role.SIDECAR]), max_size=4),
    st.integers(1, 3),
)
CHOICES = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 2)), max_size=60)
"""For each step, which of the possible events happens, and the exit code of one that ends."""


def pod(roles: tuple[Role, ...]) -> PodView:
    containers = tuple(ContainerView(f"c{place}", role) for place, role in enumerate(roles))
    return PodView("", "", "", containers)


def started(each: ContainerView) -> ContainerView:
    return replace(each, state=UP, started=False)


def ended(each: ContainerView, code: int, policy: str) -> ContainerView:
    again = container_worker.must_restart(container_worker.get_restart_policy(policy, each.role), code)
    state = Terminated(code, 0, "", "", "", "")
    return replace(each, state=state, last=state, started=False, finished=not again)


def events(view: PodView, code: int, policy: str) -> list[tuple[str, ContainerView]]:
    """Return what may happen next: a container starts, its startup probe succeeds, or it ends."""
    found = []
    for each in view.containers:
        if not each.runs and container_worker.may_start(view, each.name):
            found.append(("start", started(each)))
        if each.runs:
            found.append(("end", ended(each, code, policy)))
            if not each.started and each.role is not Role.INIT:
                found.append(("started", replace(each, started=True)))
    return found


def lived(roles: tuple[Role, ...], policy: str, choices: list[tuple[int, int]]) -> PodView:
    """Return a pod after some events; each start is checked."""
    view = pod(roles)
    for number, code in choices:
        possible = events(view, code, policy)
        if not possible:
            break
        kind, changed = possible[number % len(possible)]
        if kind == "start":
            check_start(view, changed)
        before, view = view, view.replace_container(changed)
        assert view.initialized or not before.initialized, "a pod stays initialized"
    return view


def check_start(view: PodView, chosen: ContainerView) -> None:
    before = view.containers[: view.containers.index(view.find_container(chosen.name))]
    inits = [each for each in view.containers if each.role is Role.INIT]
    assert not view.over
    if chosen.role is Role.MAIN:
        assert all(each.finished and not each.failed for each in inits)
    else:
        assert all(each.passed for each in before if each.role is Role.INIT)
    if not view.was_initialized and not view.initialized:
        assert all(each.passed for each in before), "one after the other"
        assert not any(each.runs for each in view.mains)


@given(ROLES, POLICIES, CHOICES)
def test_containers_start_in_their_order(
    roles: tuple[Role, ...], policy: str, choices: list[tuple[int, int]]
) -> None:
    lived(roles, policy, choices)


@given(ROLES, POLICIES, CHOICES)
def test_a_pod_is_never_stuck(roles: tuple[Role, ...], policy: str, choices: list[tuple[int, int]]) -> None:
    view = lived(roles, policy, choices)
    assert view.over or events(view, 0, policy)


@given(ROLES, POLICIES, CHOICES)
def test_a_pod_whose_containers_do_their_work_becomes_initialized(
    roles: tuple[Role, ...], policy: str, choices: list[tuple[int, int]]
) -> None:
    view = lived(roles, policy, choices)
    for _ in range(3 * len(roles) + 3):
        if view.over or view.initialized:
            break
        found = {
            kind: changed
            for kind, changed in events(view, 0, policy)
            if not _is_no_end_of_work(kind, changed)
        }
        view = view.replace_container(next(iter(found.values())))
    assert view.over or view.initialized


def _is_no_end_of_work(kind: str, changed: ContainerView) -> bool:
    return kind == "end" and changed.role is not Role.INIT


@given(ROLES, POLICIES, CHOICES)
def test_containers_end_in_the_reverse_order(
    roles: tuple[Role, ...], policy: str, choices: list[tuple[int, int]]
) -> None:
    view = lived(roles, policy, choices)
    order = []
    while running := [each for each in view.containers if each.runs]:
        turn = [each for each in running if container_worker.may_end(view, each.name)]
        assert turn, "somebody's turn it is"
        assert not (any(each.role is Role.SIDECAR for each in turn) and len(turn) > 1), "one after the other"
        order.append(turn[0].name)
        view = view.replace_container(ended(turn[0], 0, "Never"))
    sidecars = [each for each in order if view.find_container(each).role is Role.SIDECAR]
    assert sidecars == sorted(sidecars, reverse=True)
    assert order == [each for each in order if each not in sidecars] + sidecars


@given(ROLES, POLICIES, CHOICES)
def test_the_phase_follows_from_the_main_containers(
    roles: tuple[Role, ...], policy: str, choices: list[tuple[int, int]]
) -> None:
    view = lived(roles, policy, choices)
    running = any(each.runs for each in view.containers)
    assert (view.phase in {"Succeeded", "Failed"}) == (view.over and not running)
    if view.phase == "Succeeded":
        assert all(each.finished and not each.failed for each in view.mains)
    if view.phase == "Running":
        assert not any(isinstance(each.state, Waiting) for each in view.mains)
    assert view.initialized or view.phase in {"Pending", "Failed"}

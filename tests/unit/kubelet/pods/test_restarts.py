import pytest

from modelplane.kubelet.pods import container_worker
from modelplane.kubelet.pods.views import Role


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        pytest.param("Always", 0, True, id="always after success"),
        pytest.param("Always", 1, True, id="always after failure"),
        pytest.param("OnFailure", 0, False, id="on failure not after success"),
        pytest.param("OnFailure", 1, True, id="on failure after failure"),
        pytest.param("Never", 1, False, id="never"),
    ],
)
def test_the_policy_decides(policy: str, code: int, again: bool) -> None:
    assert container_worker.must_restart(policy, code) is again


@pytest.mark.parametrize(
    ("role", "pod_policy", "policy"),
    [
        pytest.param(Role.MAIN, "Always", "Always", id="a main container has the pod's"),
        pytest.param(Role.MAIN, "Never", "Never", id="a main container has the pod's, Never too"),
        pytest.param(Role.SIDECAR, "Never", "Always", id="a sidecar is always restarted"),
        pytest.param(Role.INIT, "Always", "OnFailure", id="an init container runs until it succeeds"),
        pytest.param(Role.INIT, "Never", "Never", id="an init container of a pod that never tries again"),
    ],
)
def test_the_policy_of_a_container_follows_from_its_role(role: Role, pod_policy: str, policy: str) -> None:
    assert container_worker.get_restart_policy(pod_policy, role) == policy


def test_the_first_restart_is_immediate_and_later_ones_wait_longer_up_to_five_minutes() -> None:
    delays = [container_worker.compute_delay_s(ends) for ends in range(1, 9)]
    assert delays == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert container_worker.compute_delay_s(10_000) == 300.0


def test_ten_good_minutes_are_forgiveness() -> None:
    assert container_worker.count_ends_in_row(4, 599.0) == 5
    assert container_worker.count_ends_in_row(4, 600.0) == 1

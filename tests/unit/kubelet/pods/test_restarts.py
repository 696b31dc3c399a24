import pytest

from modelplane.kubelet.pods import restarts


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
    assert restarts.restarts(policy, code) is again


def test_the_first_restart_is_immediate_and_later_ones_wait_longer_up_to_five_minutes() -> None:
    delays = [restarts.delay_s(ends) for ends in range(1, 9)]
    assert delays == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert restarts.delay_s(10_000) == 300.0


def test_ten_good_minutes_are_forgiveness() -> None:
    assert restarts.ends_in_row(4, 599.0) == 5
    assert restarts.ends_in_row(4, 600.0) == 1

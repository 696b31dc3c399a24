from modelplane.local.supervision.restart_delay import failures_after, pause_s


def test_the_pause_doubles_from_a_fifth_of_a_second_up_to_ten():
    assert [pause_s(failures) for failures in range(1, 9)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert pause_s(10_000) == 10.0


def test_a_process_that_lived_half_a_minute_is_forgiven_its_earlier_deaths():
    assert failures_after(6, lived_s=29.9) == 7
    assert failures_after(6, lived_s=30.0) == 1

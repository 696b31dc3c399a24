from modelplane.local.supervision.supervisor import compute_pause_s, count_failures


def test_the_pause_doubles_from_a_fifth_of_a_second_up_to_ten():
    pauses = [compute_pause_s(failures) for failures in range(1, 9)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert compute_pause_s(10_000) == 10.0


def test_a_process_that_lived_half_a_minute_is_forgiven_its_earlier_deaths():
    assert count_failures(6, lived_s=29.9) == 7
    assert count_failures(6, lived_s=30.0) == 1

"""Replicas that nobody has seen yet hold their room, for a while."""

from typing import Any

from modelplane.crossplane.function.runner import Reservations


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _replica(name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "ml", "name": name}}


def test_others_see_what_a_deployment_was_given_until_it_is_listed() -> None:
    reservations = Reservations(Clock())
    reservations.hold("a", (_replica("a-1"), _replica("a-2")))
    assert reservations.others("a", ()) == ()
    assert reservations.others("b", [_replica("a-1")]) == (_replica("a-2"),)


def test_what_never_shows_is_forgotten() -> None:
    clock = Clock()
    reservations = Reservations(clock)
    reservations.hold("a", (_replica("a-1"),))
    clock.now_s = 29.0
    assert reservations.others("b", ()) == (_replica("a-1"),)
    clock.now_s = 31.0
    assert reservations.others("b", ()) == ()


def test_a_new_decision_takes_the_place_of_the_one_before() -> None:
    reservations = Reservations(Clock())
    reservations.hold("a", (_replica("a-1"),))
    reservations.hold("a", (_replica("a-2"),))
    assert reservations.others("b", ()) == (_replica("a-2"),)
    reservations.release("a")
    assert reservations.others("b", ()) == ()

"""Maps whose keys are compared by identity."""

from modelplane.scheduler import Claim, Device
from modelplane.scheduler.search.identity_map import IdentityMap, number_by_value


def device(count: int) -> Device:
    return Device("gpu", "gpu.example.com", count, Claim.DRA, "gpu")


def count_of(each: Device) -> int:
    return each.count


def test_equal_objects_have_values_of_their_own() -> None:
    one, other = device(1), device(1)
    known: IdentityMap[Device, str] = IdentityMap()
    known.setdefault(one, "one")
    assert (known.get(one), known.get(other)) == ("one", None)


def test_an_object_keeps_its_first_value() -> None:
    one = device(1)
    known: IdentityMap[Device, str] = IdentityMap()
    assert [known.setdefault(one, "first"), known.setdefault(one, "second")] == ["first", "first"]


def test_numbers_stay_right_for_objects_that_come_and_go() -> None:
    """The id of an object that is gone is used again, unless the map keeps it."""
    number = number_by_value(count_of)
    assert [number(device(count % 10)) for count in range(1000)] == [*range(10)] * 100

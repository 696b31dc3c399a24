"""Serving several requests from the devices of one node."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from modelplane.api.rejected import Rejected
from modelplane.scheduler import (
    Claim,
    Deployment,
    Device,
    DeviceRequest,
    Engine,
    Member,
    Reason,
    ResolvedRequest,
)
from modelplane.scheduler.filters.device_requests import Served, serve_requests
from modelplane.scheduler.free_capacity import PodDemand
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.search.search_budget import SearchBudget


def entry(name: str, memory: int, count: int, claim: Claim = Claim.DRA) -> Device:
    return Device(name, "g", count, claim, name, capacity={"memory": f"{memory}Gi"})


def request(name: str, memory: int, count: int = 1) -> DeviceRequest:
    return DeviceRequest(
        name, count, (f'device.capacity["g"].memory.compareTo(quantity("{memory}Gi")) >= 0',)
    )


def serve(requests: tuple[DeviceRequest, ...], entries: tuple[Device, ...]) -> list[str] | Rejected:
    selection = Selection(
        SearchBudget(), Deployment("n", "d", "u", 1, (Engine("e", 1, (Member(requests=requests),)),))
    )
    verdict = serve_requests(requests, entries, selection, SearchBudget())
    if isinstance(verdict, Rejected):
        return Rejected(verdict.reason, verdict.subject, verdict.detail)
    return [f"{claim.name}={claim.device_class_name}*{claim.count}" for claim in verdict.claims]


BIG, SMALL = entry("big", 141, 2), entry("small", 24, 2)


@pytest.mark.parametrize(
    ("requests", "entries", "expected"),
    [
        pytest.param((), (BIG,), [], id="no requests"),
        pytest.param((request("x", 20),), (BIG, SMALL), ["x=big*1"], id="the first entry that matches"),
        pytest.param(
            (request("x", 20, 2), request("y", 20)), (BIG, SMALL), ["x=big*2", "y=small*1"], id="the rest"
        ),
        pytest.param(
            (request("x", 20, 2), request("y", 100)),
            (BIG, SMALL),
            ["x=small*2", "y=big*1"],
            id="a request makes room for the next one that has no other device",
        ),
        pytest.param(
            (request("x", 20, 3),),
            (BIG, SMALL),
            Rejected(Reason.TOO_FEW_DEVICES, "x", "3 requested, at most 2 on a node"),
            id="a request is not split over entries",
        ),
        pytest.param(
            (request("x", 100, 2), request("y", 100)),
            (BIG, SMALL),
            Rejected(
                Reason.DEVICES_COMPETE, "x, y", ("each request fits a node, but no node fits all requests")
            ),
            id="requests that compete",
        ),
        pytest.param(
            (request("x", 200),),
            (BIG, SMALL),
            Rejected(Reason.NO_MATCHING_DEVICE, "x", "memory is 141Gi"),
            id="no device matches",
        ),
        pytest.param(
            (request("x", 200),),
            (SMALL, BIG),
            Rejected(Reason.NO_MATCHING_DEVICE, "x", "memory is 141Gi"),
            id="of those that do not match, the one with the most is told",
        ),
        pytest.param(
            (DeviceRequest("x", 1, (f'device.driver == "g" && {request("x", 200).selectors[0]}',)),),
            (msgspec.structs.replace(BIG, driver="nic"), SMALL),
            Rejected(Reason.NO_MATCHING_DEVICE, "x", "memory is 24Gi"),
            id="of those that do not match, the one on which the selector came farther is told first",
        ),
        pytest.param(
            (request("x", 20),),
            (),
            Rejected(Reason.NO_MATCHING_DEVICE, "x", "the pool publishes no devices"),
            id="no devices",
        ),
        pytest.param(
            (request("x", 20),),
            (entry("steer", 80, 1, Claim.SYNTHETIC), SMALL),
            ["x=small*1"],
            id="a device that can be claimed is preferred to one that cannot",
        ),
        pytest.param(
            (request("x", 20), request("y", 20)),
            (entry("steer", 80, 1, Claim.SYNTHETIC), entry("one", 80, 1)),
            ["y=one*1"],
            id="one claim is enough",
        ),
        pytest.param(
            tuple(request(f"r{number}", 20) for number in range(16)),
            tuple(entry(f"e{number}", 24, 1) for number in range(15)),
            Rejected(
                Reason.DEVICES_COMPETE,
                ", ".join(f"r{number}" for number in range(16)),
                "each request fits a node, but no node fits all requests",
            ),
            id="that there is one entry too few is found at once",
        ),
    ],
)
def test_serving(requests: tuple[DeviceRequest, ...], entries: tuple[Device, ...], expected: Any) -> None:
    assert serve(requests, entries) == expected


def test_an_attribute_of_another_type_is_another_device() -> None:
    ask = DeviceRequest("x", 1, ('device.attributes["g"].flag == true',))
    selection = Selection(
        SearchBudget(), Deployment("n", "d", "u", 1, (Engine("e", 1, (Member(requests=(ask,)),)),))
    )
    true, one = (Device("d", "g", 1, attributes={"flag": flag}) for flag in (True, 1))
    assert [selection.is_match(ask, device) for device in (true, one)] == [True, False]


def test_what_is_claimed_is_the_request_as_written() -> None:
    ask = request("x", 20, 2)
    selection = Selection(
        SearchBudget(), Deployment("n", "d", "u", 1, (Engine("e", 1, (Member(requests=(ask,)),)),))
    )
    assert serve_requests((ask,), (BIG,), selection, SearchBudget()) == Served(
        (ResolvedRequest("x", "big", 2, ask.selectors),), PodDemand((2,), (2,), (True,))
    )


def test_requests_that_fill_a_node_to_the_last_device_are_served() -> None:
    """In the order as written this takes more steps than there are."""
    counts = (4, 3, 6, 3, 9, 9, 9, 8, 5, 3, 9, 2, 8, 8, 2, 9)
    asks = tuple(request(f"r{at}", 20, count) for at, count in enumerate(counts))
    entries = tuple(entry(f"e{at}", 24, have) for at, have in enumerate((39, 3, 13, 15, 11, 16)))
    served = serve(asks, entries)
    assert isinstance(served, list)
    taken = Counter(dict.fromkeys((each.name for each in entries), 0))
    for claim in served:
        name, count = claim.split("=")[1].split("*")
        taken[name] += int(count)
    assert taken == {each.name: each.count for each in entries}

"""The election beside the work: no work holds up a renewal, and an event loop that is stuck does not lead."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from modelplane.controllers.leader import Deposed, Timing
from modelplane.controllers.lease_thread import ASK_EVERY_S, LeaseThread
from support.election import Leases
from support.patience import PATIENCE_S

QUICK = Timing(duration_s=3600, deadline_s=3000.0, retry_s=0.01)
"""Renewals without a pause, and no lease that expires in a test."""


class Renewals(Leases):
    """Leases that count what is written, for any thread."""

    def __init__(self) -> None:
        super().__init__()
        self.enough = threading.Event()
        self.left = 10**9

    async def _count(self, _identity: str) -> None:
        self.left -= 1
        if self.left <= 0:
            self.enough.set()

    def expect(self, requests: int) -> None:
        self.enough.clear()
        self.left = requests


def thread_of(leases: Leases, ask_every_s: float = ASK_EVERY_S) -> LeaseThread:
    return LeaseThread(
        lambda: leases.client("first"),
        "modelplane-system",
        identity="first",
        timing=QUICK,
        ask_every_s=ask_every_s,
    )


def holder(leases: Leases) -> str:
    assert leases.lease is not None
    return str(leases.lease["spec"]["holderIdentity"])


async def test_work_that_keeps_its_event_loop_busy_costs_no_lease() -> None:
    leases = Renewals()
    leases.way = leases._count
    election = thread_of(leases)
    said: list[str] = []

    async def work() -> None:
        leases.expect(20)
        # As a long composition does: the event loop of the work runs nothing meanwhile.
        assert leases.enough.wait(PATIENCE_S), "renewals go on"
        said.append(election.fence())

    await election.lead(work)
    assert said == [""]
    assert holder(leases) == "", "given back at the end"
    assert election.fence() == "this process does not hold the lease"


async def test_an_event_loop_that_is_stuck_gives_the_lease_back() -> None:
    leases = Leases()
    election = thread_of(leases, ask_every_s=0.001)
    free = threading.Event()

    async def given_back(_identity: str) -> None:
        if leases.lease is not None and not holder(leases):
            free.set()

    leases.back = given_back
    said: list[str] = []

    async def work() -> None:
        assert free.wait(PATIENCE_S)
        said.append(election.fence())
        await asyncio.Event().wait()

    with pytest.raises(Deposed, match="the event loop has not answered"):
        await election.lead(work)
    assert said == ["this process does not hold the lease"]


async def test_before_the_lease_is_held_nothing_is_done_and_an_end_leaves_it_alone() -> None:
    leases = Leases()
    leases.lease = {
        "kind": "Lease",
        "metadata": {"resourceVersion": "7"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600},
    }
    read = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def noted(_identity: str) -> None:
        loop.call_soon_threadsafe(read.set)

    leases.back = noted
    election = thread_of(leases)
    assert election.problem == "the lease has not been read yet"
    task = asyncio.create_task(election.lead(_never))
    await asyncio.wait_for(read.wait(), PATIENCE_S)
    assert election.fence() == "this process does not hold the lease"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert holder(leases) == "other"


async def _never() -> None:
    raise AssertionError("another leads")


@pytest.mark.parametrize("how", ["ends", "fails", "is canceled"])
async def test_however_the_work_ends_the_lease_is_given_back(how: str) -> None:
    leases = Leases()
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        if how == "fails":
            raise ValueError("a bug")
        if how == "is canceled":
            await asyncio.Event().wait()

    task = asyncio.create_task(thread_of(leases).lead(work))
    await asyncio.wait_for(began.wait(), PATIENCE_S)
    if how == "is canceled":
        task.cancel()
    expected: dict[str, type[BaseException]] = {"fails": ValueError, "is canceled": asyncio.CancelledError}
    if how in expected:
        with pytest.raises(expected[how]):
            await task
    else:
        await task
    assert holder(leases) == ""


async def test_work_is_stopped_when_another_takes_the_lease() -> None:
    leases = Leases()
    stopped: list[Callable[[], str]] = []
    election = thread_of(leases)

    async def work() -> None:
        assert leases.lease is not None
        spec = {**leases.lease["spec"], "holderIdentity": "other"}
        leases.touch()
        leases.lease = {**leases.lease, "spec": spec}
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(election.fence)

    with pytest.raises(Deposed, match="other holds it"):
        await election.lead(work)
    assert [each() for each in stopped] == ["this process does not hold the lease"]
    assert holder(leases) == "other"

import asyncio
import contextlib

import pytest

from modelplane.controllers.queue import LAST_DELAY_S, WorkQueue

pytestmark = pytest.mark.virtual_time


async def test_a_key_added_twice_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue(4)
    queue.add("a")
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_key_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue(4)
    queue.add("a")
    await queue.get()
    queue.add("a")
    assert len(queue) == 0, "nobody else may work on it meanwhile"
    queue.done("a")
    assert await queue.get() == "a"


async def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    queue: WorkQueue[str] = WorkQueue(4)
    for key in ("b", "a", "b", "c"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["b", "a", "c"]


async def test_a_waiting_worker_is_woken() -> None:
    queue: WorkQueue[str] = WorkQueue(4)
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await asyncio.wait_for(worker, 1) == "a"


async def test_failures_come_later_and_later_up_to_a_limit() -> None:
    queue: WorkQueue[str] = WorkQueue(4)
    delays = []
    for _ in range(40):
        queue._put("a")
        await queue.get()
        delays.append(queue.failed("a"))
    assert delays[0] < 0.1
    assert delays[8] > delays[0] * 50
    assert max(delays) <= LAST_DELAY_S * 1.25


async def test_success_forgets_the_failures() -> None:
    queue: WorkQueue[str] = WorkQueue(4)
    for _ in range(10):
        queue._put("a")
        await queue.get()
        queue.failed("a")
    queue._put("a")
    await queue.get()
    queue.done("a")
    queue.add("a")
    await queue.get()
    assert queue.failed("a") < 0.1


@pytest.mark.parametrize("sooner", [True, False], ids=["an earlier add wins", "else it comes by itself"])
async def test_a_delayed_key_comes_once(sooner: bool) -> None:
    queue: WorkQueue[str] = WorkQueue(4)
    queue.add_later("a", 0.02)
    if sooner:
        queue.add("a")
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    queue.done("a")
    await asyncio.sleep(600)
    assert len(queue) == 0


async def test_a_failed_key_that_keeps_being_added_rests_all_the_same() -> None:
    queue: WorkQueue[str] = WorkQueue(1)
    queue.add("a")
    tries = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.6):
            while True:
                key = await queue.get()
                tries += 1
                queue.add(key)  # what it wrote before it failed wakes it
                queue.failed(key)
    assert 2 <= tries <= 6


async def test_something_new_ends_a_long_wait() -> None:
    queue: WorkQueue[str] = WorkQueue(1)
    for _ in range(12):
        queue._put("a")
        await queue.get()
        queue.failed("a")
    queue.add("a")
    assert await asyncio.wait_for(queue.get(), 2) == "a"


async def test_the_sooner_of_two_delays_counts() -> None:
    queue: WorkQueue[str] = WorkQueue(1)
    queue.add_later("a", 60)
    queue.add_later("a", 0.01)
    queue.add_later("a", 60)
    assert await asyncio.wait_for(queue.get(), 1) == "a"


async def test_a_lane_that_is_stuck_holds_up_no_other() -> None:
    queue: WorkQueue[str] = WorkQueue(2, lane=lambda key: key.partition("/")[0])
    for key in ("slow/1", "slow/2", "slow/3", "fast/1", "fast/2"):
        queue.add(key)
    assert {await queue.get() for _ in range(4)} == {"slow/1", "slow/2", "fast/1", "fast/2"}
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(600)
    assert not waiting.done(), "no more of a lane than its width"
    queue.done("slow/1")
    assert await asyncio.wait_for(waiting, 1) == "slow/3"


async def test_flows_take_turns() -> None:
    queue: WorkQueue[str] = WorkQueue(1, flow=lambda key: key.partition("/")[0])
    for key in ("many/1", "many/2", "many/3", "one/1", "two/1", "two/2"):
        queue.add(key)
    taken = []
    while queue:
        taken.append(await queue.get())
        queue.done(taken[-1])
    assert taken == ["many/1", "one/1", "two/1", "many/2", "two/2", "many/3"]


async def test_a_flow_that_empties_and_comes_back_waits_behind_the_others() -> None:
    queue: WorkQueue[str] = WorkQueue(1, flow=lambda key: key.partition("/")[0])
    for key in ("a/1", "b/1", "b/2"):
        queue.add(key)
    queue.done(await queue.get())
    queue.add("a/1")
    taken = []
    while queue:
        taken.append(await queue.get())
        queue.done(taken[-1])
    assert taken == ["b/1", "a/1", "b/2"]


async def test_how_long_a_key_waited_is_told_when_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    queue: WorkQueue[str] = WorkQueue(1, waited=waited.append)
    now = [10.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    queue.add("a")
    now[0] = 12.5
    queue.add("a")
    assert (len(queue), queue.running, waited) == (1, 0, [])
    await queue.get()
    assert (len(queue), queue.running, waited) == (0, 1, [2.5])
    queue.done("a")
    assert queue.running == 0

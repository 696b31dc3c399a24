import asyncio

import pytest

from modelplane.controllers.queue import LAST_DELAY_S, WorkQueue


async def test_a_key_added_twice_is_worked_on_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_key_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    assert len(queue) == 0, "nobody else may work on it meanwhile"
    queue.done("a")
    assert await queue.get() == "a"


async def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("b", "a", "b", "c"):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["b", "a", "c"]


async def test_a_waiting_worker_is_woken() -> None:
    queue: WorkQueue[str] = WorkQueue()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await asyncio.wait_for(worker, 1) == "a"


async def test_failures_come_later_and_later_up_to_a_limit() -> None:
    queue: WorkQueue[str] = WorkQueue()
    delays = []
    for _ in range(40):
        queue.add("a")
        await queue.get()
        delays.append(queue.failed("a"))
    assert delays[0] < 0.1
    assert delays[8] > delays[0] * 50
    assert max(delays) <= LAST_DELAY_S * 1.25


async def test_success_forgets_the_failures() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(10):
        queue.add("a")
        await queue.get()
        queue.failed("a")
    queue.add("a")
    await queue.get()
    queue.done("a")
    queue.add("a")
    await queue.get()
    assert queue.failed("a") < 0.1


@pytest.mark.parametrize("sooner", [True, False], ids=["an earlier add wins", "else it comes by itself"])
async def test_a_delayed_key_comes_once(sooner: bool) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_later("a", 0.02)
    if sooner:
        queue.add("a")
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    queue.done("a")
    await asyncio.sleep(0.05)
    assert len(queue) == 0

import asyncio

import pytest

from modelplane.controllers.runnable import guarded


class Lost(Exception):
    pass


async def test_work_that_ends_ends_the_guard() -> None:
    ended = asyncio.Event()

    async def guard() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await guarded(asyncio.sleep(0), guard())
    assert ended.is_set()


async def test_a_guard_that_raises_has_stopped_the_work() -> None:
    steps = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            steps.append("stopped")

    async def guard() -> None:
        raise Lost

    with pytest.raises(Lost):
        await guarded(work(), guard())
    assert steps == ["stopped"]


async def test_the_work_s_own_failure_is_raised() -> None:
    async def work() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await guarded(work(), asyncio.sleep(3600))


async def test_the_guard_watches_while_the_work_is_being_stopped() -> None:
    steps = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            steps.append("work")

    async def guard() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("guard")

    task = asyncio.create_task(guarded(work(), guard()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["work", "guard"]

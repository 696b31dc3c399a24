import asyncio

import pytest

from modelplane.api.rejected import Rejected
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.queue import WorkQueue
from modelplane.controllers.workers import Workers

pytestmark = pytest.mark.virtual_time

ONE, TWO = OwnerKey("ModelReplica", "default", "one"), OwnerKey("ModelReplica", "default", "two")


async def test_what_fails_is_tried_again_and_what_asks_for_it_is_looked_at_later() -> None:
    tried: list[float] = []

    async def reconcile(_key: OwnerKey) -> float | Rejected | None:
        tried.append(asyncio.get_running_loop().time())
        if len(tried) == 1:
            return Rejected(detail="not yet")
        if len(tried) == 2:
            raise RuntimeError("a bug")
        return 300.0 if len(tried) == 3 else None

    queue: WorkQueue[OwnerKey] = WorkQueue(1)
    queue.add(ONE)
    task = asyncio.create_task(Workers("work", queue, reconcile).run())
    await asyncio.sleep(3600)
    task.cancel()
    assert len(tried) == 4
    assert tried[3] - tried[2] == pytest.approx(300)


async def test_workers_that_are_stopped_give_back_what_they_work_on() -> None:
    worked: list[OwnerKey] = []

    async def reconcile(key: OwnerKey) -> None:
        worked.append(key)
        await asyncio.sleep(10)

    queue: WorkQueue[OwnerKey] = WorkQueue(2)
    queue.add(ONE)
    queue.add(TWO)
    task = asyncio.create_task(Workers("work", queue, reconcile).run())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert queue.running == 0
    again = asyncio.create_task(Workers("work", queue, reconcile).run())
    await asyncio.sleep(1)
    again.cancel()
    assert sorted(worked) == [ONE, ONE, TWO, TWO]

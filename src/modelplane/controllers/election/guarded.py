"""Work that is stopped when its guard raises."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any


async def guarded(work: Awaitable[None], guard: Coroutine[Any, Any, None]) -> None:
    """Work until it is done, or until the guard raises; then the work has been stopped.

    The guard watches until the work has ended, also while it is being stopped.
    """
    working = asyncio.ensure_future(work)
    guarding = asyncio.create_task(guard)
    try:
        await asyncio.wait((working, guarding), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, guarding):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    for task in (guarding, working):
        if not task.cancelled():
            task.result()

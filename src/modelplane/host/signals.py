"""Clean end of a long-running process on SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def run_until_signalled(work: Coroutine[Any, Any, None]) -> bool:
    """Run until SIGTERM or SIGINT cancels the work; return True if a signal ended it."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False

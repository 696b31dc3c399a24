"""How long tests wait for what must happen, and how often they look: no test says how fast that is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_S = 180
"""Seconds, far above what anything takes on a busy machine, so that only what never happens fails."""

LOOK_S = 1.0
"""Seconds between two looks that run a command: each takes a third of a second of a core."""


async def eventually(check: Callable[[], Awaitable[Any]], timeout_s: float = PATIENCE_S) -> Any:
    """Return what a check answers as soon as that is true; ``TimeoutError`` if it never is.

    The longer that takes, the rarer are the looks: each takes milliseconds of the API server and of the test.
    """
    pause_s = 0.02
    async with asyncio.timeout(timeout_s):
        while not (answer := await check()):
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, 0.3)
    return answer

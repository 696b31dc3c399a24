"""Runnables: control loops that a manager starts, runs again after a bug, and closes.

A control loop is a module with a ``Runnable``, and a row in ``Manager._control_loops``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from modelplane.kube.informer import Informer

_log = logging.getLogger(__name__)

_RETRY_S = 5.0


class Runnable:
    """A control loop. Everything but ``name`` has a default that does nothing."""

    name: str
    """Name in logs."""

    @property
    def informers(self) -> Iterable[Informer]:
        """Informers of its own. They run, and have synced before ``start``."""
        return ()

    async def start(self) -> None:
        """Do what must be done before any control loop runs."""

    async def run(self) -> None:
        """Run until cancelled. A bug is logged, and the loop is run again."""

    async def close(self) -> None:
        """Release what it holds, after every control loop has stopped."""


async def run_all(runnables: Sequence[Runnable], shared: Iterable[Informer]) -> None:
    """Run control loops and their informers until cancelled, then close the last one first.

    ``shared`` are informers that several of them read.
    """
    informers = [*shared, *(informer for runnable in runnables for informer in runnable.informers)]
    async with AsyncExitStack() as closing:
        for runnable in runnables:
            closing.push_async_callback(runnable.close)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run(), name=f"informer {informer.resource.plural}")
            for informer in informers:
                await informer.wait_until_synced()
            for runnable in runnables:
                await runnable.start()
            _log.info("watching %d kinds", len(informers))
            for runnable in runnables:
                group.create_task(_always(runnable), name=runnable.name)


async def _always(runnable: Runnable) -> None:
    while True:
        try:
            await runnable.run()
        except Exception:  # noqa: BLE001 - the rest of the controller need not go down with it
            _log.exception("%s: a bug; going on in %.0f s", runnable.name, _RETRY_S)
            await asyncio.sleep(_RETRY_S)
        else:
            return


async def cancel_all(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks, and return once they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


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

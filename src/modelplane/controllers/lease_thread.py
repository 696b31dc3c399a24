"""Lease thread: the election on an event loop of its own, so that no work holds up a renewal.

A composition or the copies of a large fleet can keep the controllers' event loop busy for seconds, and on a
machine with too much to do for longer than a lease lasts. The renewals go on meanwhile, and so does the
fence, which reads a clock. An event loop that answers no more is another matter: its lease is given back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from modelplane.controllers.leader import STANDARD, Deposed, Election, Timing, boot_clock
from modelplane.controllers.runnable import guarded
from modelplane.kube.client import Client

ASK_EVERY_S = 1.0

_MOST_MISSED = 60
"""Asks without an answer of the work's event loop after which it does not lead any more.

A number and not a time, so that a process that was stopped has not missed what it did not ask.
"""


class LeaseThread:
    """One process's part in the election, for work on another event loop."""

    def __init__(
        self,
        connect: Callable[[], Client],
        namespace: str,
        *,
        identity: str = "",
        timing: Timing = STANDARD,
        ask_every_s: float = ASK_EVERY_S,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """``connect`` returns a client for the lease alone; it is called and closed in the thread."""
        self._connect = connect
        self._namespace = namespace
        self._identity = identity
        self._timing = timing
        self._ask_every_s = ask_every_s
        self._clock = clock
        self._election: Election | None = None
        self._stopping = asyncio.Event()
        self._has_answered = False

    @property
    def problem(self) -> str:
        """The cause if the last attempt to read or renew the lease failed; empty otherwise."""
        return self._election.problem if self._election else "the lease has not been read yet"

    def fence(self) -> str:
        """Return the cause if nothing may be written; empty while this process leads."""
        return self._election.fence() if self._election else "this process does not hold the lease"

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then work for as long as it is held.

        Raises ``Deposed`` where it is lost. Where the work ends, however it does, the lease is given back.
        """
        loop = asyncio.get_running_loop()
        own = asyncio.new_event_loop()
        held = asyncio.Event()

        def ask(answer: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(answer)

        def elect() -> None:
            with asyncio.Runner(loop_factory=lambda: own) as runner:
                runner.run(self._elect(held.set, ask))

        # Its own, because it takes its place in an executor for as long as it leads.
        executor = ThreadPoolExecutor(1, thread_name_prefix="lease")
        thread = loop.run_in_executor(executor, elect)
        ended = asyncio.ensure_future(asyncio.wait((thread,)))
        try:
            await guarded(_until(held), _ended(thread))
            await guarded(work(), _ended(thread))
        finally:
            with suppress(RuntimeError):  # the thread may just have closed its loop
                own.call_soon_threadsafe(self._stopping.set)
            executor.shutdown(wait=False)
            await ended

    async def _elect(self, held: Callable[[], None], ask: Callable[[Callable[[], None]], None]) -> None:
        async with self._connect() as client:
            self._election = Election(
                client, self._namespace, identity=self._identity, timing=self._timing, clock=self._clock
            )
            is_held = asyncio.Event()

            async def hold() -> None:
                is_held.set()
                ask(held)
                await guarded(_until(self._stopping), self._watch(ask))

            leading = asyncio.create_task(self._election.lead(hold))
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait((leading, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not is_held.is_set():
                leading.cancel()
            await asyncio.gather(leading, stopping, return_exceptions=True)
            if not leading.cancelled():
                leading.result()

    async def _watch(self, ask: Callable[[Callable[[], None]], None]) -> None:
        """Raise ``Deposed`` if the work's event loop answers no more."""
        missed = 0
        while missed < _MOST_MISSED:
            self._has_answered = False
            ask(self._answer)
            await asyncio.sleep(self._ask_every_s)
            missed = 0 if self._has_answered else missed + 1
        silent_s = missed * self._ask_every_s
        raise Deposed(f"gave the lease back: the event loop has not answered for {silent_s:g} s")

    def _answer(self) -> None:
        self._has_answered = True


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _ended(thread: "asyncio.Future[None]") -> None:
    """Wait for the thread; raise what ended it. It does not end while it holds the lease."""
    await asyncio.shield(thread)

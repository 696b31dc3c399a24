"""An event loop whose time passes only while everything waits, and then at once."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Selector(selectors.SelectSelector):
    """Returns from a wait without waiting, once what was waited for is the next timer."""

    now = 0.0
    threads = 0
    """How many threads work for the loop; while any does, no time passes."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.threads and timeout != 0:
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        if not ready and timeout:
            self.now += timeout
        return ready


class Loop(asyncio.SelectorEventLoop):
    """The loop; its time begins at 0. What comes from another process takes real time: use no such thing."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._virtual.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _future: object) -> None:
        self._virtual.threads -= 1

    async def shutdown_default_executor(self, *_patience_s: float | None) -> None:
        self._virtual.threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._virtual.threads -= 1


def stall(seconds: float) -> None:
    """Let time pass while nothing runs, as on a machine with too much to do."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    loop._virtual.now += seconds


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, on a clock that begins at 0."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(work)

"""An event loop whose time passes only while everybody sleeps, and then at once."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Returns from a wait without waiting, once what was waited for is the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everybody waits for something that never comes")
        if not ready and timeout:
            self.now += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, on a clock that begins at 0."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)

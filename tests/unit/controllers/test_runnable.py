import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from modelplane.controllers.runnable import Runnable, run_all
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from unit.conftest import Scripted

pytestmark = pytest.mark.virtual_time


class Loop(Runnable):
    """Writes down what is done with it; ``ends`` are the errors with which its runs end."""

    def __init__(self, name: str, told: list[str], ends: Sequence[Exception] = ()) -> None:
        self.name = name
        self._told = told
        self._ends = iter(ends)

    async def start(self) -> None:
        self._told.append(f"start {self.name}")

    async def run(self) -> None:
        self._told.append(f"run {self.name}")
        if error := next(self._ends, None):
            raise error
        await asyncio.Event().wait()

    async def close(self) -> None:
        self._told.append(f"close {self.name}")


@asynccontextmanager
async def running(*loops: Runnable, shared: tuple[Informer, ...] = ()) -> AsyncIterator[None]:
    task = asyncio.create_task(run_all(loops, shared))
    await asyncio.sleep(1)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_loops_start_in_order_before_any_runs_and_are_closed_from_the_last_one() -> None:
    told: list[str] = []
    async with running(Loop("first", told), Loop("second", told)):
        assert told == ["start first", "start second", "run first", "run second"]
        told.clear()
    assert told == ["close second", "close first"]


async def test_a_loop_that_a_bug_ends_is_run_again_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []
    async with running(Loop("broken", told, [RuntimeError("oops")]), Loop("sound", told)):
        told.clear()
        await asyncio.sleep(10)
        assert told == ["run broken"]
    assert "broken: a bug; going on in 5 s" in caplog.text


async def test_a_loop_starts_once_its_own_informers_and_the_shared_ones_have_synced(
    plane: Scripted, client: Client
) -> None:
    told: list[str] = []

    class Reader(Loop):
        informers = (Informer(client, resources.NODES),)

    shared = Informer(client, resources.PODS)
    plane.silent = True
    async with running(Reader("reader", told), shared=(shared,)):
        assert told == []
    plane.silent = False
    async with running(Reader("reader", told), shared=(shared,)):
        assert (shared.synced, *(informer.synced for informer in Reader.informers)) == (True, True)
        assert told == ["close reader", "start reader", "run reader"]

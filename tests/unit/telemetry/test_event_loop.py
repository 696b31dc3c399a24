"""Asking an event loop from another thread."""

import asyncio
import threading

import pytest

from modelplane.telemetry import server
from modelplane.telemetry.server import Unanswered


async def test_what_is_asked_is_answered_on_the_loop() -> None:
    loop = asyncio.get_running_loop()
    where = server.route_to_loop(loop, threading.current_thread)
    assert await asyncio.to_thread(where) is threading.current_thread()


async def test_what_goes_wrong_is_the_askers() -> None:
    def broken() -> None:
        raise KeyError("a")

    with pytest.raises(KeyError):
        await asyncio.to_thread(server.route_to_loop(asyncio.get_running_loop(), broken))


async def test_a_loop_that_turns_is_alive() -> None:
    await asyncio.to_thread(server.watch_loop(asyncio.get_running_loop()))


async def test_a_loop_that_is_stuck_is_given_up_and_not_asked_later() -> None:
    calls: list[int] = []
    ask = server.route_to_loop(asyncio.get_running_loop(), lambda: calls.append(1), patience_s=0.01)
    answers: list[Exception] = []

    def asking() -> None:
        try:
            ask()
        except Unanswered as error:
            answers.append(error)

    thread = threading.Thread(target=asking)
    thread.start()
    thread.join()  # the loop does not turn meanwhile
    assert [str(error) for error in answers] == ["the event loop has not answered for 0.01 s"]
    marker = asyncio.Event()
    asyncio.get_running_loop().call_soon(marker.set)  # behind what was asked
    await marker.wait()
    assert calls == []


def test_a_loop_that_has_ended_says_so() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(Unanswered, match="the event loop has ended"):
        server.route_to_loop(loop, str)()

"""Calls to an event loop from another thread.

The controllers' state belongs to their event loop and is read there; HTTP is served by other threads.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PATIENCE_S = 5.0
"""Time limit of a call. A loop that is busy for longer is stuck: no step of a reconcile takes as long."""


class Unanswered(Exception):
    """An event loop did not answer; the message is a sentence."""


def route_to_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[[], T], patience_s: float = _PATIENCE_S
) -> Callable[[], T]:
    """Return a function, to be called from any other thread, that calls one on the loop.

    It raises what the function raises, and ``Unanswered``.
    """

    def ask() -> T:
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def call() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(function())
            except Exception as error:  # noqa: BLE001 - it is the asker's
                answer.set_exception(error)

        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            raise Unanswered("the event loop has ended") from None
        try:
            return answer.result(patience_s)
        except concurrent.futures.TimeoutError:
            answer.cancel()
            raise Unanswered(f"the event loop has not answered for {patience_s:g} s") from None

    return ask


def watch_loop(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Return a check that an event loop still runs."""
    return route_to_loop(loop, lambda: None)

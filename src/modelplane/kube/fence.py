"""Fence: checked just before a write is sent, so that a former leader writes nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

from modelplane.kube import errors
from modelplane.kube.http2 import BODY_STARTED, HEADERS_STARTED

Fence = Callable[[], str]
"""Return the cause if nothing may be written now; empty otherwise."""

_LAST_MOMENTS = frozenset(
    {
        "http11.send_request_headers.started",
        "http11.send_request_body.started",
        HEADERS_STARTED,
        BODY_STARTED,
    }
)
"""Trace events of a transport just before it hands bytes to the kernel."""


def build_trace(fence: Fence) -> Callable[[str, Any], Awaitable[None]]:
    """Return a trace function for httpcore that ends a request that may not be sent.

    Since the decision to write, the request may have waited long for a connection, or the whole process may
    have been stopped.
    """

    async def step(name: str, _info: Any) -> None:
        if name in _LAST_MOMENTS and (why := fence()):
            raise errors.Fenced(why)

    return step

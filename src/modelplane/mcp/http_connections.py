"""Connections to the server by HTTP: none that sends no whole request keeps another one from being served.

A connection is waiting until its request is there, body included. It has a deadline for that, and if too many
wait, one ends: the oldest of the peer that has the most. A client that sends its request at once does not
wait, so it is served however many others hold connections open.
"""

import asyncio
from collections import Counter
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_REQUEST_S: Final = 10.0
"""Time for a whole request, from the start of the connection or the end of the answer before."""

_WAITING: Final = 256
"""Connections that may wait."""

_UNFINISHED: Final = (h11.IDLE, h11.SEND_BODY)
"""States of a client whose request is not there yet."""


class Connection(H11Protocol):
    """One connection, which ends if its request does not arrive in time."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self.peer = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as there
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.peer = self.client[0] if self.client else ""
        self._wait()
        waiting = [each for each in self.connections if isinstance(each, Connection) and each.is_waiting]
        if len(waiting) > _WAITING:
            [(most, _)] = Counter(each.peer for each in waiting).most_common(1)
            min((each for each in waiting if each.peer == most), key=Connection._since).end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take in what has arrived."""
        super().handle_events()
        if self.conn.their_state not in _UNFINISHED:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there already."""
        super().on_response_complete()
        if self.conn.their_state in _UNFINISHED and not self.transport.is_closing():
            self._wait()

    @property
    def is_waiting(self) -> bool:
        """True while the request is not there."""
        return self._deadline is not None

    def _since(self) -> float:
        return self._deadline.when() if self._deadline else 0.0

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_REQUEST_S, self.end)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def end(self) -> None:
        """Close the connection at once."""
        self._stop_waiting()
        self.transport.abort()

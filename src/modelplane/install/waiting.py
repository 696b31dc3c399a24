"""Waits for other components, limited in time, with a sentence about what is still missing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from modelplane.kube import errors
from modelplane.user_error import UserError

T = TypeVar("T")

_POLL_S = 0.5
_LATER = frozenset({429, 503})
"""Errors of an API server that is not ready yet, such as for a new kind."""

Report = Callable[[str], None]
"""Called for each completed step."""


class NotInTime(UserError):
    """A wait that exceeded its limit; the message names what is missing."""


class Deadline:
    """The time limit of a whole command."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._end = asyncio.get_running_loop().time() + timeout_s

    async def wait_until_nothing(self, missing: Callable[[], Awaitable[str | None]]) -> None:
        """Return once nothing is missing any more; raise ``NotInTime`` with the last problem."""
        while what := await missing():
            if asyncio.get_running_loop().time() > self._end:
                raise NotInTime(f"timed out after {self._timeout_s:g} s: {what}")
            await asyncio.sleep(_POLL_S)

    async def wait_for_answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of an API server, retrying while it is not ready."""
        while True:
            try:
                return await ask()
            except errors.ApiError as error:
                if error.code not in _LATER or asyncio.get_running_loop().time() > self._end:
                    raise
            await asyncio.sleep(_POLL_S)

"""Identities: tokens of clouds for clusters whose kubeconfig has no credential.

The credential of a cloud is exchanged for a token by the cloud's own library. Clusters with the same
credential share the token. It is renewed at half of its life, and given to the connections that use it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from modelplane.api.clouds.cluster_origin import IdentityType
from modelplane.controllers.queue import delay_s
from modelplane.controllers.runnable import Runnable

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_FIRST_RETRY_S: Final = 5.0
_LAST_RETRY_S: Final = 300.0
_EXCHANGES_AT_A_TIME: Final = 4


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a cloud."""

    text: str = field(repr=False)
    expires: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The content of a cloud's credential."""

    type: IdentityType
    content: bytes = field(repr=False)
    where: str
    """The Secret as messages name it."""
    cluster: str = ""
    """The cluster that tokens are for, by its name in the kubeconfig; empty if they are for every cluster."""


Exchange = Callable[[Credential], Token]
"""Returns a token for a credential. It blocks, and raises ``ValueError`` with the cause."""


@dataclass(slots=True)
class _Exchanged:
    """The result of the exchanges of a credential."""

    clusters: set[str]
    token: Token | None = None
    problem: str = ""
    failures: int = 0
    due: float = 0.0
    """Time of the next exchange."""


def make_line(text: str) -> str:
    """Return what a token server or the connection to it said, in one line of bounded length."""
    return " ".join(text.split())[:200]


class Identities(Runnable):
    """Exchanges the credentials that are in use, and renews their tokens."""

    name = "identities"

    def __init__(
        self,
        exchanges: Mapping[IdentityType, Exchange],
        on_change: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``on_change`` is called with the name of each cluster whose token or problem has changed."""
        self._exchanges = exchanges
        self._on_change = on_change
        self._clock = clock
        self._known: dict[Credential, _Exchanged] = {}
        self._turn = asyncio.Semaphore(_EXCHANGES_AT_A_TIME)

    def use(self, cluster: str, credential: Credential) -> Token | str:
        """Let a cluster use a credential, and no other; return its token, or why there is none."""
        self.release(cluster, keep=credential)
        exchanged = self._known.setdefault(credential, _Exchanged(set()))
        exchanged.clusters.add(cluster)
        if exchanged.token is not None and self._clock() < exchanged.token.expires:
            return exchanged.token
        return exchanged.problem or f"the credential in {credential.where} is being exchanged for a token"

    def release(self, cluster: str, *, keep: Credential | None = None) -> None:
        """End a cluster's use of every credential but one; forget those that no cluster uses."""
        for other in [credential for credential in self._known if credential != keep]:
            self._known[other].clusters.discard(cluster)
            if not self._known[other].clusters:
                del self._known[other]

    async def run(self) -> None:
        """Exchange each credential when it is due, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Exchange the credentials that are due."""
        now = self._clock()
        due = [credential for credential, exchanged in self._known.items() if now >= exchanged.due]
        await asyncio.gather(*(self._exchange(credential) for credential in due))

    async def _exchange(self, credential: Credential) -> None:
        async with self._turn:
            exchanged = self._known.get(credential)
            if exchanged is None:
                return
            try:
                exchanged.token = await asyncio.to_thread(self._exchanges[credential.type], credential)
            except ValueError as error:
                exchanged.problem = f"the credential in {credential.where} cannot be used: {error}"
                exchanged.due = self._clock() + delay_s(_FIRST_RETRY_S, exchanged.failures, _LAST_RETRY_S)
                exchanged.failures += 1
                _log.warning("%s", exchanged.problem)
            else:
                exchanged.problem, exchanged.failures = "", 0
                now = self._clock()
                exchanged.due = now + max((exchanged.token.expires - now) / 2, _FIRST_RETRY_S)
        for cluster in tuple(exchanged.clusters):
            self._on_change(cluster)

"""Keys of the fleet's gateway: their Secret, and the time at which clusters begin to require its tokens.

One rule: what is missing, damaged or unreadable changes nothing that is in force. A Secret that was deleted
is written again as it was.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.controllers.runnable import Runnable
from modelplane.gateway import tokens
from modelplane.gateway.tokens import GatewayKeys
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

_LOOK_S = 5.0
_KEY_BYTES = 32


class SentKeys:
    """Time since which the configuration of the gateways has tokens of each key."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since: dict[bytes, datetime] = {}

    def note(self, keys: GatewayKeys) -> bool:
        """Note keys whose tokens the configuration has; return True if they are others than before."""
        now, before = self._now(), self._since
        self._since = {key: before.get(key, now) for key in keys.keys.values()}
        return self._since != before

    def since(self, keys: GatewayKeys) -> dict[int, datetime]:
        """Return the time for each key, by its number, whose tokens the configuration has."""
        known = self._since
        return {number: known[key] for number, key in keys.keys.items() if key in known}


class KeyRing(Runnable):
    """Makes the first key, and advances to a newer one when every gateway sends its tokens."""

    name = "gateway keys"

    def __init__(
        self,
        client: Client,
        secret: Callable[[str], Object | None],
        remember: Callable[[Object], None],
        *,
        has_replicas: Callable[[], bool],
        changed: Callable[[], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``secret`` returns a Secret of the system's namespace, ``remember`` takes one that was written.

        Without a replica, no request is in progress that would lack a token.
        """
        self._client = client
        self._secret = secret
        self._remember = remember
        self._has_replicas = has_replicas
        self._changed = changed
        self._now = now
        self._keys = GatewayKeys()
        self._sent = SentKeys(now)

    @property
    def keys(self) -> GatewayKeys:
        """The keys in force."""
        return self._keys

    async def start(self) -> None:
        """Read the keys before anything is configured, or make them."""
        await self.look()

    async def run(self) -> None:
        """Look at the Secret every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    def sent(self, keys: GatewayKeys) -> None:
        """Note that the gateways' configuration has tokens of these keys."""
        self._sent.note(keys)

    async def look(self) -> None:
        """Take up the Secret as it is, and write what is due."""
        found = self._secret(tokens.SECRET)
        read = tokens.read(found) if found is not None else GatewayKeys()
        if found is not None and not read.keys:
            _log.warning("Secret %s has no key of at least 16 bytes: delete it to get one", tokens.SECRET)
            return
        wanted = read if read.keys else self._keys if self._keys.keys else self._first()
        wanted = tokens.advanced(wanted, self._sent.since(wanted), self._now())
        if wanted != read or found is None:
            try:
                written = await self._client.apply(tokens.manifest(wanted, SYSTEM_NAMESPACE))
            except errors.KubernetesError as error:
                _log.warning("cannot write Secret %s; trying again: %s", tokens.SECRET, error)
                return
            self._remember(written)
        if wanted != self._keys:
            self._keys = wanted
            self._changed()

    def _first(self) -> GatewayKeys:
        return GatewayKeys({1: secrets.token_bytes(_KEY_BYTES)}, 0 if self._has_replicas() else 1)

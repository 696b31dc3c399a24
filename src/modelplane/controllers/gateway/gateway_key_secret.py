"""Keys of the fleet's gateway: their Secret, and the time at which clusters begin to require its tokens.

One rule: what is missing, damaged or unreadable changes nothing that is in force. A Secret that was deleted
is written again as it was.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from modelplane.api.meta import SYSTEM_NAMESPACE, kind_name
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.composition import Requirement, Unknown
from modelplane.compose.gateway.fleet_gateway import KEYS
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.controllers.runnable import Runnable
from modelplane.gateway import tokens
from modelplane.gateway.tokens import GatewayKeys
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy.interface import Proxy

_log = logging.getLogger(__name__)

_LOOK_S = 5.0
_KEY_BYTES = 32


def _now() -> datetime:
    return datetime.now(UTC)


class Keys:
    """The keys in force, and the time since which the configuration of the gateways has tokens of each."""

    def __init__(self, now: Callable[[], datetime] = _now) -> None:
        self.now = now
        self.known = GatewayKeys()
        self._since: dict[bytes, datetime] = {}

    def current(self) -> GatewayKeys | None:
        """Return the keys; None before they are known."""
        return self.known

    def sent(self, keys: GatewayKeys) -> bool:
        """Note the keys of the configuration that is in force; return True if they are others than before."""
        now, before = self.now(), self._since
        self._since = {key: before.get(key, now) for key in keys.keys.values()}
        return self._since != before

    def sent_since(self, keys: GatewayKeys) -> dict[int, datetime]:
        """Return the time for each key, by its number, whose tokens the configuration has."""
        return {number: self._since[key] for number, key in keys.keys.items() if key in self._since}


class NamedKeys(Keys):
    """The keys as a process that only reads them has them."""

    def __init__(
        self, find: Callable[[Requirement], tuple[Object, ...] | Unknown], reported: Callable[[], None]
    ) -> None:
        """``reported`` is called when the tokens that are sent change."""
        super().__init__()
        self._find = find
        self._reported = reported

    def current(self) -> GatewayKeys | None:
        """Return the keys; the last known ones while their Secret is missing or cannot be read."""
        found = self._find(KEYS)
        if isinstance(found, Unknown):
            return self.known if self.known.keys or found.forbidden else None
        if found:
            self.known = tokens.read(found[0])
        return self.known

    def sent(self, keys: GatewayKeys) -> bool:
        """Note the keys of the configuration that is in force, and report a change."""
        if has_changed := super().sent(keys):
            self._reported()
        return has_changed


class KeyRing(Keys, Runnable):
    """Makes the first key, and advances to a newer one when every gateway sends its tokens."""

    name = "gateway keys"

    def __init__(
        self,
        client: Client,
        kubeconfigs: Kubeconfigs,
        informers: Mapping[str, Informer],
        changed: Callable[[], None],
        proxy: Proxy | None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        """``kubeconfigs`` has the Secrets of the system's namespace. Without a ``proxy``, nothing is done."""
        super().__init__(now)
        self._client = client
        self._kubeconfigs = kubeconfigs
        self._replicas = informers[kind_name(ModelReplica)]
        self._changed = changed
        self._proxy = proxy

    async def start(self) -> None:
        """Read the keys before anything is configured. A write may take long, and no route waits for it."""
        if (found := self._kubeconfigs.secret(tokens.SECRET)) is not None:
            self.known = tokens.read(found)

    async def run(self) -> None:
        """Look at the Secret every few seconds, until cancelled."""
        while self._proxy is not None:
            await self.look(self._proxy)
            await asyncio.sleep(_LOOK_S)

    async def look(self, proxy: Proxy) -> None:
        """Take up the Secret as it is, and write what is due."""
        found = self._kubeconfigs.secret(tokens.SECRET)
        read = tokens.read(found) if found is not None else GatewayKeys()
        if found is not None and not read.keys:
            _log.warning("Secret %s has no key of at least 16 bytes: delete it to get one", tokens.SECRET)
            return
        wanted = read if read.keys else self.known if self.known.keys else self._first()
        following = tokens.advance_keys(wanted, self.sent_since(wanted), self.now())
        if following != wanted and not (await proxy.load()).problem:
            wanted = following
        if wanted != read:
            try:
                written = await self._client.apply(tokens.build_manifest(wanted, SYSTEM_NAMESPACE))
            except errors.KubernetesError as error:
                _log.warning("cannot write Secret %s; trying again: %s", tokens.SECRET, error)
                return
            self._kubeconfigs.remember(written)
        if wanted != self.known:
            self.known = wanted
            self._changed()

    def _first(self) -> GatewayKeys:
        """Return the first key: without a replica, no request is in progress that would lack a token."""
        return GatewayKeys({1: secrets.token_bytes(_KEY_BYTES)}, 0 if len(self._replicas) else 1)

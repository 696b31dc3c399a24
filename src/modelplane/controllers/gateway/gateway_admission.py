"""Admission to the gateway: whom it asks for a key, the keys in force, its own keys, and names of models.

The gateway's own keys are in a Secret; clusters begin to require its tokens once they have the keys. One
rule: what is missing, damaged or unreadable changes nothing that is in force. A Secret that was deleted
is written again as it was.

In doubt nothing opens: an InferenceGateway that is gone or cannot be read changes nothing, and before one was
read, a fleet with ModelKeys serves no request without a key.

An InferenceGateway that is gone or cannot be read changes no alias that the platform has granted.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from modelplane.api.inference_gateway import (
    DEFAULT_NAME,
    Authentication,
    InferenceGateway,
    InferenceGatewaySpec,
    ModelAlias,
)
from modelplane.api.meta import SYSTEM_NAMESPACE, kind_name
from modelplane.api.model_key import ModelKey
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked, Requirement, Unknown
from modelplane.compose.gateway.fleet_gateway import REQUIREMENT
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.controllers.gateway.budget_enforcement import Budgets
from modelplane.controllers.runnable import Runnable
from modelplane.gateway import tokens
from modelplane.gateway.envoy.module_filters import KEYS
from modelplane.gateway.module_files.keys import KeyFile, KeyTable, build_key_table
from modelplane.gateway.module_files.models import ModelTable, build_model_table
from modelplane.gateway.route_table import Front
from modelplane.gateway.tokens import GatewayKeys
from modelplane.kube import errors
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy.interface import Proxy

_log = logging.getLogger(__name__)

_LOOK_S = 5.0
_KEY_BYTES = 32


class ModelList:
    """Reads the services, and the aliases of the platform."""

    def __init__(self, gateways: Informer, services: Informer) -> None:
        self._gateways = gateways
        self._services = services
        self._granted: tuple[ModelAlias, ...] = ()
        self._former = ModelTable()
        self._seen: tuple[tuple[Object, ...], tuple[ModelAlias, ...], bool] | None = None

    def add(self, front: Front | Blocked) -> Front | Blocked:
        """Return who is admitted, and the names for the services."""
        if isinstance(front, Blocked):
            return front
        if (gateway := self._gateways.get(DEFAULT_NAME)) is not None:
            self._granted = self._read(gateway)
        services, with_keys = tuple(self._services), front.keys is not None
        # Most changes of the gateway are those of endpoints, of which it has many more.
        if (seen := (services, self._granted, with_keys)) != self._seen:
            self._former = build_model_table(services, self._granted, self._former, with_keys=with_keys)
            self._seen = seen
        return replace(front, models=self._former.file)

    def _read(self, gateway: Object) -> tuple[ModelAlias, ...]:
        try:
            return decode_as(InferenceGateway, gateway).spec.aliases
        except InvalidObject:
            return self._granted


class Admission:
    """Reads the settings and the keys of the gateway."""

    def __init__(
        self,
        gateways: Informer,
        keys: Informer,
        *,
        former: Callable[[str], str],
        changed: Callable[[Iterable[str]], None],
        budgets: Budgets,
    ) -> None:
        """``former`` returns a file of the gateway. ``changed`` takes ModelKeys with another ``problem``."""
        self._gateways = gateways
        self._keys = keys
        self._former = former
        self._changed = changed
        self._budgets = budgets
        self._spec: InferenceGatewaySpec | None = None
        self._problem = ""
        self._table: KeyTable | None = None
        self._written = KeyTable()

    def problem(self, key: ModelKey) -> str | None:
        """Return why a ModelKey is not, or not wholly, in force; None until the gateway has it."""
        metadata = key.metadata
        if not self._written.is_known(metadata.namespace, metadata.name, metadata.generation):
            return None
        return self._written.problems.get(f"{metadata.namespace}/{metadata.name}", "")

    def refused(self, key: ModelKey) -> frozenset[str]:
        """Return the hashes of a ModelKey that belong to another namespace, as far as the gateway knows."""
        return self._written.list_refused(f"{key.metadata.namespace}/{key.metadata.name}")

    def written(self) -> None:
        """Note that the gateway has what was read last."""
        before, self._written = self._written, self._table or self._written
        if self._written is not before:
            self._changed(self._written.list_differing(before))

    async def read(self) -> Front | Blocked:
        """Return who is admitted."""
        if problem := self._look():
            return Blocked(problem)
        if self._spec is None:
            # No InferenceGateway since the start: what was closed stays closed, with the keys that it had.
            published = await asyncio.to_thread(self._published)
            return Front(keys=published or (KeyFile() if len(self._keys) else None))
        self._budgets.price(self._spec.pricing)
        if self._spec.authentication is not Authentication.API_KEY:
            return Front(trusted_hops=self._spec.num_trusted_hops)
        known = before = self._table
        if before is None:
            published = await asyncio.to_thread(self._published)
            before = KeyTable.build_from_file(published or KeyFile())
        # A copy of now: the informer changes while a thread reads.
        keys = tuple(self._keys)
        self._table = await asyncio.to_thread(build_key_table, keys, self._spec.key_grants, before)
        file = await self._budgets.apply(self._table, self._spec.pricing)
        if isinstance(file, Blocked):
            self._table = known
            return file
        return Front(
            keys=file,
            trusted_hops=self._spec.num_trusted_hops,
            rate_limits=self._spec.rate_limit_service,
        )

    def _look(self) -> str | None:
        """Read the settings; return why they are unknown, else None. The last ones that were known stay."""
        gateway = self._gateways.get(DEFAULT_NAME)
        try:
            if gateway is not None:
                self._spec = decode_as(InferenceGateway, gateway).spec
        except InvalidObject as error:
            if self._spec is None:
                return str(error)
            if str(error) != self._problem:
                _log.warning("the gateway keeps its authentication and grants: %s", error)
            self._problem = str(error)
            return None
        self._problem = ""
        return None

    def _published(self) -> KeyFile | None:
        """Return the keys that were in force before this process began; None if the gateway was open."""
        text = self._former(KEYS)
        try:
            return KeyFile.parse(text.encode()) if text else None
        except msgspec.DecodeError as error:
            _log.warning(
                "the former keys cannot be read, so ModelKeys that cannot be read have none: %s", error
            )
            return KeyFile()


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
        found = self._find(REQUIREMENT)
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

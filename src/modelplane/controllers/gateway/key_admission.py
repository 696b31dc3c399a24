"""Admission of requests to the gateway: whom it asks for a key, and the keys in force.

In doubt nothing opens: an InferenceGateway that is gone or cannot be read changes nothing, and before one was
read, a fleet with ModelKeys serves no request without a key.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

import msgspec

from modelplane.api.inference_gateway import (
    DEFAULT_NAME,
    Authentication,
    InferenceGateway,
    InferenceGatewaySpec,
)
from modelplane.api.model_key import ModelKey
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked
from modelplane.controllers.gateway.budget_enforcement import Budgets
from modelplane.gateway.envoy.module_filters import KEYS
from modelplane.gateway.module_files.keys import KeyFile, KeyTable, build_key_table
from modelplane.gateway.route_table import Front
from modelplane.kube.informer import Informer

_log = logging.getLogger(__name__)


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

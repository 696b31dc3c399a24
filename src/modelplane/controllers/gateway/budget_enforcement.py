"""Budgets of API keys and of tiers: reads what gateways have counted, and refuses what has spent its budget.

The rules are in ``gateway/usage/spent_budgets.py``.
Before the sums are known, and while they cannot be read, what was refused stays refused.
"""

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from modelplane.api.fields.requests.pricing import Pricing
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked
from modelplane.compose.memo import readable
from modelplane.controllers.runnable import Runnable
from modelplane.gateway.envoy.module_filters import KEYS
from modelplane.gateway.module_files.keys import KeyFile, KeyTable
from modelplane.gateway.route_table import Front
from modelplane.gateway.usage.costs import Tariff
from modelplane.gateway.usage.ledger import Ledger, format_day
from modelplane.gateway.usage.spent_budgets import (
    BudgetTable,
    KeyBudgets,
    ServiceUse,
    TierBudgets,
    budget_table,
    has_budgets,
    has_tier_budgets,
    list_blocked,
    refuse_spent,
    sum_service_use,
)
from modelplane.kube import errors
from modelplane.kube.informer import Informer, build_key
from modelplane.kube.resources import Object
from modelplane.proxy.interface import Proxy
from modelplane.proxy.ledgers import get_now

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0


class Tiers:
    """Compares what the endpoints of services have used with the budgets of their entries."""

    def __init__(
        self, services: Informer, endpoints: Informer, changed: Callable[[Iterable[Object]], None]
    ) -> None:
        """``changed`` takes the ModelServices of which an entry is closed or open now, and was not before."""
        self._services = services
        self._endpoints = endpoints
        self._changed = changed
        self._use: ServiceUse | None = None
        self._closed: dict[str, frozenset[int]] = {}

    @property
    def with_budgets(self) -> list[Object]:
        """The ModelServices of which an entry has a budget."""
        return [item for item in self._services if has_tier_budgets(item)]

    def state(self, service: ModelService, problem: str) -> TierBudgets:
        """Return the state of a service's budgets; ``problem`` says why it is not known, if it is not."""
        if not any(entry.budget for entry in service.spec.endpoints):
            return TierBudgets()
        if self._use is None:
            return TierBudgets(problem=problem)
        found = self._endpoints.in_namespace(service.metadata.namespace)
        return self._use.list_states(service, chain.from_iterable(map(readable(ModelEndpoint), found)))

    async def compare(self, ledger: Ledger, tariff: Tariff, now: dt.datetime) -> None:
        """Compare what was used with the budgets."""
        services = {str(build_key(item)): item for item in self.with_budgets}
        former, before = self._use, self._closed
        self._use = await asyncio.to_thread(sum_service_use, ledger, tariff, now, services.keys())
        self._closed = {name: self._spent(item, before.get(name)) for name, item in services.items()}
        changed = [
            services[name]
            for name, closed in self._closed.items()
            if former is None or former.currency != tariff.currency or before.get(name) != closed
        ]
        if changed:
            self._changed(changed)

    def _spent(self, item: Object, before: frozenset[int] | None) -> frozenset[int]:
        try:
            return frozenset(self.state(decode_as(ModelService, item), "").spent)
        except InvalidObject:
            return before or frozenset()  # its routes stay


@dataclass(frozen=True, slots=True)
class _Seen:
    """Inputs of a table."""

    ledger: Ledger
    keys: KeyTable
    tariff: Tariff
    services: tuple[Object, ...]
    changes: int
    day: str

    def is_same(self, other: "_Seen") -> bool:
        """Return True if another table would be equal."""
        pairs = ((self.ledger, other.ledger), (self.keys, other.keys), (self.tariff, other.tariff))
        services = [*map(id, self.services)] == [*map(id, other.services)]
        same_time = (self.changes, self.day) == (other.changes, other.day)
        return services and same_time and all(a is b for a, b in pairs)


class Budgets(Runnable):
    """Compares usage with budgets; does nothing without a gateway, or without a budget."""

    name = "budgets"

    def __init__(
        self,
        proxy: Proxy | None,
        *,
        tiers: Tiers | None = None,
        changed: Callable[[Iterable[str]], None],
        touch: Callable[[], None],
        now: Callable[[], dt.datetime] = get_now,
    ) -> None:
        """``changed`` takes ModelKeys with another state; ``touch`` has the gateway look at its keys."""
        self._proxy = proxy
        self._tiers = tiers
        self._changed = changed
        self._touch = touch
        self._now = now
        self._keys = KeyTable()
        self._tariff = Tariff(None)
        self._pricing: Pricing | None = None
        self._table: BudgetTable | None = None
        self._ledger: Ledger | None = None
        self._seen: _Seen | None = None
        self._before: frozenset[str] | None = None
        self._file: tuple[KeyFile, frozenset[str], KeyFile] | None = None
        self._problem = ""
        self._lock = asyncio.Lock()

    @property
    def wanted(self) -> bool:
        """True if a gateway has to count what is used."""
        return has_budgets(self._keys.parts) or bool(self._tiers and self._tiers.with_budgets)

    def counting(self, front: Front | Blocked) -> Front | Blocked:
        """Return who is admitted, and whether the gateway counts what is used."""
        return front if isinstance(front, Blocked) else replace(front, counts=self.wanted)

    def tiers(self, service: ModelService) -> TierBudgets | None:
        """Return the state of the budgets of a ModelService."""
        problem = self._problem or "still reading the usage of tiers"
        return self._tiers.state(service, problem) if self._tiers else None

    def state(self, key: ModelKey) -> KeyBudgets:
        """Return the state of the budgets of a ModelKey."""
        if self._table is None:
            return KeyBudgets(problem=self._problem or "still reading the usage of API keys")
        name = f"{key.metadata.namespace}/{key.metadata.name}"
        return KeyBudgets(self._table.list_states(name), self._table.currency)

    def price(self, pricing: Pricing | None) -> None:
        """Use these prices from now on."""
        if pricing != self._pricing:
            self._pricing, self._tariff = pricing, Tariff(pricing)

    async def apply(self, keys: KeyTable, pricing: Pricing | None) -> KeyFile | Blocked:
        """Return the keys, of which those that have spent their budget are refused.

        While neither the sums nor the former keys can be read, all stays as it is.
        """
        async with self._lock:
            try:
                return await self._apply(keys, pricing)
            except (OSError, msgspec.DecodeError) as error:
                return Blocked(f"cannot read which API keys have spent their budget: {error}")

    async def _apply(self, keys: KeyTable, pricing: Pricing | None) -> KeyFile:
        self.price(pricing)
        self._keys = keys
        if not self.wanted:
            self._table = BudgetTable()
        elif self._ledger is None:
            self._table = None
        else:
            await self._compare(self._ledger)
        spent = await self._spent()
        known = self._file
        if known is None or known[0] is not keys.file or known[1] != spent:
            self._file = known = (keys.file, spent, refuse_spent(keys.file, spent))
        return known[2]

    async def _spent(self) -> frozenset[str]:
        if self._table is not None:
            return self._table.spent
        if self._before is None:
            self._before = await asyncio.to_thread(self._published)
        return self._before

    def _published(self) -> frozenset[str]:
        """Return the keys that were refused before this process began.

        Raises ``OSError`` or ``msgspec.DecodeError``.
        """
        if self._proxy is None:
            return frozenset()
        text = self._proxy.read_former(KEYS)
        if not text and (problem := self._proxy.find_former_problem()):
            raise OSError(problem)
        return list_blocked(KeyFile.parse(text.encode())) if text else frozenset()

    async def run(self) -> None:
        """Compare every second, until cancelled."""
        while self._proxy is not None:
            async with self._lock:
                is_complete = await self._look(self._proxy)
            await asyncio.sleep(LOOK_EVERY_S if is_complete else 0)

    async def _look(self, proxy: Proxy) -> bool:
        """Compare once; return False if there is more to read."""
        if not self.wanted:
            return True
        try:
            ledger = await proxy.sum_usage()
        except (errors.KubernetesError, OSError) as error:
            self._say(f"cannot read the usage of API keys, so keys that are refused remain refused: {error}")
            return True
        self._say("")
        if ledger is None:
            return False
        self._ledger = ledger
        before = self._table
        await self._compare(ledger)
        if before is None or await self._spent() != before.spent:
            self._touch()
        return True

    async def _compare(self, ledger: Ledger) -> None:
        now = self._now()
        tiers = tuple(self._tiers.with_budgets) if self._tiers else ()
        seen = _Seen(ledger, self._keys, self._tariff, tiers, ledger.changes, format_day(now))
        if self._table is not None and self._seen and self._seen.is_same(seen):
            return
        if self._tiers is not None:
            await self._tiers.compare(ledger, self._tariff, now)
        table = await asyncio.to_thread(budget_table, self._keys.parts, ledger, self._tariff, now)
        before, self._table, self._seen = self._table, table, seen
        keys, namespaces = table.list_differing(before or BudgetTable())
        for namespace in namespaces:
            part = self._keys.parts.get(namespace)
            keys |= {f"{namespace}/{name}" for name in part.generations} if part else set()
        if keys:
            self._changed(keys)

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.warning("%s", problem)
        self._problem = problem

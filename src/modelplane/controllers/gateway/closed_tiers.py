"""Tiers with a budget: the ModelServices whose entries have spent theirs, or are open again."""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable
from itertools import chain

from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.memo import readable
from modelplane.gateway.usage.costs import Tariff
from modelplane.gateway.usage.ledger import Ledger
from modelplane.gateway.usage.spent_budgets import (
    ServiceUse,
    TierBudgets,
    has_tier_budgets,
    measure_service_use,
)
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object


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
        services = {_name(item): item for item in self.with_budgets}
        former, before = self._use, self._closed
        self._use = await asyncio.to_thread(measure_service_use, ledger, tariff, now, services.keys())
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


def _name(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"

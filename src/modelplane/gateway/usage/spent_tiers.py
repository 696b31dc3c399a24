"""Budgets of the entries of a ModelService, such as a paid tier: what their endpoints have used."""

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from modelplane.api.meta import Object
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import BudgetScope
from modelplane.api.model_service import ModelService
from modelplane.gateway.services import find_entry
from modelplane.gateway.usage.costs import Tariff
from modelplane.gateway.usage.ledger import UNKNOWN, Ledger, format_day, format_month
from modelplane.gateway.usage.spent_budgets import Spending, State, Used, find_spent


@dataclass(frozen=True, slots=True)
class TierBudgets:
    """State of the budgets of a service's entries."""

    states: Mapping[int, tuple[State, ...]] = field(default_factory=dict)
    """By the index of the entry, of those with a budget."""
    currency: str = ""
    """Empty without prices."""
    problem: str = ""
    """Reason why the state is not known; else empty."""

    @property
    def spent(self) -> Mapping[int, State]:
        """The entries of which a budget is spent, and the limit that opens last."""
        spent = {index: find_spent(states) for index, states in self.states.items()}
        return {index: state for index, state in spent.items() if state}


def has_budgets(service: Object) -> bool:
    """Return True if an entry of a ModelService, in its wire form, has a budget."""
    spec = service.get("spec")
    entries = spec.get("endpoints") if isinstance(spec, dict) else None
    if not isinstance(entries, list):
        return False
    return any(isinstance(entry, dict) and "budget" in entry for entry in entries)


@dataclass(frozen=True, slots=True)
class ServiceUse:
    """Use of the endpoints of services in this day and month."""

    day: str
    month: str
    currency: str
    used: Mapping[tuple[str, str], Mapping[str, Used]]
    """By service and endpoint, both NAMESPACE/NAME, and by period. NAMESPACE/ is of several services."""

    def list_states(self, service: ModelService, endpoints: Iterable[ModelEndpoint]) -> TierBudgets:
        """Return the state of a service's budgets. ``endpoints`` are those of its namespace."""
        metadata = service.metadata
        name = f"{metadata.namespace}/{metadata.name}"
        sums: defaultdict[int, defaultdict[str, Used]] = defaultdict(lambda: defaultdict(Used))
        for endpoint in endpoints:
            entry = find_entry(service, endpoint)
            backend = f"{metadata.namespace}/{endpoint.metadata.name}"
            if entry is not None:
                for period, used in self.used.get((name, backend), {}).items():
                    sums[entry][period].add(used.tokens, used.cost)
        states: dict[int, tuple[State, ...]] = {}
        # What may be of any endpoint of the namespace counts for each entry: it does not open one.
        for period, used in self.used.get((f"{metadata.namespace}/", UNKNOWN), {}).items():
            for index in range(len(service.spec.endpoints)):
                sums[index][period].add(used.tokens, used.cost)
        for index, entry_ in enumerate(service.spec.endpoints):
            if entry_.budget is not None:
                periods = {period: {name: used} for period, used in sums[index].items()}
                states[index] = Spending(self.day, self.month, periods).list_states(
                    BudgetScope.KEY, name, entry_.budget
                )
        return TierBudgets(states, self.currency)


def measure_service_use(
    ledger: Ledger, tariff: Tariff, now: dt.datetime, services: Collection[str]
) -> ServiceUse:
    """Return what the endpoints of some services, as NAMESPACE/NAME, have used."""
    day, month = format_day(now), format_month(now)
    used: defaultdict[tuple[str, str], defaultdict[str, Used]] = defaultdict(lambda: defaultdict(Used))
    for period in (day, month):
        for row, tokens in ledger.get_rows(period).items():
            if row.service in services or row.service.endswith("/"):
                used[row.service, row.backend][period].add(tokens.total, tariff.measure_cost(row, tokens))
    return ServiceUse(day, month, tariff.currency, used)

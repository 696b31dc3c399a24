"""Budgets of keys and namespaces, and of the entries of a ModelService such as a paid tier, against a ledger.

A value: the same ledger, objects and time give the same state. Costs are those of the present prices.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import structs

from modelplane.api.fields.requests.pricing import Budget
from modelplane.api.meta import Object
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import BudgetLimit, BudgetScope
from modelplane.api.model_service import ModelService
from modelplane.gateway.module_files.keys import KeyFile, KeyPart
from modelplane.gateway.services import find_entry
from modelplane.gateway.usage.costs import Tariff, parse_units
from modelplane.gateway.usage.ledger import UNKNOWN, Ledger, end_of, format_day, format_month


@dataclass(slots=True)
class Used:
    """Use of a period."""

    tokens: int = 0
    cost: int = 0
    """In units of ``costs.UNIT``; requests without a price cost nothing."""

    def add(self, tokens: int, cost: int | None) -> None:
        """Add a sum."""
        self.tokens += tokens
        self.cost += cost or 0


class BudgetState(NamedTuple):
    """State of one limit of a budget."""

    scope: BudgetScope
    limit: BudgetLimit
    amount: str
    percent: int
    """Part that is used, rounded down; 100 if it is spent."""
    opens: str
    """Time at which the period ends, RFC 3339."""

    @property
    def is_spent(self) -> bool:
        """True if requests are refused."""
        return self.percent >= 100


@dataclass(frozen=True, slots=True)
class Spending:
    """Use of keys and namespaces in this day and month."""

    day: str
    month: str
    keys: Mapping[str, Mapping[str, Used]] = field(default_factory=dict)
    """By period and key."""
    namespaces: Mapping[str, Mapping[str, Used]] = field(default_factory=dict)

    def list_states(self, scope: BudgetScope, name: str, budget: Budget | None) -> tuple[BudgetState, ...]:
        """Return the state of each limit of a budget."""
        if budget is None:
            return ()
        known = self.keys if scope is BudgetScope.KEY else self.namespaces
        day, month = (known.get(period, {}).get(name) or Used() for period in (self.day, self.month))
        return tuple(
            BudgetState(
                scope, limit, str(amount), _percent(used, amount), f"{end_of(period):%Y-%m-%dT%H:%M:%SZ}"
            )
            for limit, amount, used, period in (
                (BudgetLimit.TOKENS_PER_DAY, budget.tokens_per_day, day.tokens, self.day),
                (BudgetLimit.TOKENS_PER_MONTH, budget.tokens_per_month, month.tokens, self.month),
                (BudgetLimit.COST_PER_DAY, budget.cost_per_day, day.cost, self.day),
                (BudgetLimit.COST_PER_MONTH, budget.cost_per_month, month.cost, self.month),
            )
            if amount is not None
        )


def sum_spending(ledger: Ledger, tariff: Tariff, now: dt.datetime) -> Spending:
    """Return what is used in the day and the month of ``now``."""
    day, month = format_day(now), format_month(now)
    keys: dict[str, dict[str, Used]] = {}
    namespaces: dict[str, dict[str, Used]] = {}
    for period in (day, month):
        by_key, by_namespace = defaultdict[str, Used](Used), defaultdict[str, Used](Used)
        for row, tokens in ledger.get_rows(period).items():
            if row.key:
                cost = tariff.compute_cost(row, tokens)
                by_key[row.key].add(tokens.total, cost)
                by_namespace[row.namespace].add(tokens.total, cost)
        keys[period], namespaces[period] = by_key, by_namespace
    return Spending(day, month, keys, namespaces)


@dataclass(frozen=True, slots=True)
class BudgetTable:
    """State of all budgets."""

    keys: Mapping[str, tuple[BudgetState, ...]] = field(default_factory=dict)
    """Of ModelKeys with a budget of their own, by NAMESPACE/NAME."""
    namespaces: Mapping[str, tuple[BudgetState, ...]] = field(default_factory=dict)
    """Of namespaces whose grant has one."""
    currency: str = ""
    """Empty without prices, so that budgets in money have no effect."""

    def list_states(self, key: str) -> tuple[BudgetState, ...]:
        """Return the state of the budgets of a key and of its namespace."""
        return self.keys.get(key, ()) + self.namespaces.get(key.partition("/")[0], ())

    @property
    def spent(self) -> frozenset[str]:
        """The keys, as NAMESPACE/NAME, and the namespaces of which a budget is spent."""
        every = (*self.keys.items(), *self.namespaces.items())
        return frozenset(name for name, states in every if find_spent(states))

    def list_differing(self, former: "BudgetTable") -> tuple[set[str], set[str]]:
        """Return the keys and the namespaces with another state."""
        keys = {name for name, _ in self.keys.items() ^ former.keys.items()}
        namespaces = {name for name, _ in self.namespaces.items() ^ former.namespaces.items()}
        return keys, namespaces


@dataclass(frozen=True, slots=True)
class KeyBudgets:
    """State of the budgets of one key."""

    states: tuple[BudgetState, ...] = ()
    currency: str = ""
    """Empty without prices."""
    problem: str = ""
    """Reason why the state is not known; else empty."""


def has_budgets(parts: Mapping[str, KeyPart]) -> bool:
    """Return True if a key or a namespace has a budget."""
    return any(part.budgets or (part.grant and part.grant.budget) for part in parts.values())


def budget_table(
    parts: Mapping[str, KeyPart], ledger: Ledger, tariff: Tariff, now: dt.datetime
) -> BudgetTable:
    """Return the state of all budgets."""
    used = sum_spending(ledger, tariff, now)
    keys: dict[str, tuple[BudgetState, ...]] = {}
    namespaces: dict[str, tuple[BudgetState, ...]] = {}
    for namespace, part in parts.items():
        for key, budget in part.budgets.items():
            keys[key] = used.list_states(BudgetScope.KEY, key, budget)
        if part.grant and part.grant.budget:
            states = used.list_states(BudgetScope.NAMESPACE, namespace, part.grant.budget)
            # Each step is written into the status of every key of the namespace.
            namespaces[namespace] = tuple(
                state._replace(percent=state.percent // 10 * 10) for state in states
            )
    return BudgetTable(keys, namespaces, tariff.currency)


def refuse_spent(file: KeyFile, spent_names: frozenset[str]) -> KeyFile:
    """Return keys that are refused where their budget, or that of their namespace, is spent."""
    if not spent_names:
        return file
    keys = tuple(
        structs.replace(entry, blocked="Budget")
        if entry.blocked is None and (entry.id in spent_names or entry.namespace in spent_names)
        else entry
        for entry in file.keys
    )
    return KeyFile(keys=keys, namespaces=file.namespaces)


def list_blocked(file: KeyFile) -> frozenset[str]:
    """Return the keys that a file refuses because of a budget."""
    return frozenset(entry.id for entry in file.keys if entry.blocked == "Budget")


def find_spent(states: Iterable[BudgetState]) -> BudgetState | None:
    """Return the limit that is spent and opens last; None if none is."""
    return max((state for state in states if state.is_spent), key=lambda state: state.opens, default=None)


def _percent(used: int, amount: int | str) -> int:
    limit = parse_units(amount) if isinstance(amount, str) else amount
    return 100 if used >= limit else used * 100 // limit


@dataclass(frozen=True, slots=True)
class TierBudgets:
    """State of the budgets of a service's entries."""

    states: Mapping[int, tuple[BudgetState, ...]] = field(default_factory=dict)
    """By the index of the entry, of those with a budget."""
    currency: str = ""
    """Empty without prices."""
    problem: str = ""
    """Reason why the state is not known; else empty."""

    @property
    def spent(self) -> Mapping[int, BudgetState]:
        """The entries of which a budget is spent, and the limit that opens last."""
        spent = {index: find_spent(states) for index, states in self.states.items()}
        return {index: state for index, state in spent.items() if state}


def has_tier_budgets(service: Object) -> bool:
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
        states: dict[int, tuple[BudgetState, ...]] = {}
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


def sum_service_use(
    ledger: Ledger, tariff: Tariff, now: dt.datetime, services: Collection[str]
) -> ServiceUse:
    """Return what the endpoints of some services, as NAMESPACE/NAME, have used."""
    day, month = format_day(now), format_month(now)
    used: defaultdict[tuple[str, str], defaultdict[str, Used]] = defaultdict(lambda: defaultdict(Used))
    for period in (day, month):
        for row, tokens in ledger.get_rows(period).items():
            if row.service in services or row.service.endswith("/"):
                used[row.service, row.backend][period].add(tokens.total, tariff.compute_cost(row, tokens))
    return ServiceUse(day, month, tariff.currency, used)

"""Placing every engine of a replica on the pools of one cluster.

Where some choice of pools fits, one is found: with a policy, that of the least cost; otherwise the first in
published order, an engine in one pool before one that is in two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Final, TypeAlias

from modelplane.api.placement import PlacementPolicy
from modelplane.scheduler import misfit
from modelplane.scheduler.best_fit import Amounts, best_fit
from modelplane.scheduler.capacity import FreeCapacity
from modelplane.scheduler.cost import NOTHING, Cost, cost_of
from modelplane.scheduler.engine_options import EngineOptions, Option, OptionFinder
from modelplane.scheduler.engine_search import EngineSearch
from modelplane.scheduler.first_fit import first_fit
from modelplane.scheduler.market import Market
from modelplane.scheduler.misfit import Misfit
from modelplane.scheduler.policy import within_cluster
from modelplane.scheduler.search_budget import SearchBudget
from modelplane.scheduler.selection import Selection
from modelplane.scheduler.types import Cluster, Deployment, Engine, PlacedEngine, PlacedMember

_MOST_WAYS: Final = 256
"""Choices of options of one cluster up to which all are compared."""

Pins: TypeAlias = Mapping[str, tuple[str, ...]]
"""The pools that engines must stay in, by the engine's name: one for each member."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The place that a cluster has for a new replica."""

    engines: tuple[PlacedEngine, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class Way:
    """An option of each engine, and their cost as the policy compares it."""

    options: tuple[Option, ...]
    amounts: Amounts


class Placer:
    """Places replicas of one deployment. `currency` is that in which prices are compared.

    New ones use pools of the `market` only; without one, those that the deployment allows.
    """

    def __init__(
        self,
        deployment: Deployment,
        selection: Selection,
        budget: SearchBudget,
        currency: str = "",
        market: Market | None = None,
    ) -> None:
        self._engines = deployment.engines
        self._policy = deployment.policy
        self._currency = currency
        self.market = market or deployment.market
        self._finder = OptionFinder(deployment, selection, budget, self.market)
        self.selection = selection
        self._budget = budget
        self._least: dict[object, Cost | None] = {}
        self._offered: dict[tuple[object, ...], Cost] = {}
        self._amounts: dict[object, list[list[Amounts]]] = {}

    def place(
        self, cluster: Cluster, capacities: Sequence[FreeCapacity], pins: Pins | None = None
    ) -> tuple[PlacedEngine, ...] | Misfit:
        """Place every engine in pools of the cluster that have capacity."""
        chosen = self._choose(cluster, capacities, pins)
        return chosen if isinstance(chosen, Misfit) else self._placed(cluster, chosen)

    def least(self, cluster: Cluster) -> Cost | None:
        """Return a cost that no place on the cluster is below by the policy; None if it has no place.

        It is found without regard to free capacity, once for all clusters that are alike.
        """
        key = self._hardware(cluster)
        if key not in self._least:
            self._least[key] = self._find_least(cluster)
        return self._least[key]

    def _find_least(self, cluster: Cluster) -> Cost | None:
        options = self._options(cluster, None)
        if isinstance(options, Misfit):
            return None
        policy = self._policy or PlacementPolicy.SPREAD
        costs = ((self._cost(cluster, each) for each in wanted) for wanted in options)
        return sum((min(each, key=partial(within_cluster, policy)) for each in costs), NOTHING)

    def offer(self, cluster: Cluster, capacities: Sequence[FreeCapacity]) -> Offer | Misfit:
        """Return the place of a new replica, and its cost."""
        chosen = self._choose(cluster, capacities, None)
        if isinstance(chosen, Misfit):
            return chosen
        key = self._hardware(cluster), *map(id, chosen)
        cost = self._offered.get(key)
        if cost is None:
            cost = self._offered[key] = sum((self._cost(cluster, option) for option in chosen), NOTHING)
        return Offer(self._placed(cluster, chosen), cost)

    def ways(self, cluster: Cluster) -> tuple[Way, ...]:
        """Return the choices of options that nothing pins, the cheapest first; none if there are too many.

        The deployment has a policy. Free capacity plays no part.
        """
        options = self._options(cluster, None)
        if self._policy is None or isinstance(options, Misfit) or prod(map(len, options)) > _MOST_WAYS:
            return ()
        costs = self._costs(cluster, options, self._policy)
        ways = (
            Way(tuple(each), tuple(map(sum, zip(*cost, strict=True))))
            for each, cost in zip(product(*options), product(*costs), strict=True)
        )
        return tuple(sorted(ways, key=lambda way: way.amounts))

    def offer_of(self, cluster: Cluster, way: Way) -> Offer:
        """Return the place of a replica that is placed in one of the ways."""
        cost = sum((self._cost(cluster, option) for option in way.options), NOTHING)
        return Offer(self._placed(cluster, way.options), cost)

    def resolve(self, cluster: Cluster, pins: Pins) -> tuple[PlacedEngine, ...] | Misfit:
        """Place every engine in its pinned pools, regardless of capacity."""
        options = self._options(cluster, pins)
        if isinstance(options, Misfit):
            return options
        return self._placed(cluster, [wanted[0] for wanted in options])

    def _choose(
        self, cluster: Cluster, capacities: Sequence[FreeCapacity], pins: Pins | None
    ) -> tuple[Option, ...] | Misfit:
        options = self._options(cluster, pins)
        if isinstance(options, Misfit):
            return options
        chosen = first_fit(options, capacities) or self._search(options, cluster, capacities, pins)
        if pins is not None or self._policy is None or isinstance(chosen, Misfit):
            return chosen
        costs = self._costs(cluster, options, self._policy)
        return best_fit(options, costs, capacities, self._budget) or chosen

    def _costs(
        self, cluster: Cluster, options: Sequence[Sequence[Option]], policy: PlacementPolicy
    ) -> list[list[Amounts]]:
        """Return the costs of the options that nothing pins, found once for all clusters that are alike."""
        key = self._hardware(cluster)
        if key not in self._amounts:
            self._amounts[key] = [
                [within_cluster(policy, self._cost(cluster, each)) for each in wanted] for wanted in options
            ]
        return self._amounts[key]

    def _hardware(self, cluster: Cluster) -> object:
        """Return what decides on the options that nothing pins and their costs, free capacity apart."""
        # Clusters with equal options share one object, which the finder keeps.
        options = id(self._found(cluster, None))
        if not self._currency:
            return options, tuple(each.accounting for each in cluster.pools)
        return options, tuple((each.accounting, each.currency, each.prices) for each in cluster.pools)

    def _cost(self, cluster: Cluster, option: Option) -> Cost:
        costs = (cost_of(cluster.pools[pool], load, self._currency) for pool, load in option.loads)
        return sum(costs, NOTHING)

    def _options(self, cluster: Cluster, pins: Pins | None) -> list[Sequence[Option]] | Misfit:
        options: list[Sequence[Option]] = []
        for engine, found in zip(self._engines, self._found(cluster, pins), strict=True):
            pin = (pins or {}).get(engine.name)
            obeying = found.options if pin is None else _obeying(found.options, cluster, pin)
            if not obeying:
                return misfit.no_option(engine, cluster, found.refused, pin)
            options.append(obeying)
        return options

    def _found(self, cluster: Cluster, pins: Pins | None) -> tuple[EngineOptions, ...]:
        return self._finder.options(cluster.pools, moving=pins is None)

    def _search(
        self,
        options: Sequence[Sequence[Option]],
        cluster: Cluster,
        capacities: Sequence[FreeCapacity],
        pins: Pins | None,
    ) -> tuple[Option, ...] | Misfit:
        """Search for options that fit together; otherwise return the engines without capacity."""
        # Where nothing is pinned, pools with the same hardware and fabric are interchangeable.
        kinds = self._finder.kinds(cluster.pools) if pins is None else tuple(range(len(capacities)))
        search = EngineSearch(options, capacities, kinds, self._budget)
        possible = search.possible()
        for at, fitting in enumerate(possible):
            if not fitting:
                engine, refused = self._engines[at], self._found(cluster, pins)[at].refused
                pin = (pins or {}).get(engine.name)
                return misfit.no_capacity(engine, cluster, refused, options[at], capacities, pin)
        chosen = search.run()
        if chosen is None:
            return misfit.competing(self._engines, cluster, possible, capacities, search.outcome)
        return chosen

    def _placed(self, cluster: Cluster, chosen: Sequence[Option]) -> tuple[PlacedEngine, ...]:
        return tuple(
            _placed(engine, cluster, option) for engine, option in zip(self._engines, chosen, strict=True)
        )


def _obeying(options: Sequence[Option], cluster: Cluster, pin: tuple[str, ...]) -> list[Option]:
    """Return the options in the pinned pools. An engine that becomes a gang stays in its pool."""
    names = [tuple(cluster.pools[pool].name for pool in each.pools) for each in options]
    return [
        option
        for option, pools in zip(options, names, strict=True)
        if pools == (pin if len(pin) == len(pools) else pin[:1] * len(pools))
    ]


def _placed(engine: Engine, cluster: Cluster, option: Option) -> PlacedEngine:
    members = tuple(
        PlacedMember(member.role, cluster.pools[pool].name, member.pods, claim)
        for member, pool, claim in zip(engine.members, option.pools, option.claims, strict=True)
    )
    return PlacedEngine(engine.name, engine.copies, members)

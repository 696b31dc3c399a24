"""Choice of the node pools of one cluster for every engine of a replica.

Where some choice of pools fits, one is found: with a policy, that of the least cost; otherwise the first in
published order, an engine in one pool before one that is in two.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, product
from math import prod
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec

from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.scheduler.capacity_ledger import Ledger
from modelplane.scheduler.free_capacity import FreeCapacity
from modelplane.scheduler.placement import pool_rejections
from modelplane.scheduler.placement.capacity_type import CapacityType
from modelplane.scheduler.placement.cost import Cost, compute_cost, sum_costs
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.placement.engine_options import EngineOptions, Option, OptionFinder
from modelplane.scheduler.placement.placement_policy import rank_choice
from modelplane.scheduler.placement.pool_rejections import PoolRejections
from modelplane.scheduler.search.engine_search import EngineSearch
from modelplane.scheduler.search.fit import Amounts, find_best_fit, find_first_fit
from modelplane.scheduler.search.identity_map import IdentityMap
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Cluster, Deployment, Engine, PlacedEngine, PlacedMember, Pool

_MOST_WAYS: Final = 256
"""Choices of options of one cluster up to which all are compared."""

Pins: TypeAlias = Mapping[str, tuple[str, ...]]
"""The pools that engines must stay in, by the engine's name: one for each member."""


class Offer(NamedTuple):
    """The place that a cluster has for a new replica."""

    engines: tuple[PlacedEngine, ...]
    cost: Cost


class Way(msgspec.Struct, frozen=True):
    """An option of each engine, and their cost as the policy compares it."""

    options: tuple[Option, ...]
    amounts: Amounts


class _Kind(msgspec.Struct, frozen=True):
    """The options of a new replica on clusters whose pools are alike, free capacity apart.

    `options` is None if some engine has none. `costs` are by the identity of the option, `amounts` those that
    the policy compares, in order of the options. No place has a lower cost than `least`.
    """

    found: tuple[EngineOptions, ...]
    options: Sequence[Sequence[Option]] | None
    costs: Mapping[int, Cost]
    amounts: Sequence[Sequence[Amounts]]
    least: Cost | None


class PoolChooser:
    """Chooses pools for replicas of one deployment. `currency` is that in which prices are compared.

    New ones use pools of the `capacity_type` only; without one, those that the deployment allows.
    """

    def __init__(
        self,
        deployment: Deployment,
        selection: Selection,
        budget: SearchBudget,
        currency: str = "",
        capacity_type: CapacityType | None = None,
    ) -> None:
        self._engines = deployment.engines
        self._policy = deployment.policy
        self._currency = currency
        self.capacity_type = capacity_type or deployment.capacity_type
        self._finder = OptionFinder(deployment, selection, budget, self.capacity_type)
        self.selection = selection
        self._budget = budget
        # What of a pool decides on the cost of an option.
        paid = ("accounting", "currency", "prices") if currency else ("accounting",)
        self._pays = attrgetter(*paid)
        self._kinds: dict[object, _Kind] = {}
        self._kind_of: IdentityMap[Sequence[Pool], _Kind] = IdentityMap()

    def place(
        self, cluster: Cluster, capacities: Sequence[FreeCapacity], pins: Pins | None = None
    ) -> tuple[PlacedEngine, ...] | PoolRejections:
        """Place every engine in pools of the cluster that have capacity."""
        options = self._options(cluster, pins)
        chosen = (
            options
            if isinstance(options, PoolRejections)
            else self._choose(options, cluster, capacities, pins)
        )
        return chosen if isinstance(chosen, PoolRejections) else self._placed(cluster, chosen)

    def find_least_cost(self, cluster: Cluster) -> Cost | None:
        """Return a cost that no place on the cluster is below by the policy; None if it has no place.

        It is found without regard to free capacity, once for all clusters that are alike.
        """
        return self._kind(cluster).least

    def find_offer(self, cluster: Cluster, ledger: Ledger) -> Offer | PoolRejections:
        """Return the place of a new replica, and its cost."""
        options = self._options(cluster, None)
        if isinstance(options, PoolRejections):
            return options
        chosen = self._choose(options, cluster, ledger.list_capacities(cluster), None)
        return chosen if isinstance(chosen, PoolRejections) else self.build_offer(cluster, chosen)

    def list_ways(self, cluster: Cluster) -> tuple[Way, ...]:
        """Return the choices of options that nothing pins, the cheapest first; none if there are too many.

        The deployment has a policy. Free capacity plays no part.
        """
        kind = self._kind(cluster)
        options = kind.options
        if self._policy is None or options is None or prod(map(len, options)) > _MOST_WAYS:
            return ()
        ways = (
            Way(tuple(choice), tuple(map(sum, zip(*amounts, strict=True))))
            for choice, amounts in zip(product(*options), product(*kind.amounts), strict=True)
        )
        return tuple(sorted(ways, key=lambda way: way.amounts))

    def resolve(self, cluster: Cluster, pins: Pins) -> tuple[PlacedEngine, ...] | PoolRejections:
        """Place every engine in its pinned pools, regardless of capacity."""
        options = self._options(cluster, pins)
        if isinstance(options, PoolRejections):
            return options
        return self._placed(cluster, [wanted[0] for wanted in options])

    def _choose(
        self,
        options: Sequence[Sequence[Option]],
        cluster: Cluster,
        capacities: Sequence[FreeCapacity],
        pins: Pins | None,
    ) -> tuple[Option, ...] | PoolRejections:
        chosen = find_first_fit(options, capacities) or self._search(options, cluster, capacities, pins)
        if pins is not None or self._policy is None or isinstance(chosen, PoolRejections):
            return chosen
        return find_best_fit(options, self._kind(cluster).amounts, capacities, self._budget) or chosen

    def build_offer(self, cluster: Cluster, chosen: Sequence[Option]) -> Offer:
        """Return the place of a replica with the chosen option of each engine."""
        costs = self._kind(cluster).costs
        return Offer(self._placed(cluster, chosen), sum_costs(costs[id(option)] for option in chosen))

    def _kind(self, cluster: Cluster) -> _Kind:
        kind = self._kind_of.get(cluster.pools)
        if kind is None:
            pools = self._finder.find_kinds(cluster.pools)
            key = pools, tuple(map(self._pays, cluster.pools))
            kind = self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = self._priced(
                    cluster, self._finder.find_for_new(cluster.pools, pools)
                )
            self._kind_of.setdefault(cluster.pools, kind)
        return kind

    def _priced(self, cluster: Cluster, options_of_engines: tuple[EngineOptions, ...]) -> _Kind:
        options = [options_of_engine.options for options_of_engine in options_of_engines]
        if not all(options):
            return _Kind(options_of_engines, None, {}, (), None)
        policy = self._policy or PlacementPolicy.SPREAD
        costs = [[self._cost(cluster, option) for option in wanted] for wanted in options]
        return _Kind(
            options_of_engines,
            options,
            {id(option): cost for option, cost in zip(chain(*options), chain(*costs), strict=True)},
            [[rank_choice(policy, cost) for cost in row] for row in costs],
            sum_costs(min(row, key=partial(rank_choice, policy)) for row in costs),
        )

    def _cost(self, cluster: Cluster, option: Option) -> Cost:
        if len(option.loads) == 1:
            ((pool, load),) = option.loads
            return compute_cost(cluster.pools[pool], load, self._currency)
        return sum_costs(
            compute_cost(cluster.pools[pool], load, self._currency) for pool, load in option.loads
        )

    def _options(self, cluster: Cluster, pins: Pins | None) -> Sequence[Sequence[Option]] | PoolRejections:
        if pins is None:
            kind = self._kind(cluster)
            if kind.options is not None:
                return kind.options
            every = kind.found
        else:
            every = self._finder.find_for_existing(cluster.pools)
        options: list[Sequence[Option]] = []
        for engine, found in zip(self._engines, every, strict=True):
            pin = (pins or {}).get(engine.name)
            obeying = found.options if pin is None else _obeying(found.options, cluster, pin)
            if not obeying:
                return pool_rejections.explain_no_option(engine, cluster, found.refused, pin)
            options.append(obeying)
        return options

    def _search(
        self,
        options: Sequence[Sequence[Option]],
        cluster: Cluster,
        capacities: Sequence[FreeCapacity],
        pins: Pins | None,
    ) -> tuple[Option, ...] | PoolRejections:
        """Search for options that fit together; otherwise return the engines without capacity."""
        # Where nothing is pinned, pools with the same hardware and fabric are interchangeable.
        kinds = self._finder.find_kinds(cluster.pools) if pins is None else tuple(range(len(capacities)))
        search = EngineSearch(options, capacities, kinds, self._budget)
        possible = search.find_possible()
        for at, fitting in enumerate(possible):
            if not fitting:
                engine, finder = self._engines[at], self._finder
                every = self._kind(cluster).found if pins is None else finder.find_for_existing(cluster.pools)
                return pool_rejections.explain_no_capacity(
                    engine, cluster, every[at].refused, options[at], capacities, (pins or {}).get(engine.name)
                )
        chosen = search.run()
        if chosen is None:
            return pool_rejections.explain_competition(
                self._engines, cluster, possible, capacities, search.outcome
            )
        return chosen

    def _placed(self, cluster: Cluster, chosen: Sequence[Option]) -> tuple[PlacedEngine, ...]:
        return tuple(
            _placed(engine, cluster, option) for engine, option in zip(self._engines, chosen, strict=True)
        )


def _obeying(options: Sequence[Option], cluster: Cluster, pin: tuple[str, ...]) -> list[Option]:
    """Return the options in the pinned pools. An engine that becomes a gang stays in its pool."""
    names = [tuple(cluster.pools[pool].name for pool in option.pools) for option in options]
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

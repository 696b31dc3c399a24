"""Alternatives: the clusters that would take one more replica, where on them, and at what cost."""

import msgspec

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.placement.cost import Cost, rank_cluster
from modelplane.scheduler.placement.placer import Offer
from modelplane.scheduler.placement.spot import find_spot_pools
from modelplane.scheduler.preemption.turns import find_turns
from modelplane.scheduler.types import Deployment, Fleet, PlacedEngine


class Alternative(msgspec.Struct, frozen=True):
    """A place for one more replica."""

    cluster: str
    engines: tuple[PlacedEngine, ...]
    cost: Cost
    spot: bool = False
    """True if any of its pods would be in a spot pool."""


class Alternatives(msgspec.Struct, frozen=True):
    """The places, in the order of the deployment's policy without regard to spread, and the currency."""

    places: tuple[Alternative, ...]
    currency: str


def list_alternatives(fleet: Fleet, deployment: Deployment) -> Alternatives:
    """Return every place that a fleet has for one more replica, beside those of deployments that come first.

    Raises SelectorError.
    """
    state = CycleState.begin(fleet, deployment, find_turns(fleet, deployment).reservations)
    places = []
    for name, cluster in state.clusters.items():
        offer = state.find_offer(cluster)
        if isinstance(offer, Offer) and not state.quotas.check(cluster, offer.engines):
            places.append(
                Alternative(name, offer.engines, offer.cost, bool(find_spot_pools(cluster, offer.engines)))
            )
    places.sort(key=lambda place: (rank_cluster(deployment.policy, 0, place.cost), place.cluster))
    return Alternatives(tuple(places), state.currency)

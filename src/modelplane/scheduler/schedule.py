"""Placement of one deployment on the fleet: review what exists, choose what stays, fill, explain.

Existing replicas are inputs: none is moved to improve a placement.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.departures import Cause, Role
from modelplane.scheduler.diagnosis import Block, Diagnosis
from modelplane.scheduler.diagnosis_building import add_precedence, diagnose, find_block
from modelplane.scheduler.existing.drain import drain
from modelplane.scheduler.existing.eviction import evict_noticed
from modelplane.scheduler.existing.retention import Kept, Leaving, depart, give_way, hold, retain, unpin
from modelplane.scheduler.existing.roster import Roster, count_surge, find_added, list_pinned, may_stand_in
from modelplane.scheduler.placement.cluster_choice import Indices
from modelplane.scheduler.placement.cost import Cost
from modelplane.scheduler.placement.demand_filling import Filling, Short
from modelplane.scheduler.placement.placement_policy import rank_cluster
from modelplane.scheduler.placement.placement_result import Assignment, Dropped, Placement
from modelplane.scheduler.placement.pool_choice import Offer
from modelplane.scheduler.placement.spot import find_spot_pools
from modelplane.scheduler.preemption import Displacement, find_displacement, find_precedence, list_displaced
from modelplane.scheduler.types import Demand, Deployment, Fleet, PlacedEngine, Surge


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
    state = CycleState.begin(fleet, deployment, find_precedence(fleet, deployment).reservations)
    places = []
    for name, cluster in state.clusters.items():
        offer = state.find_offer(cluster)
        if isinstance(offer, Offer) and not state.quotas.check(cluster, offer.engines):
            places.append(
                Alternative(name, offer.engines, offer.cost, bool(find_spot_pools(cluster, offer.engines)))
            )
    places.sort(key=lambda place: (rank_cluster(deployment.policy, 0, place.cost), place.cluster))
    return Alternatives(tuple(places), state.currency)


def schedule(
    fleet: Fleet, deployment: Deployment, demands: Sequence[Demand] = (), surge: Surge | None = None
) -> Placement:
    """Place every replica of the deployment.

    `demands` are how many replicas there are to be of each revision: the first is that of the deployment's
    template, and all together are as many as it asks for. Without them, all have its template. The result is
    the same in any order of the fleet's clusters and replicas. Raises SelectorError if a selector does not
    compile or the selectors cost too much; the caller then keeps everything as it is.
    """
    cycle = _Cycle(fleet, deployment, demands or (Demand(deployment.replicas),), surge or Surge())
    cycle.review()
    cycle.choose()
    cycle.take_over()
    return cycle.conclude()


class _Cycle:
    """One placement: what it decides of existing replicas, and the new ones."""

    def __init__(self, fleet: Fleet, deployment: Deployment, demands: Sequence[Demand], surge: Surge) -> None:
        self.fleet, self.deployment, self.demands, self.surge = fleet, deployment, demands, surge
        self.ahead = find_precedence(fleet, deployment)
        self.state = CycleState.begin(fleet, deployment, self.ahead.reservations)
        self.ours = [replica for replica in fleet.replicas if replica.deployment_uid == deployment.uid]
        self.indices = Indices(self.ours)
        self.filling = Filling(self.state, demands, self.indices)

    def review(self) -> None:
        """Decide which existing replicas stay, and which have to leave and why: the first reason counts."""
        state, fleet = self.state, self.fleet
        self.displaced = list_displaced(self.ahead, self.ours)
        there = [replica for replica in self.ours if replica.name not in self.displaced]
        decisions = retain(state, there, {name for demand in self.demands for name in demand.pinned})
        decisions = give_way(state, decisions, fleet.replicas)
        decisions = evict_noticed(state, decisions, fleet)
        decisions = drain(state, decisions, fleet)
        hold(decisions, state.ledger)
        decisions += [
            depart(replica, Cause.PREEMPTED, self.displaced[replica.name])
            for replica in self.ours
            if replica.name in self.displaced
        ]
        self.roster = Roster.sort(decisions)
        staying = [leaving.replica for leaving in self.roster.leaving]
        staying += [kept.replica for kept in self.roster.kept]
        self.index = {replica.name: self.indices.keep(replica) for replica in staying}

    def choose(self) -> None:
        """Choose which replicas stay, and place the missing ones: first those that are not in addition."""
        state, roster, filling, wanted = self.state, self.roster, self.filling, self.deployment.replicas
        # Those of a canary beyond what its step needs go first, as do surge replicas after their rollout.
        excess = _find_excess(roster.kept, self.demands)
        in_addition = {replica.name for replica in self.ours if self.surge.most and replica.surge}
        if not self.surge.most:
            roster.replace_pinned(state, wanted, self.demands)
        base = roster.list_staying(state, wanted, excess | in_addition)
        filling.fill(wanted - len(base), base)
        extra, new = self._count_extra(base), len(filling.placed)
        staying = base
        if extra or (self.surge.most and may_stand_in(self.ours, base, excess)):
            roster.replace_pinned(state, wanted + extra, self.demands)
            staying = roster.list_staying(state, wanted + extra, excess)
        # Replicas that are not seen may be more than asked for.
        there = len(staying) - min(len(base), wanted)
        self.surge_short = filling.place(0, extra - there, staying)
        self.base, self.extra, self.regular_new = base, extra, new
        roster.dismiss(staying)

    def _count_extra(self, base: Sequence[Kept]) -> int:
        """Return how many replicas there are to be in addition; for a canary no more than it lacks."""
        most = self.surge.most
        if len(self.demands) > 1:
            most = min(most, self.filling.count_lacking(base))
        names = {kept.replica.name for kept in base}
        standing = sum(kept.replica.surge and kept.replica.name not in names for kept in self.roster.kept)
        return count_surge(self.surge, most, base, len(self.filling.placed), standing) if most else 0

    def take_over(self) -> None:
        """Let the canary take over pinned replicas, as many as it lacks without them.

        The places that were meant for the canary then go to replicas beside it.
        """
        if len(self.demands) < 2 or self.surge.paused:
            return
        roster, filling = self.roster, self.filling
        before = list(roster.kept)
        # One that leaves for another reason is taken over first, without a further move.
        existing: list[Kept | Leaving] = [*before, *roster.leaving]
        pinned = list_pinned(existing, self.demands[1])
        taken = [kept for kept in pinned[: filling.count_lacking(before)] if isinstance(kept, Kept)]
        leaving: list[Leaving] = []
        for kept in taken:
            decision = unpin(self.state, kept)
            roster.kept.remove(kept)
            if isinstance(decision, Leaving):
                leaving.append(decision)
            else:
                roster.kept.append(decision)
        filling.add(0, len(leaving), roster.kept)
        if taken:
            self.surge_short = None
            filling.add(1, self.deployment.replicas - len(before) - len(filling.placed), before)
        roster.leaving += leaving

    def conclude(self) -> Placement:
        """Return the placement, with its diagnosis."""
        roster, filling, wanted = self.roster, self.filling, self.deployment.replicas
        beyond = len(roster.kept) + len(filling.placed) - wanted if self.extra else 0
        added = find_added(roster.kept, self.base, filling.placed[self.regular_new :], beyond)
        regular = [kept for kept in roster.kept if (kept.replica.cluster, kept.replica.index) not in added]
        roster.relieve(self.state, regular)
        new = tuple(place for place, _ in filling.placed if (place.cluster, place.index) not in added)
        is_short = len(regular) + len(new) < wanted
        short = filling.find_short(is_short=is_short)
        short = replace(short, filled=replace(short.filled, placed=new))
        displacement = None
        if (
            is_short
            and filling.short
            and self.ahead.may_displace
            and find_block(short.state)[0] is Block.NONE
        ):
            absent = min(wanted - len(regular), wanted - sum(not replica.deleting for replica in self.ours))
            displacement = find_displacement(short.state, self.fleet, short.filled, absent)
        existing: tuple[Kept | Leaving, ...] = (*roster.leaving, *roster.kept)
        assignments = (
            *(_assign(decision, self.index[decision.replica.name]) for decision in existing),
            *(Assignment(new.cluster, new.index, new.engines, demand=at) for new, at in filling.placed),
        )
        marked = (
            replace(assignment, surge=assignment.key in added and assignment.role is not Role.LEAVES)
            for assignment in assignments
        )
        return Placement(
            tuple(
                sorted(
                    (self._priced(assignment) for assignment in marked),
                    key=lambda assignment: (assignment.cluster, assignment.index, assignment.replica),
                )
            ),
            tuple(
                Dropped(gone.replica.name, gone.replica.cluster, gone.replica.index, gone.reason, gone.cause)
                for gone in sorted(roster.gone, key=lambda gone: gone.replica.name)
            ),
            self._explain(short, regular, displacement),
            self.state.currency,
            displaces=displacement.present if displacement else (),
            surge_problem=self._explain_surge(),
            blocked=filling.blocked,
        )

    def _explain(
        self, short: Short, kept: Sequence[Kept], displacement: Displacement | None = None
    ) -> Diagnosis:
        diagnosis = diagnose(short.state, kept, self.roster.leaving, short.filled)
        return add_precedence(diagnosis, self.ahead, self.displaced, displacement)

    def _explain_surge(self) -> str:
        """Return why fewer replicas are placed in addition than there are to be; empty if none is missing."""
        if self.surge_short is None:
            return ""
        state = self.surge_short.state
        more = replace(state.deployment, replicas=self.deployment.replicas + self.extra)
        placed = tuple(new for new, _ in self.filling.placed)
        filled = replace(self.surge_short.filled, placed=placed)
        return self._explain(Short(replace(state, deployment=more), filled), self.roster.kept).describe()

    def _priced(self, assignment: Assignment) -> Assignment:
        state = self.state
        cluster = state.clusters.get(assignment.cluster)
        if cluster is None:
            return assignment
        if spot := find_spot_pools(cluster, assignment.engines):
            assignment = replace(assignment, spot_pools=spot)
        if not state.currency:
            return assignment
        cost = state.ledger.compute_cost(cluster, assignment.engines, state.currency)
        return replace(assignment, cost=cost)


def _find_excess(kept: Sequence[Kept], demands: Sequence[Demand]) -> frozenset[str]:
    """Return the replicas of a canary beyond those that its step needs: those that serve are not among them.

    Else the replicas that are left could all have the new revision, without a decision.
    """
    if len(demands) < 2:
        return frozenset()
    new = [decision.replica for decision in kept if decision.replica.name in demands[0].replicas]
    new.sort(key=lambda replica: (not replica.serves, not replica.answers, replica.name))
    return frozenset(replica.name for replica in new[demands[0].count :])


def _assign(decision: Kept | Leaving, index: int) -> Assignment:
    replica = decision.replica
    if isinstance(decision, Kept):
        engines, role, cause = decision.engines, decision.role, decision.waits_for
    else:
        engines, role, cause = replica.engines, Role.LEAVES, decision.cause
    return Assignment(replica.cluster, index, engines, role, replica.name, decision.reason, cause)

"""Roster: which of the existing replicas stay, beside how many in addition, and which are too many.

Replicas in addition are those of a rollout's surge, beyond those that the deployment asks for.
"""

from collections.abc import Container, Iterable, Sequence
from typing import TypeVar

import msgspec

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.departures import Cause, Role
from modelplane.scheduler.existing import failover
from modelplane.scheduler.existing.retention import Gone, Kept, Leaving, RetentionDecision, mark_leaving
from modelplane.scheduler.existing.scale_down import choose_victims, find_surplus
from modelplane.scheduler.placement.cluster_choice import New
from modelplane.scheduler.types import Demand, Replica, Surge


class Roster(msgspec.Struct):
    """The existing replicas of a deployment: those that stay, those that leave, and those that go."""

    kept: list[Kept]
    leaving: list[Leaving]
    gone: list[Gone]

    @classmethod
    def sort(cls, decisions: Iterable[RetentionDecision]) -> "Roster":
        """Sort decisions by what they are."""
        roster = cls([], [], [])
        for decision in decisions:
            if isinstance(decision, Kept):
                roster.kept.append(decision)
            elif isinstance(decision, Leaving):
                roster.leaving.append(decision)
            else:
                roster.gone.append(decision)
        return roster

    def list_staying(self, state: CycleState, count: int, first: Container[str]) -> list[Kept]:
        """Return the kept ones without those beyond a number, of which those in `first` go before others."""
        surplus = find_surplus(state, [kept.replica for kept in self.kept], count, first)
        return [kept for kept in self.kept if kept.replica not in surplus]

    def replace_pinned(self, state: CycleState, count: int, demands: Sequence[Demand]) -> None:
        """Let pinned replicas beyond a number leave, as far as those of the first demand replace them."""
        if len(demands) < 2 or not demands[1].pinned:
            return
        new = sum(kept.replica.name in demands[0].replicas for kept in self.kept)
        certain = sum(failover.is_known(state, kept.replica) for kept in self.kept)
        pinned = [kept for kept in self.kept if kept.role is Role.PINNED]
        for kept in list_pinned(pinned, demands[1])[: max(0, min(certain - count, new, demands[0].count))]:
            why = "replaced by a replica with the new template"
            self.kept.remove(kept)
            self.leaving.append(mark_leaving(state, kept, Cause.REPLACED, why))

    def dismiss(self, staying: Sequence[Kept]) -> None:
        """Let all go that are kept and do not stay."""
        names = {kept.replica.name for kept in staying}
        surplus = (kept.replica for kept in self.kept if kept.replica.name not in names)
        self.gone += [Gone(replica, Cause.SURPLUS, "scaled down") for replica in surplus]
        self.kept = list(staying)

    def relieve(self, state: CycleState, regular: Iterable[Kept]) -> None:
        """Let those go that leave and are not needed: enough others are known to serve.

        Those of them that serve stay longest.
        """
        serving = sum(failover.is_serving(state, kept.replica) for kept in regular)
        needed = max(state.deployment.replicas - serving, 0)
        known = [leaving for leaving in self.leaving if failover.is_known(state, leaving.replica)]
        going = choose_victims([leaving.replica for leaving in known], len(known) - needed)
        for leaving in [leaving for leaving in known if leaving.replica in going]:
            self.leaving.remove(leaving)
            self.gone.append(Gone(leaving.replica, leaving.cause, "no longer fits, and no longer needed"))


_Existing = TypeVar("_Existing", bound=Kept | Leaving)


def list_pinned(decisions: Iterable[_Existing], demand: Demand) -> list[_Existing]:
    """Return the pinned ones in the order in which another demand takes them over."""
    by_name = {decision.replica.name: decision for decision in decisions}
    return [by_name[name] for name in demand.pinned if name in by_name]


def count_surge(surge: Surge, most: int, base: Sequence[Kept], new: int, standing: int) -> int:
    """Return how many replicas there are to be in addition, and at most so many.

    `base` are those that stay without them, beside `new` ones; `standing` exist. New ones are placed only
    for an edit. Those that exist stay until every replica has it and serves.
    """
    unfinished = sum(kept.is_stale or not kept.replica.serves for kept in base) + new
    if not unfinished:
        return 0
    begun = unfinished if any(kept.is_stale for kept in base) and not surge.paused else 0
    return min(most, max(begun, standing))


def may_stand_in(ours: Iterable[Replica], base: Sequence[Kept], first: Container[str]) -> bool:
    """Return True if a surge replica that serves would go before a replica that does not."""
    names = {kept.replica.name for kept in base}
    return not all(kept.replica.serves for kept in base) and any(
        replica.surge and replica.serves and replica.name not in names and replica.name not in first
        for replica in ours
    )


def find_added(
    staying: Sequence[Kept], base: Sequence[Kept], placed: Sequence[tuple[New, int]], count: int
) -> frozenset[tuple[str, int]]:
    """Return the cluster and index of the replicas in addition, of which there are to be so many.

    They are those that stay beside the `base`, and were in addition before if possible, and new ones.
    """
    names = {kept.replica.name for kept in base}
    there = [kept.replica for kept in staying if kept.replica.name not in names]
    there.sort(key=lambda replica: (not replica.surge, replica.cluster, replica.index))
    keys = [(replica.cluster, replica.index) for replica in there]
    keys += [(new.cluster, new.index) for new, _ in placed]
    return frozenset(keys[: max(0, count)])

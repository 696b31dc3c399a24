"""New replicas of a placement: one demand (revision) after the other, on what the ones before leave."""

from collections.abc import Sequence

import msgspec

from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.diagnosis import Block
from modelplane.scheduler.diagnosis_building import find_block
from modelplane.scheduler.existing.retention import Kept
from modelplane.scheduler.placement.cluster_choice import Filled, Indices, New, choose_clusters
from modelplane.scheduler.types import Demand


class Short(msgspec.Struct, frozen=True):
    """A demand for which some replicas have no place, in the state of its template, and the refusals."""

    state: CycleState
    filled: Filled


class Filling:
    """Places new replicas, and remembers what was placed for which demand and which were refused."""

    def __init__(self, state: CycleState, demands: Sequence[Demand], indices: Indices) -> None:
        """Begin without new replicas. Raises SelectorError."""
        self._states = [state.for_template(demand.template) for demand in demands]
        self._demands, self._indices = demands, indices
        self.placed: list[tuple[New, int]] = []
        """The new replicas, each with the position of its demand."""
        self.short: dict[int, Short] = {}
        """The demands for which some have no place, by position."""
        self.blocked = 0
        """Replicas that are not placed, because the template of their demand is not known."""

    def count_lacking(self, staying: Sequence[Kept]) -> int:
        """Return how many replicas the first of two demands lacks beside those that stay."""
        first = self._demands[0]
        there = sum(kept.replica.name in first.replicas for kept in staying)
        return max(0, first.count - there - sum(not at for _, at in self.placed))

    def fill(self, count: int, staying: Sequence[Kept]) -> None:
        """Place so many replicas: as many as the first demand lacks, and the others for the second one."""
        lacking = count
        if len(self._demands) > 1:
            lacking = min(count, self.count_lacking(staying))
        self.add(0, lacking, staying)
        self.add(1, count - lacking, staying)

    def add(self, at: int, count: int, staying: Sequence[Kept]) -> None:
        """Place so many replicas for the demand at a position, and remember why some have no place."""
        if short := self.place(at, count, staying):
            self.short[at] = short

    def place(self, at: int, count: int, staying: Sequence[Kept]) -> Short | None:
        """Place so many replicas for the demand at a position; return why some have no place."""
        if count <= 0:
            return None
        if self._demands[at].blocked:
            self.blocked += count
            return None
        state, filled = self._states[at], Filled()
        if find_block(state)[0] is Block.NONE:
            occupied = [(kept.replica.cluster, kept.engines) for kept in staying]
            occupied += [(new.cluster, new.engines) for new, _ in self.placed]
            filled = choose_clusters(state, count, self._indices, occupied)
        self.placed += [(new, at) for new in filled.placed]
        return Short(state, filled) if len(filled.placed) < count else None

    def find_short(self, *, is_short: bool) -> Short:
        """Return the demand for which some have no place, the last one first.

        Unless the deployment is short of replicas, nothing is refused.
        """
        found = self.short.get(1) or self.short.get(0) if is_short else None
        return found or Short(self._states[0], Filled())

"""Spending: the cost of all replicas of a deployment, against its limit."""

from collections.abc import Iterable

from modelplane.api import money
from modelplane.scheduler.cycle_state import CycleState
from modelplane.scheduler.existing.retention import Kept
from modelplane.scheduler.placement.cost import Cost
from modelplane.scheduler.verdict import Reason, Rejected


class Spending:
    """The cost of the replicas that stay, and of those that are added. Those that leave do not count."""

    def __init__(self, state: CycleState, staying: Iterable[Kept]) -> None:
        self._most = state.deployment.most_per_hour
        self._currency = state.currency
        self.spent = 0
        if self._most is not None:
            self.spent = sum(
                state.ledger.cost(state.clusters[each.replica.cluster], each.engines, self._currency).price
                for each in staying
            )

    @property
    def left(self) -> int | None:
        """Amount that may be spent; None without a limit."""
        return None if self._most is None else self._most - self.spent

    def add(self, cost: Cost) -> None:
        """Count a new replica."""
        self.spent += cost.price

    def refusal(self, cost: Cost) -> Rejected | None:
        """Return why a replica may not be added; None if it may."""
        if self._most is None:
            return None
        if cost.unpriced:
            return Rejected(Reason.NO_PRICE, self._currency)
        wanted = self.spent + cost.price
        if wanted <= self._most:
            return None
        return Rejected(
            Reason.TOO_EXPENSIVE,
            detail=f"{money.amount_of(cost.price)} {self._currency} an hour, of which "
            f"{money.amount_of(max(self._most - self.spent, 0))} are left",
            remedy=f"raise maxCostPerHour to {money.amount_of(wanted)}",
        )

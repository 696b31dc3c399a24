"""State of one scheduling cycle, shared by its steps."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from modelplane.api.rejected import Rejected
from modelplane.scheduler.capacity_ledger import Ledger
from modelplane.scheduler.filters import admit
from modelplane.scheduler.placement.capacity_type import CapacityType
from modelplane.scheduler.placement.cost import choose_currency
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.placement.pool_choice import Offer, PoolChooser
from modelplane.scheduler.placement.pool_rejections import PoolRejections
from modelplane.scheduler.quota_ledger import QuotaLedger, Reservation
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Cluster, Deployment, Fleet, Template


class CycleState(msgspec.Struct, frozen=True):
    """The deployment to place, the clusters by name, and the ledgers and chooser of this cycle.

    Prices are compared in `currency`.
    """

    deployment: Deployment
    clusters: Mapping[str, Cluster]
    chooser: PoolChooser
    ledger: Ledger
    budget: SearchBudget
    quotas: QuotaLedger
    reservations: Sequence[Reservation] = ()
    currency: str = ""

    def find_offer(self, cluster: Cluster) -> Offer | Rejected | PoolRejections:
        """Return the place of a new replica on a cluster, or why there is none."""
        return admit(self.deployment, cluster) or self.chooser.find_offer(cluster, self.ledger)

    def for_template(self, template: Template | None) -> "CycleState":
        """Return the same cycle, in which new replicas have another template. Raises SelectorError."""
        if template is None:
            return self
        deployment = replace(self.deployment, **msgspec.structs.asdict(template))
        return replace(
            self,
            deployment=deployment,
            chooser=PoolChooser(deployment, Selection(self.budget, deployment), self.budget, self.currency),
        )

    def limit_to(self, capacity_type: CapacityType) -> "CycleState":
        """Return the same cycle, in which new replicas use other pools."""
        if capacity_type is self.chooser.capacity_type:
            return self
        chooser = PoolChooser(
            self.deployment, self.chooser.selection, self.budget, self.currency, capacity_type
        )
        return replace(self, chooser=chooser)

    @classmethod
    def begin(
        cls,
        fleet: Fleet,
        deployment: Deployment,
        reservations: Sequence[Reservation] = (),
        budget: SearchBudget | None = None,
    ) -> "CycleState":
        """Return the state before the first step, with the capacity taken of what is reserved for others.

        Raises SelectorError.
        """
        budget = budget or SearchBudget()
        selection = Selection(budget, deployment)
        currency = choose_currency(fleet.clusters, deployment.currency)
        ledger = Ledger(fleet.replicas, selection, budget)
        for reservation in reservations:
            ledger.charge(reservation.cluster, reservation.engines, reservation.beyond)
        return cls(
            deployment,
            {cluster.name: cluster for cluster in fleet.clusters},
            PoolChooser(deployment, selection, budget, currency),
            ledger,
            budget,
            QuotaLedger(fleet, deployment.namespace, ledger, reservations),
            tuple(reservations),
            currency,
        )

"""Capacity types: which of spot and on-demand pools a deployment allows for new replicas."""

from enum import StrEnum

import msgspec

from modelplane.api.fields.deployment.placement_settings import SpotFallback


class CapacityType(StrEnum):
    """Pools of which a new replica may use some."""

    ANY = "any"
    ON_DEMAND = "on demand"
    SPOT = "spot"


class Spot(msgspec.Struct, frozen=True):
    """Consent to spot pools, with the number of replicas that are on others, and the place without room."""

    base_on_demand: int = 0
    fallback: SpotFallback = SpotFallback.ON_DEMAND

    @property
    def capacity_type(self) -> CapacityType:
        """The pools of the replicas that need not be on demand."""
        return CapacityType.SPOT if self.fallback is SpotFallback.NONE else CapacityType.ANY

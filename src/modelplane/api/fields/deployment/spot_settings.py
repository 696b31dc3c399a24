"""Placement on spot pools: a deployment's consent, and the replicas that it keeps off them."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.meta import Model
from modelplane.api.schema.fields import about


class SpotFallback(StrEnum):
    """The place of a replica for which spot pools have no room."""

    ON_DEMAND = "OnDemand"
    NONE = "None"


class SpotSettings(Model):
    """Placement on spot pools. A replica is on spot if any of its pods is."""

    base_on_demand: Annotated[
        int, about("Number of replicas that are not on spot pools, as far as they fit.", ge=0, le=10000)
    ] = 0
    fallback: Annotated[
        SpotFallback,
        about(
            "Place of the other replicas if spot pools have no room. OnDemand: other pools. None: they wait."
        ),
    ] = SpotFallback.ON_DEMAND

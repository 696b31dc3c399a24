"""Placement settings of a deployment: the choice between feasible places, and its limits."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.fields.cluster.device_prices import Currency
from modelplane.api.fields.deployment.spot_settings import SpotSettings
from modelplane.api.fields.requests.budgets import AMOUNT, MAX_AMOUNT
from modelplane.api.meta import Model
from modelplane.api.schema.fields import Rule, about


class PlacementPolicy(StrEnum):
    """Choice between feasible clusters, and between feasible pools of a cluster."""

    SPREAD = "Spread"
    PACK = "Pack"
    CHEAPEST = "Cheapest"


class PlacementSettings(Model):
    """Choice between feasible places. It applies to new replicas: none is moved."""

    __rules__ = (
        Rule(
            "!has(self.maxCostPerHour) || has(self.currency)",
            "currency is required with maxCostPerHour",
        ),
    )

    policy: (
        Annotated[
            PlacementPolicy,
            about(
                "Spread: the cluster with the fewest replicas of this deployment. Pack: the one with the "
                "most. Cheapest: the one with the lowest price. On a tie the one where the fewest devices "
                "become unusable for others, and then the lowest price. Absent: Spread, and within a cluster "
                "the first pool that fits."
            ),
        ]
        | None
    ) = None
    max_cost_per_hour: (
        Annotated[
            str,
            about(
                "Most that all replicas may cost an hour. A replica that would cost more, or whose price is "
                'not known, is not placed. Such as "12.50".',
                max_length=MAX_AMOUNT,
                pattern=AMOUNT,
            ),
        ]
        | None
    ) = None
    currency: (
        Annotated[
            Currency,
            about(
                "Currency of the prices to compare; others count as not known. Absent: that of most pools."
            ),
        ]
        | None
    ) = None
    spot: (
        Annotated[
            SpotSettings,
            about(
                "Lets replicas be placed on spot pools, whose nodes the cloud takes back at any time. "
                "Absent: they are not."
            ),
        ]
        | None
    ) = None

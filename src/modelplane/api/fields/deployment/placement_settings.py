"""Placement settings of a deployment: the choice between feasible places, its limits, spot and failover."""

from enum import StrEnum
from typing import Annotated

from modelplane.api.fields.cluster.devices import Currency
from modelplane.api.fields.requests.pricing import AMOUNT, MAX_AMOUNT
from modelplane.api.meta import Model
from modelplane.api.schema.fields import Rule, about

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_AFTER = Rule(
    "duration(self) >= duration('10s') && duration(self) <= duration('24h')",
    "after must be from 10s to 24h",
)


class FailoverSettings(Model):
    """Conditions for replacing replicas on lost clusters."""

    after: Annotated[
        str,
        about(
            "How long a cluster must be lost before its replicas are replaced. A cluster is lost "
            "while neither its API server nor its replicas answer. Only time in which a "
            "controller is running counts. From 10s to 24h, such as 10m.",
            max_length=6,
            pattern=r"^[1-9][0-9]*[smh]$",
            rules=(_AFTER,),
        ),
    ]

    @property
    def after_s(self) -> float:
        """The same in seconds."""
        return int(self.after[:-1]) * _UNITS_S[self.after[-1]]


class LostCluster(Model):
    """A lost cluster."""

    name: Annotated[str, about("Name of the InferenceCluster.")]
    cause: Annotated[str, about("The parts of the cluster that don't answer.")]


class FailoverStatus(Model):
    """Failover in progress."""

    lost_clusters: Annotated[
        tuple[LostCluster, ...],
        about("Lost clusters with replicas to replace.", keys=("name",)),
    ] = ()
    paused: (
        Annotated[str, about("Why no replicas are replaced. Absent while replicas are being replaced.")]
        | None
    ) = None


class SpotFallback(StrEnum):
    """Place of a replica if spot pools have no capacity."""

    ON_DEMAND = "OnDemand"
    NONE = "None"


class SpotSettings(Model):
    """Placement on spot pools. A replica counts as spot if any of its pods is on a spot pool."""

    base_on_demand: Annotated[
        int,
        about("Number of replicas to place outside spot pools, as far as capacity allows.", ge=0, le=10000),
    ] = 0
    fallback: Annotated[
        SpotFallback,
        about(
            "Where to place the other replicas if spot pools have no capacity. OnDemand: on "
            "other pools. None: the replicas wait."
        ),
    ] = SpotFallback.ON_DEMAND


class PlacementPolicy(StrEnum):
    """Preferences among the clusters, and among the pools of a cluster, that fit."""

    SPREAD = "Spread"
    PACK = "Pack"
    CHEAPEST = "Cheapest"


class PlacementSettings(Model):
    """Preferences among the places that fit. Applies to new replicas; existing replicas don't move."""

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
                "How to choose a cluster. Spread: the cluster with the fewest replicas of this "
                "deployment. Pack: the cluster with the most replicas. Cheapest: the cluster with "
                "the lowest price. If several clusters are equal, Modelplane chooses the one where "
                "the fewest devices become unusable for others, then the one with the lowest price. "
                "Default: Spread, and the first pool of the cluster that fits."
            ),
        ]
        | None
    ) = None
    max_cost_per_hour: (
        Annotated[
            str,
            about(
                'Maximum cost of all replicas per hour, such as "12.50". A replica that would exceed '
                "the maximum, or that has no known price, is not placed.",
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
                "Currency of the prices to compare. Prices in other currencies count as unknown. "
                "Default: the currency of most pools."
            ),
        ]
        | None
    ) = None
    spot: (
        Annotated[
            SpotSettings,
            about(
                "Allows placement on spot pools, which the cloud can reclaim at any time. Default: "
                "no replicas on spot pools."
            ),
        ]
        | None
    ) = None

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
    """Replacement of replicas on lost clusters."""

    after: Annotated[
        str,
        about(
            "Time for which a cluster must be lost before its replicas are replaced: neither its API server "
            "nor its replicas answer. It counts only while a controller watches. From 10s to 24h, such as "
            "10m.",
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
    cause: Annotated[str, about("What does not answer.")]


class FailoverStatus(Model):
    """Failover in progress."""

    lost_clusters: Annotated[
        tuple[LostCluster, ...],
        about("Lost clusters whose replicas are replaced.", keys=("name",)),
    ] = ()
    paused: Annotated[str, about("Reason for which nothing is replaced. Absent: replicas are.")] | None = None


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
                "Maximum cost of all replicas in an hour. A replica that would cost more, or whose price is "
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

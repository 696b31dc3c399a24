"""Reasons for which filters and placement reject a cluster or a pool.

Every rejection has a reason and the compared values.
"""

from enum import StrEnum
from typing import Final

from modelplane.api.rejected import Rejected
from modelplane.cel import ObservedValue


class Reason(StrEnum):
    """Reasons of rejections, in the order of the filters: a later one is closer to a fit."""

    OUTSIDE_REGIONS = "OutsideRegions"
    CLUSTER_SELECTOR = "ClusterSelector"
    CACHE_FOOTPRINT = "CacheFootprint"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    CORDONED = "Cordoned"
    NOT_READY = "NotReady"
    NO_GATEWAY = "NoGateway"
    MISSING_CAPABILITY = "MissingCapability"
    PODS_NOT_ACCEPTED = "PodsNotAccepted"
    NO_POOLS = "NoPools"
    NO_MATCHING_DEVICE = "NoMatchingDevice"
    TOO_FEW_DEVICES = "TooFewDevices"
    DEVICES_COMPETE = "DevicesCompete"
    NOTHING_TO_CLAIM = "NothingToClaim"
    TOO_FEW_NODES = "TooFewNodes"
    SPOT_BLOCKED = "SpotBlocked"
    NOT_ON_SPOT = "NotOnSpot"
    NOT_ON_DEMAND = "NotOnDemand"
    NO_FREE_NODES = "NoFreeNodes"
    NO_FREE_DEVICES = "NoFreeDevices"
    ENGINES_COMPETE = "EnginesCompete"
    NO_PRICE = "NoPrice"
    TOO_EXPENSIVE = "TooExpensive"
    OVER_QUOTA = "OverQuota"


RANKS: Final[dict[str, int]] = {reason: rank for rank, reason in enumerate(Reason, start=1)}
"""Position of each reason in the order of the filters."""


class NoDevice(Rejected, frozen=True, gc=False):
    """No device of a node passes the selectors of a request, which is the subject.

    ``reads`` are the device values that selectors read before they refused.
    """

    reads: tuple[ObservedValue, ...] = ()
    selectors: tuple[str, ...] = ()

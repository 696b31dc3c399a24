"""Reasons for which filters and placement reject a cluster or a pool, and amounts in their messages.

Every rejection has a reason and the compared values, written so that a reader can compare them. A device's
amount is shown as the device publishes it: with a rounded amount, a selector would match no device, or too
many.
"""

import re
from enum import StrEnum
from fractions import Fraction
from typing import Final

from modelplane.api.rejected import Rejected
from modelplane.api.values import quantity
from modelplane.api.values.quantity import QuantityError
from modelplane.cel import ObservedValue

_WRITTEN: Final = re.compile(r"[+-]?[0-9.]+([A-Za-z]*)", re.ASCII)
_PLACES: Final = 2


def describe_request(asked: str, offered: str) -> str:
    """Return a requested amount, and in parentheses the same amount in the unit of an offered one."""
    unit = _unit(offered)
    if unit is None or _unit(asked) in (unit, None):
        return asked
    exact = Fraction(quantity.parse(asked).nano, quantity.parse(f"1{unit}").nano)
    rounded = round(exact, _PLACES)
    about = "" if rounded == exact else "about "
    shown = f"{float(rounded):.{_PLACES}f}".rstrip("0").rstrip(".")
    return f"{asked} ({about}{shown}{unit})"


def _unit(text: str) -> str | None:
    """Return the suffix of a quantity; None if it has an exponent, or is not a quantity."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    try:
        quantity.parse(text)
        quantity.parse(f"1{match[1]}")
    except QuantityError:
        return None
    return match[1]


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

"""Verdict of a filter on a cluster or a pool: a fit, or a rejection with its reason.

Every rejection has a reason and the compared values.
"""

from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from modelplane.cel import ObservedValue


class Reason(IntEnum):
    """Reasons of rejections, in the order of the filters: a later one is closer to a fit."""

    OUTSIDE_REGIONS = 1
    CLUSTER_SELECTOR = 2
    CACHE_FOOTPRINT = 3
    UNTOLERATED_TAINT = 4
    CORDONED = 5
    NOT_READY = 6
    NO_GATEWAY = 7
    MISSING_CAPABILITY = 8
    PODS_NOT_ACCEPTED = 9
    NO_POOLS = 10
    NO_MATCHING_DEVICE = 11
    TOO_FEW_DEVICES = 12
    DEVICES_COMPETE = 13
    NOTHING_TO_CLAIM = 14
    TOO_FEW_NODES = 15
    SPOT_BLOCKED = 16
    NOT_ON_SPOT = 17
    NOT_ON_DEMAND = 18
    NO_FREE_NODES = 19
    NO_FREE_DEVICES = 20
    ENGINES_COMPETE = 21
    NO_PRICE = 22
    TOO_EXPENSIVE = 23
    OVER_QUOTA = 24


class Fit(msgspec.Struct, frozen=True):
    """The filter accepts."""


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """A rejection. `subject` is the taint or request concerned, `detail` the values compared.

    `reads` are the device values that selectors read before they refused. `remedy` is the change that ends
    the rejection, if the compared values show it. `selectors` are those that no device passed.
    """

    reason: Reason
    subject: str = ""
    detail: str = ""
    reads: tuple[ObservedValue, ...] = ()
    remedy: str = ""
    selectors: tuple[str, ...] = ()


FIT: Final = Fit()
Verdict: TypeAlias = Fit | Rejected

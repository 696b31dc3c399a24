"""Verdict of a filter on a cluster or a pool: a fit, or a rejection with its reason.

Every rejection has a reason and the compared values.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from modelplane.cel import ObservedValue


class Reason(IntEnum):
    """Reasons of rejections, in the order of the filters: a later one is closer to a fit."""

    CLUSTER_SELECTOR = 1
    CACHE_FOOTPRINT = 2
    UNTOLERATED_TAINT = 3
    NOT_READY = 4
    NO_GATEWAY = 5
    MISSING_CAPABILITY = 6
    NO_POOLS = 7
    NO_MATCHING_DEVICE = 8
    TOO_FEW_DEVICES = 9
    DEVICES_COMPETE = 10
    NOTHING_TO_CLAIM = 11
    TOO_FEW_NODES = 12
    NO_FREE_NODES = 13
    NO_FREE_DEVICES = 14
    ENGINES_COMPETE = 15


@dataclass(frozen=True, slots=True)
class Fit:
    """The filter accepts."""


@dataclass(frozen=True, slots=True)
class Rejected:
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

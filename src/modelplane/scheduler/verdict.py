"""What a rule says of a cluster or a pool: it fits, or it is rejected for a reason.

One rule: there is no "no" without a reason and the values that were compared.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from modelplane.cel import Read


class Reason(IntEnum):
    """Why something does not fit, in the order of the rules: a later one was closer to a fit."""

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
    """The rule has nothing against it."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The rule refuses. `subject` is what it is about (a taint, a request), `detail` the values compared.

    `reads` are the device values that selectors looked at before they refused. `remedy` is what would end
    this refusal, where that can be told from what was compared. `selectors` are those that no device passed.
    """

    reason: Reason
    subject: str = ""
    detail: str = ""
    reads: tuple[Read, ...] = ()
    remedy: str = ""
    selectors: tuple[str, ...] = ()


FIT: Final = Fit()
Verdict: TypeAlias = Fit | Rejected

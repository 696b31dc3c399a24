"""Diagnosis: for each cluster and pool, the first rule that refused a replica, with the compared values.

The same state gives the same text in any order of the input: refusals are counted, sorted and cut to three.
A cluster is counted once, under the refusal of the pool that came closest to a fit, by the latest rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from modelplane.api.listing import in_order, listing
from modelplane.api.rejected import Rejected
from modelplane.cel import ObservedValue
from modelplane.scheduler.placement.unmet_conditions import Unmet
from modelplane.scheduler.rejection_reasons import RANKS, NoDevice, Reason

_PROPOSED: Final = 2

PHRASES: Final[dict[str, str]] = {
    Reason.OUTSIDE_REGIONS: "outside the allowed regions",
    Reason.CLUSTER_SELECTOR: "outside the clusterSelector",
    Reason.CACHE_FOOTPRINT: "not covered by the ModelCache",
    Reason.UNTOLERATED_TAINT: "with untolerated taint {subject}",
    Reason.CORDONED: "{subject}",
    Reason.NOT_READY: "not ready",
    Reason.NO_GATEWAY: "without a gateway address",
    Reason.MISSING_CAPABILITY: "without {subject}",
    Reason.PODS_NOT_ACCEPTED: "rejecting the pods",
    Reason.NO_POOLS: "without published pools",
    Reason.NO_MATCHING_DEVICE: 'with no device for "{subject}"',
    Reason.TOO_FEW_DEVICES: 'with too few devices per node for "{subject}"',
    Reason.DEVICES_COMPETE: "with no node that satisfies {subject} together",
    Reason.NOTHING_TO_CLAIM: "without claimable devices for engine {subject}",
    Reason.TOO_FEW_NODES: "with too few nodes for engine {subject}",
    Reason.SPOT_BLOCKED: "with spot pools that are losing nodes",
    Reason.NOT_ON_SPOT: "with spot pools, which {subject}",
    Reason.NOT_ON_DEMAND: "without spot pools, which fallback None requires",
    Reason.NO_FREE_NODES: "without enough free nodes",
    Reason.NO_FREE_DEVICES: "without enough free devices",
    Reason.ENGINES_COMPETE: "without room for engines {subject} at the same time",
    Reason.NO_PRICE: "without a price in {subject}, which maxCostPerHour requires",
    Reason.TOO_EXPENSIVE: "above maxCostPerHour",
    Reason.OVER_QUOTA: "above {subject}",
}


class Block(Enum):
    """Causes for which no new replica of a deployment is placed, whatever the clusters offer."""

    NONE = auto()
    CACHE = auto()
    QUOTA = auto()
    PRIORITY = auto()


class Exclusion(msgspec.Struct, frozen=True):
    """A pool, or, if `pool` is empty, a cluster, that takes no replica, and the first rule against it.

    The remedy of the rejection ends it; another rule may then reject the pool.
    """

    cluster: str
    pool: str
    engine: str
    why: Rejected

    @property
    def reads(self) -> tuple[ObservedValue, ...]:
        """The device values that selectors read before they refused."""
        return self.why.reads if isinstance(self.why, NoDevice) else ()


class Remedy(msgspec.Struct, frozen=True):
    """A change, and the clusters that would then take a replica."""

    change: str
    clusters: tuple[str, ...]

    def __str__(self) -> str:
        if len(self.clusters) < 2:
            return self.change
        return f"{self.change} ({len(self.clusters)} clusters would then fit)"


class Diagnosis(msgspec.Struct, frozen=True):
    """Missing replicas and the reasons.

    `clusters` is the number of clusters; `excluded` are in order of cluster name and published pool, and
    empty unless replicas are missing. `remedies` are the smallest changes that admit one more replica, one
    of each sort, each of them tried. `notes` are further problems of existing replicas. `causes` are the
    conditions that keep every device from a request, by the request's name.
    """

    wanted: int = 0
    placed: int = 0
    clusters: int = 0
    excluded: tuple[Exclusion, ...] = ()
    blocked: str = ""
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()
    causes: Mapping[str, Unmet] = {}
    block: Block = Block.NONE
    """The cause of `blocked`."""
    preempted: bool = False
    """True if replicas leave because deployments of higher priority take their devices."""

    @property
    def unsatisfied(self) -> bool:
        """True if replicas are missing."""
        return self.placed < self.wanted

    def describe(self) -> str:
        """Return the placed replicas and the refusals of the rest on one line; empty if nothing is wrong."""
        parts = []
        if self.unsatisfied:
            parts.append(f"{self.placed} of {self.wanted} replicas placed")
            parts.append(self.blocked or self._refused())
        if self.remedies:
            parts.append(
                f"to place one more, {' or '.join(str(remedy) for remedy in self.remedies[:_PROPOSED])}"
            )
        if self.notes:
            parts.append(in_order(self.notes, separator="; "))
        return "; ".join(parts)

    def _refused(self) -> str:
        if not self.clusters:
            return "there are no clusters"
        groups: dict[tuple[int, str], list[Exclusion]] = {}
        for exclusion in _closest(self.excluded):
            groups.setdefault((RANKS[exclusion.why.reason], exclusion.why.subject), []).append(exclusion)
        ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        items = in_order([self._item(members) for _, members in ordered])
        noun = "cluster" if self.clusters == 1 else "clusters"
        return f"{self.clusters} {noun}: {items}"

    def _item(self, members: Sequence[Exclusion]) -> str:
        """Describe the clusters of one reason and subject."""
        reason, subject = members[0].why.reason, members[0].why.subject
        phrase = f"{len(members)} {PHRASES[reason].format(subject=subject)}"
        names = {member.cluster for member in members}
        same = [
            exclusion
            for exclusion in self.excluded
            if exclusion.cluster in names
            and (exclusion.why.reason, exclusion.why.subject) == (reason, subject)
        ]
        details = {member.why.detail for member in members}
        detail = self._cause(reason, subject, _offered(same), details.pop() if len(details) == 1 else "")
        if not detail:
            return phrase
        place = f"{members[0].cluster}: " if len(members) == 1 else ""
        return f"{phrase} ({place}{detail})"

    def _cause(self, reason: str, subject: str, offered: str, shared: str) -> str:
        """Return the compared values, and the failing condition if they do not show it."""
        cause = self.causes.get(subject) if reason is Reason.NO_MATCHING_DEVICE else None
        if cause is None or (shared and cause.elsewhere) or (offered and not cause.telling):
            return offered or shared
        return f"{cause}; {offered}" if offered else str(cause)


def _closest(excluded: Iterable[Exclusion]) -> list[Exclusion]:
    """Return one exclusion per cluster: the one by the latest rule, of the first pool on a tie."""
    best: dict[str, Exclusion] = {}
    for exclusion in excluded:
        closest = best.get(exclusion.cluster)
        if closest is None or RANKS[exclusion.why.reason] > RANKS[closest.why.reason]:
            best[exclusion.cluster] = exclusion
    return list(best.values())


def _offered(excluded: Iterable[Exclusion]) -> str:
    """Return the values that refused devices offer, by the names that selectors read."""
    reads: dict[str, set[ObservedValue]] = {}
    for exclusion in excluded:
        for read in exclusion.reads:
            reads.setdefault(read.name, set()).add(read)
    return in_order([_values(name, reads[name]) for name in sorted(reads)])


def _values(name: str, reads: Iterable[ObservedValue]) -> str:
    amounts = [(read.quantity, read.text) for read in reads if read.quantity is not None]
    if amounts:
        return f"largest {name} offered is {max(amounts)[1]}"
    return f"{name} offered is {listing({read.text for read in reads})}"

"""Whether the devices of one node can serve every request of a member.

One rule: a request is served whole by one device entry, and what it takes is gone for the next request. Where
some choice of entries serves all requests, one is found: the first in published order that claims something
through DRA, else the first that serves them at all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from modelplane.api.devices import Claim
from modelplane.cel import Match, NoMatch, Quantity
from modelplane.scheduler.effort import Effort, numbered
from modelplane.scheduler.selection import Selection
from modelplane.scheduler.types import Demand, Device, DeviceRequest, ResolvedRequest
from modelplane.scheduler.verdict import Reason, Rejected

# A step here is as long as this many that Effort counts.
_PRICE: Final = 8


@dataclass(frozen=True, slots=True)
class Served:
    """The member's requests can be served. `claims` are those that go through DRA; they make the `demand`."""

    claims: tuple[ResolvedRequest, ...]
    demand: Demand


def devices(
    requests: Sequence[DeviceRequest], entries: Sequence[Device], selection: Selection, effort: Effort
) -> Served | Rejected:
    """Serve all requests from one node's devices."""
    matching = []
    options = []
    for request in requests:
        matches = [entry for entry in range(len(entries)) if selection.matches(request, entries[entry])]
        enough = [entry for entry in matches if entries[entry].count >= request.count]
        if not enough:
            return _unserved(request, [entries[entry] for entry in matches], entries, selection)
        matching.append(matches)
        options.append(enough)
    counts = [request.count for request in requests]
    search = _Search(counts, entries, options, effort)
    chosen = (search.run(claim=True) if search.could_claim else None) or search.run(claim=False)
    if chosen is None:
        return Rejected(Reason.DEVICES_COMPETE, _names(requests), search.outcome)
    claimed = [
        (request, entry, matches)
        for request, entry, matches in zip(requests, chosen, matching, strict=True)
        if entries[entry].claim is Claim.DRA
    ]
    return Served(
        tuple(
            ResolvedRequest(request.name, entries[entry].device_class_name, request.count, request.selectors)
            for request, entry, _ in claimed
        ),
        _demand(
            entries,
            [
                (request.count, entry, _of_class(entries, matches, entries[entry].device_class_name))
                for request, entry, matches in claimed
            ],
        ),
    )


def demand(
    claims: Sequence[ResolvedRequest], entries: Sequence[Device], selection: Selection, effort: Effort
) -> Demand:
    """Return what a pod with these claims takes from a node with these devices.

    Where the devices cannot serve the claims any more, the pod may hold any device of the same class.
    """
    options = [
        _of_class(
            entries,
            (entry for entry in range(len(entries)) if selection.accepts(claim.selectors, entries[entry])),
            claim.device_class_name,
        )
        for claim in claims
    ]
    enough = [
        [entry for entry in option if entries[entry].count >= claim.count]
        for claim, option in zip(claims, options, strict=True)
    ]
    counts = [claim.count for claim in claims]
    chosen = _Search(counts, entries, enough, effort).run(claim=False) if all(enough) else None
    if chosen is None:
        options = [_of_class(entries, range(len(entries)), claim.device_class_name) for claim in claims]
        chosen = (-1,) * len(claims)
    return _demand(entries, list(zip(counts, chosen, options, strict=True)))


def _of_class(entries: Sequence[Device], candidates: Iterable[int], device_class: str) -> list[int]:
    """Return the entries that Kubernetes may allocate from: those behind the class of the claim."""
    return [
        entry
        for entry in candidates
        if entries[entry].claim is Claim.DRA and entries[entry].device_class_name == device_class
    ]


def _demand(entries: Sequence[Device], claimed: Iterable[tuple[int, int, Sequence[int]]]) -> Demand:
    """Return the demand of claims: each a count, the entry chosen (-1 for none), and those it may use."""
    need, may, exact = [0] * len(entries), [0] * len(entries), [True] * len(entries)
    for count, chosen, options in claimed:
        if chosen >= 0:
            need[chosen] += count
        for entry in options:
            may[entry] = min(may[entry] + count, entries[entry].count)
            exact[entry] &= len(options) == 1 and chosen >= 0
    return Demand(tuple(need), tuple(may), tuple(exact))


class _Search:
    """Depth first: requests in order, entries in published order; if that takes too long, the largest first.

    A state is a dead end where the requests that are still to come need more devices than are left for them,
    or where the search from one like it has failed. Entries that may serve the same requests are alike.
    """

    def __init__(
        self,
        counts: Sequence[int],
        entries: Sequence[Device],
        options: Sequence[Sequence[int]],
        effort: Effort,
    ) -> None:
        self._counts = counts
        self._options = options
        self._effort = effort
        self._left = tuple(entry.count for entry in entries)
        self._claimed = [entry.claim is Claim.DRA for entry in entries]
        self._kinds = numbered(
            (claimed, *(entry in option for option in options)) for entry, claimed in enumerate(self._claimed)
        )
        self._order: Sequence[int] = ()
        self._dead: set[tuple[object, ...]] = set()
        self._limit = 0
        self._steps = 0

    @property
    def could_claim(self) -> bool:
        return any(self._claimed[entry] for option in self._options for entry in option)

    @property
    def outcome(self) -> str:
        if self._steps > self._limit:
            return "too many ways to serve them were tried"
        return "each can be served, but not all from one node"

    def run(self, *, claim: bool) -> tuple[int, ...] | None:
        """Return the chosen entry of each request, with at least one claim if wanted."""
        asked = range(len(self._counts))
        for order in (asked, sorted(asked, key=lambda at: (-self._counts[at], len(self._options[at])))):
            chosen = self._in(order, claim=claim)
            if chosen is not None:
                return tuple(entry for _, entry in sorted(zip(order, chosen, strict=True)))
            if self._steps <= self._limit:
                break
        return None

    def _in(self, order: Sequence[int], *, claim: bool) -> tuple[int, ...] | None:
        self._order = order
        self._dead.clear()
        self._steps, self._limit = 0, self._effort.allowance // _PRICE
        chosen = self._from(0, self._left, not claim)
        self._effort.spend(self._steps * _PRICE)
        return chosen

    def _from(self, position: int, left: tuple[int, ...], satisfied: bool) -> tuple[int, ...] | None:
        if position == len(self._order):
            return () if satisfied else None
        self._steps += 1
        alike = (position, satisfied, *sorted(zip(self._kinds, left, strict=True)))
        if alike in self._dead or not self._promising(position, left):
            return None
        request = self._order[position]
        count = self._counts[request]
        for entry in self._options[request]:
            if left[entry] < count:
                continue
            rest = (*left[:entry], left[entry] - count, *left[entry + 1 :])
            chosen = self._from(position + 1, rest, satisfied or self._claimed[entry])
            if chosen is not None:
                return (entry, *chosen)
            if self._steps > self._limit:
                return None
        self._dead.add(alike)
        return None

    def _promising(self, position: int, left: tuple[int, ...]) -> bool:
        to_come = self._order[position:]
        least = min(self._counts[request] for request in to_come)
        if sum(have for have in left if have >= least) < sum(self._counts[request] for request in to_come):
            return False
        return all(
            any(left[entry] >= self._counts[request] for entry in self._options[request])
            for request in to_come
        )


def _unserved(
    request: DeviceRequest, matching: Sequence[Device], entries: Sequence[Device], selection: Selection
) -> Rejected:
    if matching:
        most = max(entry.count for entry in matching)
        return Rejected(
            Reason.TOO_FEW_DEVICES,
            request.name,
            f"{request.count} wanted, at most {most} on a node",
            remedy=f'ask for at most {most} in request "{request.name}"' if most else "",
        )
    if not entries:
        return Rejected(Reason.NO_MATCHING_DEVICE, request.name, "no devices are published")
    refusals = [
        refusal
        for entry in entries
        if not isinstance(refusal := selection.first_refusal(request, entry), Match)
    ]
    reads = tuple(read for refusal in refusals if not refusal.failed for read in refusal.reads)
    # A value that was compared tells more than a device of another kind, on which the selector fails.
    telling = [refusal for refusal in refusals if not refusal.failed] or refusals
    closest = max(telling, key=_closeness)
    return Rejected(
        Reason.NO_MATCHING_DEVICE, request.name, closest.reason, reads, selectors=request.selectors
    )


def _closeness(refusal: NoMatch) -> tuple[int, tuple[Quantity, ...]]:
    """Order refusals by how far the selector came on the device, then by the amounts that it offers."""
    amounts = ((read.name, read.quantity) for read in refusal.reads if read.quantity is not None)
    return len(refusal.reads), tuple(amount for _, amount in sorted(amounts, key=lambda each: each[0]))


def _names(requests: Iterable[DeviceRequest]) -> str:
    return ", ".join(request.name for request in requests)

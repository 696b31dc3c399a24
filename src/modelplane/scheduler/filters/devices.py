"""Whether the devices of one node can serve every request of a member.

One rule: a request is served whole by one device entry, and what it takes is gone for the next request. Where
some choice of entries serves all requests, one is found: the first in published order that claims something
through DRA, else the first that serves them at all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modelplane.api.devices import Claim
from modelplane.cel import Match
from modelplane.scheduler.demand import Demand
from modelplane.scheduler.deployment import DeviceRequest
from modelplane.scheduler.device import Device
from modelplane.scheduler.replica import ResolvedRequest
from modelplane.scheduler.selection import Selection
from modelplane.scheduler.verdict import Reason, Rejected

# Sixteen requests over sixteen entries could be tried for ever; what takes this long is refused, and says so.
_MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Served:
    """The member's requests can be served. `claims` are those that go through DRA; they make the `demand`."""

    claims: tuple[ResolvedRequest, ...]
    demand: Demand


def devices(
    requests: Sequence[DeviceRequest], entries: Sequence[Device], selection: Selection
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
    search = _Search(counts, entries, options)
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


def demand(claims: Sequence[ResolvedRequest], entries: Sequence[Device], selection: Selection) -> Demand:
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
    chosen = _Search(counts, entries, enough).run(claim=False) if all(enough) else None
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
    """Depth first: requests in order, entries in published order; dead ends are remembered."""

    def __init__(
        self, counts: Sequence[int], entries: Sequence[Device], options: Sequence[Sequence[int]]
    ) -> None:
        self._counts = counts
        self._entries = entries
        self._options = options
        self._dead: set[tuple[int, tuple[int, ...], bool]] = set()
        self._steps = 0

    @property
    def could_claim(self) -> bool:
        return any(self._entries[entry].claim is Claim.DRA for option in self._options for entry in option)

    @property
    def outcome(self) -> str:
        if self._steps > _MAX_STEPS:
            return "too many ways to serve them were tried"
        return "each can be served, but not all from one node"

    def run(self, *, claim: bool) -> tuple[int, ...] | None:
        """Return the chosen entry of each request, with at least one claim if wanted."""
        self._dead.clear()
        self._steps = 0
        return self._from(0, tuple(entry.count for entry in self._entries), not claim)

    def _from(self, position: int, left: tuple[int, ...], satisfied: bool) -> tuple[int, ...] | None:
        if position == len(self._counts):
            return () if satisfied else None
        state = (position, left, satisfied)
        self._steps += 1
        if state in self._dead or self._steps > _MAX_STEPS:
            return None
        count = self._counts[position]
        for entry in self._options[position]:
            if left[entry] < count:
                continue
            rest = (*left[:entry], left[entry] - count, *left[entry + 1 :])
            claims = satisfied or self._entries[entry].claim is Claim.DRA
            chosen = self._from(position + 1, rest, claims)
            if chosen is not None:
                return (entry, *chosen)
        self._dead.add(state)
        return None


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
    return Rejected(Reason.NO_MATCHING_DEVICE, request.name, telling[0].reason, reads)


def _names(requests: Iterable[DeviceRequest]) -> str:
    return ", ".join(request.name for request in requests)

"""Filter by devices: those of one node must serve every request of a member.

One device entry serves a whole request, and the devices it gives are not available to the next one. If some
choice of entries serves all requests, one is found: the first in published order that claims something
through DRA, otherwise the first that serves them at all.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from modelplane.api.fields.cluster.devices import Claim
from modelplane.api.rejected import Rejected
from modelplane.api.values.quantity import Quantity
from modelplane.cel import Match, NoMatch
from modelplane.scheduler.free_capacity import PodDemand
from modelplane.scheduler.placement.device_selection import Selection
from modelplane.scheduler.rejection_reasons import NoDevice, Reason
from modelplane.scheduler.search.backtracking import Backtracking, number_items
from modelplane.scheduler.search.search_budget import SearchBudget
from modelplane.scheduler.types import Device, DeviceRequest, ResolvedRequest

# Visiting a state takes about as long as this many steps of SearchBudget.
_STATE_COST: Final = 8


class Served(msgspec.Struct, frozen=True):
    """The member's requests can be served. `claims` are those that go through DRA; they make the `demand`."""

    claims: tuple[ResolvedRequest, ...]
    demand: PodDemand


def serve_requests(
    requests: Sequence[DeviceRequest], entries: Sequence[Device], selection: Selection, budget: SearchBudget
) -> Served | Rejected:
    """Serve all requests from one node's devices."""
    matching = []
    options = []
    for request in requests:
        matches = [entry for entry in range(len(entries)) if selection.is_match(request, entries[entry])]
        enough = [entry for entry in matches if entries[entry].count >= request.count]
        if not enough:
            return _unserved(request, [entries[entry] for entry in matches], entries, selection)
        matching.append(matches)
        options.append(enough)
    chosen = _choose([request.count for request in requests], entries, options, budget)
    if isinstance(chosen, str):
        return Rejected(Reason.DEVICES_COMPETE, ", ".join(request.name for request in requests), chosen)
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


def _choose(
    counts: Sequence[int], entries: Sequence[Device], options: Sequence[Sequence[int]], budget: SearchBudget
) -> tuple[int, ...] | str:
    """Return the entry of each request, or why there is none for all."""
    if len(options) == 1:  # nothing competes: a search would take a fifth of a placement's time
        claimable = (entry for entry in options[0] if entries[entry].claim is Claim.DRA)
        return (next(claimable, options[0][0]),)
    search = _Search(counts, entries, options, budget)
    chosen = (search.run(claim=True) if search.could_claim else None) or search.run(claim=False)
    return search.outcome if chosen is None else chosen


def derive_pod_demand(
    claims: Sequence[ResolvedRequest], entries: Sequence[Device], selection: Selection, budget: SearchBudget
) -> PodDemand:
    """Return the devices that a pod with these claims takes from a node with these devices.

    If the devices cannot serve the claims any more, the pod may hold any device of the same class.
    """
    options = [
        _of_class(
            entries,
            (
                entry
                for entry in range(len(entries))
                if selection.is_accepted(claim.selectors, entries[entry])
            ),
            claim.device_class_name,
        )
        for claim in claims
    ]
    enough = [
        [entry for entry in option if entries[entry].count >= claim.count]
        for claim, option in zip(claims, options, strict=True)
    ]
    counts = [claim.count for claim in claims]
    chosen = _Search(counts, entries, enough, budget).run(claim=False) if all(enough) else None
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


def _demand(entries: Sequence[Device], claimed: Iterable[tuple[int, int, Sequence[int]]]) -> PodDemand:
    """Return the demand of claims: each a count, the entry chosen (-1 for none), and those it may use."""
    need, may, exact = [0] * len(entries), [0] * len(entries), [True] * len(entries)
    for count, chosen, options in claimed:
        if chosen >= 0:
            need[chosen] += count
        for entry in options:
            may[entry] = min(may[entry] + count, entries[entry].count)
            exact[entry] &= len(options) == 1 and chosen >= 0
    return PodDemand(tuple(need), tuple(may), tuple(exact))


_Left: TypeAlias = tuple[tuple[int, ...], bool]
"""The devices left of each entry, and True if the choices so far include a required claim."""


class _Search(Backtracking[_Left, int]):
    """Gives each request an entry, in published order.

    A state is a dead end where the requests to come need more devices than are left for them. Entries that
    may serve the same requests are alike.
    """

    def __init__(
        self,
        counts: Sequence[int],
        entries: Sequence[Device],
        options: Sequence[Sequence[int]],
        budget: SearchBudget,
    ) -> None:
        super().__init__(budget, state_cost=_STATE_COST)
        self._counts = counts
        self._options = options
        self._left = tuple(entry.count for entry in entries)
        self._claimed = [entry.claim is Claim.DRA for entry in entries]
        self._kinds = number_items(
            (claimed, *(entry in option for option in options)) for entry, claimed in enumerate(self._claimed)
        )

    @property
    def could_claim(self) -> bool:
        return any(self._claimed[entry] for option in self._options for entry in option)

    @property
    def outcome(self) -> str:
        if self.exhausted:
            return "the search reached its limit before finding devices for all requests"
        return "each request fits a node, but no node fits all requests"

    def run(self, *, claim: bool) -> tuple[int, ...] | None:
        """Return the chosen entry of each request, with at least one claim if wanted.

        Search in the order of the requests first, then the largest request first.
        """
        asked = range(len(self._counts))
        largest_first = sorted(asked, key=lambda at: (-self._counts[at], len(self._options[at])))
        return self.search((self._left, not claim), (asked, largest_first))

    def _choices(self, item: int, state: _Left) -> Iterator[tuple[int, _Left]]:
        left, satisfied = state
        count = self._counts[item]
        for entry in self._options[item]:
            if left[entry] >= count:
                rest = (*left[:entry], left[entry] - count, *left[entry + 1 :])
                yield entry, (rest, satisfied or self._claimed[entry])

    def _get_equivalence_key(self, state: _Left) -> Hashable:
        left, satisfied = state
        return (satisfied, *sorted(zip(self._kinds, left, strict=True)))

    def _can_still_succeed(self, to_come: Sequence[int], state: _Left) -> bool:
        left, _ = state
        least = min(self._counts[request] for request in to_come)
        if sum(have for have in left if have >= least) < sum(self._counts[request] for request in to_come):
            return False
        return all(
            any(left[entry] >= self._counts[request] for entry in self._options[request])
            for request in to_come
        )

    def _is_solution(self, state: _Left) -> bool:
        _, satisfied = state
        return satisfied


def _unserved(
    request: DeviceRequest, matching: Sequence[Device], entries: Sequence[Device], selection: Selection
) -> Rejected:
    if matching:
        most = max(entry.count for entry in matching)
        return Rejected(
            Reason.TOO_FEW_DEVICES,
            request.name,
            f"{request.count} requested, at most {most} on a node",
            remedy=f'reduce request "{request.name}" to at most {most}' if most else "",
        )
    if not entries:
        return Rejected(Reason.NO_MATCHING_DEVICE, request.name, "the pool publishes no devices")
    refusals = [
        refusal
        for entry in entries
        if not isinstance(refusal := selection.find_refusal(request, entry), Match)
    ]
    reads = tuple(read for refusal in refusals if not refusal.failed for read in refusal.reads)
    # A value that was compared tells more than a device of another kind, on which the selector fails.
    telling = [refusal for refusal in refusals if not refusal.failed] or refusals
    closest = max(telling, key=_closeness)
    return NoDevice(
        Reason.NO_MATCHING_DEVICE, request.name, closest.reason, reads=reads, selectors=request.selectors
    )


def _closeness(refusal: NoMatch) -> tuple[int, tuple[Quantity, ...]]:
    """Order refusals by how far the selector came on the device, then by the amounts that it offers."""
    amounts = ((read.name, read.quantity) for read in refusal.reads if read.quantity is not None)
    return len(refusal.reads), tuple(amount for _, amount in sorted(amounts, key=lambda amount: amount[0]))

"""Whether the devices of one node can serve every request of a member.

One rule: a request is served whole by one device entry, and what it takes is gone for the next request. Where
some choice of entries serves all requests, one is found: the first in published order that claims something
through DRA, else the first that serves them at all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from modelplane.api.devices import Claim
from modelplane.cel import Match
from modelplane.scheduler.deployment import DeviceRequest
from modelplane.scheduler.device import Device
from modelplane.scheduler.replica import ResolvedRequest
from modelplane.scheduler.selection import Selection
from modelplane.scheduler.verdict import Reason, Rejected

# Sixteen requests over sixteen entries could be tried for ever; what takes this long is refused, and says so.
_MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Served:
    """The member's requests can be served; `claims` are those that go through DRA."""

    claims: tuple[ResolvedRequest, ...]


def devices(
    requests: Sequence[DeviceRequest], entries: Sequence[Device], selection: Selection
) -> Served | Rejected:
    """Serve all requests from one node's devices."""
    options = []
    for request in requests:
        matching = [entry for entry in range(len(entries)) if selection.matches(request, entries[entry])]
        enough = [entry for entry in matching if entries[entry].count >= request.count]
        if not enough:
            return _unserved(request, [entries[entry] for entry in matching], entries, selection)
        options.append(enough)
    search = _Search(requests, entries, options)
    chosen = (search.run(claim=True) if search.could_claim else None) or search.run(claim=False)
    if chosen is None:
        return Rejected(Reason.DEVICES_COMPETE, _names(requests), search.outcome)
    return Served(
        tuple(
            ResolvedRequest(request.name, entries[entry].device_class_name, request.count, request.selectors)
            for request, entry in zip(requests, chosen, strict=True)
            if entries[entry].claim is Claim.DRA
        )
    )


class _Search:
    """Depth first: requests in order, entries in published order; dead ends are remembered."""

    def __init__(
        self, requests: Sequence[DeviceRequest], entries: Sequence[Device], options: list[list[int]]
    ) -> None:
        self._requests = requests
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
        if position == len(self._requests):
            return () if satisfied else None
        state = (position, left, satisfied)
        self._steps += 1
        if state in self._dead or self._steps > _MAX_STEPS:
            return None
        count = self._requests[position].count
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
            Reason.TOO_FEW_DEVICES, request.name, f"{request.count} wanted, at most {most} on a node"
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

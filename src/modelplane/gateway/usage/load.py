"""Load: what gateways count of requests, and what they have counted between two readings.

A gateway begins again at zero when it starts. An endpoint is named ``NAMESPACE/NAME``, or
``held/NAMESPACE/NAME`` for the requests that a service has held and sent on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

METRICS_PORT = 9090
"""Port of health and metrics in the gateway's pods."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Counts of one gateway."""

    in_flight: Mapping[str, int] = field(default_factory=dict)
    """Requests in flight, by endpoint."""
    requests: Mapping[str, int] = field(default_factory=dict)
    """Requests so far, by endpoint."""
    held: Mapping[str, int] = field(default_factory=dict)
    """Requests that wait, by service."""
    holds: Mapping[str, int] = field(default_factory=dict)
    """Requests that have waited so far, by service."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Tokens of answers so far, by service."""
    first_tokens: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Streams so far by the time to their first token, in buckets, by endpoint."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """Answers so far, by endpoint."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Answers 5xx, and answers that were cut off, so far, by endpoint."""
    timed: Mapping[str, int] = field(default_factory=dict)
    """Complete answers whose time is known, so far, by endpoint."""
    milliseconds: Mapping[str, int] = field(default_factory=dict)
    """Sum of these times, by endpoint."""


@dataclass(frozen=True, slots=True)
class Load:
    """Readings of all gateways."""

    readings: Mapping[str, Reading] = field(default_factory=dict)
    """By a name of each gateway."""
    problem: str = ""
    """Reason why a gateway is missing; empty if none is."""

    def count_in_flight(self, endpoint: str) -> int:
        """Return the requests in flight to an endpoint."""
        return sum(reading.in_flight.get(endpoint, 0) for reading in self.readings.values())

    def count_held(self, service: str) -> int:
        """Return the requests of a service that wait."""
        return sum(reading.held.get(service, 0) for reading in self.readings.values())

    def count_first_tokens_since(self, before: "Load", endpoint: str) -> tuple[int, ...]:
        """Return the streams of an endpoint since a former load, in buckets; empty if there was none."""
        grown = [
            [count - former if count >= former else count for former, count in zip(old, new, strict=True)]
            for a, b in self._pairs(before)
            if (new := b.first_tokens.get(endpoint)) and (old := a.first_tokens.get(endpoint, [0] * len(new)))
        ]
        total = tuple(map(sum, zip(*grown, strict=True)))
        return total if any(total) else ()

    def count_since(self, before: "Load", field: str, subject: str) -> int:
        """Return by how much a field of the readings has grown for an endpoint or a service."""
        return sum(_grown(getattr(a, field), getattr(b, field), subject) for a, b in self._pairs(before))

    def keep_missing(self, before: "Load | None") -> "Load":
        """Return what the next load is compared with: a gateway that is missing keeps its last counts."""
        if before is None or not self.problem:
            return self
        return Load({**before.readings, **self.readings}, self.problem)

    def _pairs(self, before: "Load") -> Iterator[tuple[Reading, Reading]]:
        """Yield the former and the present reading of each gateway that has both."""
        for name, reading in self.readings.items():
            if name in before.readings:
                yield before.readings[name], reading


def _grown(before: Mapping[str, int], now: Mapping[str, int], name: str) -> int:
    count, former = now.get(name, 0), before.get(name, 0)
    return count - former if count >= former else count

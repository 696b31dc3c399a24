"""Tiers of a route: the backends that each attempt of a request asks.

A request asks backends of the first tier, then those of the next, each at most once. One random number of
the request decides about all of its attempts: at each, it falls into some backend's share of the whole. The
shares are arranged so that they never lead to one backend twice.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from modelplane.gateway.route_table import Backend

MOST_PER_TIER = 3
"""Maximum of backends of one tier that a request asks, before it asks the next tier."""

_MOST_PARTS = 4
"""Maximum of backends that take over the requests of one that fails, in equal parts."""

_MOST_SHARES = 128
"""Maximum of shares at an attempt, but for a tier with more backends than this: they cost memory and time."""

Shares = tuple[tuple[Backend, int], ...]
"""Backends with the share of requests that each gets at an attempt; one may occur several times."""


def attempts(backends: Sequence[Backend], *, is_ordered: bool = False) -> list[Shares]:
    """Return the shares of the backends at each attempt, over all tiers.

    There are none if there is only one tier, unless an order of the backends is handed over per request.
    """
    ordered = sorted(backends, key=lambda backend: (backend.priority, backend.name))
    tiers = [list(tier) for _, tier in groupby(ordered, key=lambda backend: backend.priority)]
    return [shares for tier in tiers for shares in _of_tier(tier)] if len(tiers) > 1 or is_ordered else []


def _of_tier(tier: Sequence[Backend]) -> Iterator[Shares]:
    """Yield the shares at each attempt: by weight at first, then each share is divided among the others."""
    others = len(tier) - 1
    parts = max(1, min(others, _MOST_PARTS, _MOST_SHARES // len(tier)))
    yield tuple((backend, backend.weight * parts) for backend in tier)
    for attempt in range(min(others, MOST_PER_TIER - 1)):
        yield tuple(
            (tier[(first + 1 + (part * others // parts + attempt) % others) % len(tier)], backend.weight)
            for first, backend in enumerate(tier)
            for part in range(parts)
        )

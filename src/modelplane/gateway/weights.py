"""Weights of endpoints, derived from the weights of their groups.

A proxy weighs endpoints, a service weighs groups of endpoints. All weights are
scaled up together until every group can be divided among its members, so that
groups of any size keep their proportion.
"""

from collections.abc import Sequence
from math import gcd

MAXIMUM = 1_000_000
"""Largest weight of a backend (Gateway API, ``HTTPBackendRef.weight``)."""


def spread(weights: Sequence[int], counts: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the weight of each member of each group.

    ``weights`` are those of the groups, at least 1, and ``counts`` their numbers of members. A group
    without members is ignored. The remainder goes to a group's first members, one each.
    """
    scale = max((-(-count // weight) for weight, count in zip(weights, counts, strict=True)), default=1)
    shares = tuple(
        _divide(weight * max(scale, 1), count) for weight, count in zip(weights, counts, strict=True)
    )
    members = iter(limited([share for group in shares for share in group]))
    return tuple(tuple(next(members) for _ in group) for group in shares)


def limited(weights: Sequence[int]) -> tuple[int, ...]:
    """Return the smallest weights of the same proportion; those above the maximum are scaled, at least 1."""
    divisor = gcd(*weights) if weights else 1
    largest = max(weights, default=0) // divisor
    if largest <= MAXIMUM:
        return tuple(weight // divisor for weight in weights)
    return tuple(max(weight // divisor * MAXIMUM // largest, 1) for weight in weights)


def _divide(total: int, count: int) -> tuple[int, ...]:
    if count == 0:
        return ()
    each, rest = divmod(total, count)
    return tuple(each + 1 if member < rest else each for member in range(count))

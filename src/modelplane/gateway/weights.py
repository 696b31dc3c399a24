"""Weights of endpoints, derived from the weights of their groups.

A proxy weighs endpoints, a service weighs groups of endpoints. All weights are
scaled up together until every group can be divided among its members, so that
groups of any size keep their proportion.

The endpoints of a canary have an annotation with the percentage of their deployment's requests that they get
together. The rest is divided among its other endpoints as before, and the deployment's share of a service
remains the same.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm

from modelplane.api import labels
from modelplane.api.model_endpoint import ModelEndpoint

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
    members = iter(limit_weights([share for group in shares for share in group]))
    return tuple(tuple(next(members) for _ in group) for group in shares)


def limit_weights(weights: Sequence[int]) -> tuple[int, ...]:
    """Return the smallest weights of the same proportion; those above the maximum are scaled, at least 1."""
    divisor = gcd(*weights) if weights else 1
    largest = max(weights, default=0) // divisor
    if largest <= MAXIMUM:
        return tuple(weight // divisor for weight in weights)
    return tuple(max(weight // divisor * MAXIMUM // largest, 1) for weight in weights)


def _divide(total: int, count: int) -> tuple[int, ...]:
    if count == 0:
        return ()
    share, rest = divmod(total, count)
    return tuple(share + 1 if member < rest else share for member in range(count))


_FEWEST, _MOST = 1, 99


def divide_for_canary(endpoints: Sequence[ModelEndpoint], weights: Sequence[int]) -> tuple[int, ...]:
    """Return the weights of the endpoints of one priority, changed where a deployment has a canary."""
    members: dict[str, list[int]] = {}
    for index, endpoint in enumerate(endpoints):
        members.setdefault(endpoint.metadata.labels.get(labels.DEPLOYMENT, ""), []).append(index)
    shares = [Fraction(weight) for weight in weights]
    is_changed = False
    for deployment, indices in members.items():
        percents = {index: percent for index in indices if (percent := _percent(endpoints[index]))}
        if not deployment or not percents or len(percents) == len(indices):
            continue
        whole = sum((shares[index] for index in indices), Fraction(0))
        part = whole * max(percents.values()) / 100
        canaries = sum((shares[index] for index in percents), Fraction(0))
        for index in indices:
            to_divide, among = (part, canaries) if index in percents else (whole - part, whole - canaries)
            shares[index] = shares[index] * to_divide / among
        is_changed = True
    if not is_changed:
        return tuple(weights)
    scale = lcm(*(share.denominator for share in shares))
    return limit_weights([int(share * scale) for share in shares])


def _percent(endpoint: ModelEndpoint) -> int:
    """Return the percentage of an endpoint's canary; 0 without one that can be read."""
    text = endpoint.metadata.annotations.get(labels.CANARY_WEIGHT, "")
    percent = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST)) else 0
    return percent if _FEWEST <= percent <= _MOST else 0

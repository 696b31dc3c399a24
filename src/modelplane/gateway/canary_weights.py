"""Weights of the endpoints of a deployment whose new revision is a canary.

Its endpoints have an annotation with the percentage of the deployment's requests that they get together. The
rest is divided among its other endpoints as before, and the deployment's share of a service stays the same.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from modelplane.api import labels
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.gateway.weights import limited

_FEWEST, _MOST = 1, 99


def divided(endpoints: Sequence[ModelEndpoint], weights: Sequence[int]) -> tuple[int, ...]:
    """Return the weights of the endpoints of one priority, changed where a deployment has a canary."""
    members: dict[str, list[int]] = {}
    for index, endpoint in enumerate(endpoints):
        members.setdefault(endpoint.metadata.labels.get(labels.DEPLOYMENT, ""), []).append(index)
    shares = [Fraction(weight) for weight in weights]
    is_changed = False
    for deployment, own in members.items():
        percents = {index: percent for index in own if (percent := _percent(endpoints[index]))}
        if not deployment or not percents or len(percents) == len(own):
            continue
        whole = sum((shares[index] for index in own), Fraction(0))
        part = whole * max(percents.values()) / 100
        canaries = sum((shares[index] for index in percents), Fraction(0))
        for index in own:
            to_divide, among = (part, canaries) if index in percents else (whole - part, whole - canaries)
            shares[index] = shares[index] * to_divide / among
        is_changed = True
    if not is_changed:
        return tuple(weights)
    scale = lcm(*(share.denominator for share in shares))
    return limited([int(share * scale) for share in shares])


def _percent(endpoint: ModelEndpoint) -> int:
    """Return the percentage of an endpoint's canary; 0 without one that can be read."""
    said = endpoint.metadata.annotations.get(labels.CANARY_WEIGHT, "")
    percent = int(said) if said.isascii() and said.isdecimal() and len(said) <= len(str(_MOST)) else 0
    return percent if _FEWEST <= percent <= _MOST else 0

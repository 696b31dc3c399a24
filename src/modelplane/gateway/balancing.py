"""Balancing of a service: the weights of its endpoints, and how the gateway's module orders its backends.

A service that sets neither a policy nor a limit has no balancing: its route alone decides.

Requests may be bound to regions by their key. If the route of a service decides by itself, such requests get
a route of their own, whose backends the gateway's module orders. The module also compares each attempt with
the regions, so a route that is older than the key sends no request elsewhere.

A proxy weighs endpoints, a service weighs groups of endpoints. All weights are scaled up together until every
group can be divided among its members, so that groups of any size keep their proportion.

The endpoints of a canary have an annotation with the percentage of their deployment's requests that they get
together. The rest is divided among its other endpoints as before, and the deployment's share of a service
remains the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, lcm
from typing import Self

import msgspec

from modelplane.api import labels
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import BalancingPolicy, EndpointEntry, ModelService
from modelplane.gateway.module_files.route_files import BackendEntry, BalancingEntry, ServiceEntry
from modelplane.gateway.route_table import Backend, Listener, Route

MAXIMUM = 1_000_000
"""Largest weight of a backend (Gateway API, ``HTTPBackendRef.weight``)."""

_FEWEST, _MOST = 1, 99


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


@dataclass(frozen=True, slots=True)
class Limits:
    """Load from which an endpoint has no room for another request; None for no maximum."""

    outstanding_requests: int | None = None
    queued_requests: int | None = None

    @classmethod
    def read(cls, entry: EndpointEntry) -> Self:
        """Return the limits of each endpoint of a group."""
        return cls(entry.max_outstanding_requests, entry.max_queued_requests)


NO_LIMITS = Limits()


def is_wanted(service: ModelService) -> bool:
    """Return True if a service asks for what only the gateway's module can do."""
    balancing = service.spec.balancing
    return (balancing is not None and balancing.policy is not BalancingPolicy.WEIGHTED) or any(
        Limits.read(entry) != NO_LIMITS for entry in service.spec.endpoints
    )


def build_settings(service: ModelService, backends: Sequence[tuple[Backend, Limits]]) -> ServiceEntry:
    """Return the settings of a service, from its backends with their limits."""
    if not is_wanted(service) or len(backends) < 2:
        return ServiceEntry()
    chosen = service.spec.balancing
    entries = tuple(
        BackendEntry(
            name=backend.name,
            weight=backend.weight,
            priority=backend.priority,
            max_outstanding_requests=limits.outstanding_requests,
            max_queued_requests=limits.queued_requests,
        )
        for backend, limits in backends
    )
    policy = chosen.policy if chosen else BalancingPolicy.WEIGHTED
    header = chosen.session_header if chosen else None
    return ServiceEntry(
        balancing=BalancingEntry(
            policy=str(policy), session_header=header.lower() if header else None, backends=entries
        )
    )


def select_in_force(route: Route) -> ServiceEntry:
    """Return the settings of a route, without the backends that it does not lead to."""
    balancing = route.settings.balancing
    if balancing is None:
        return route.settings
    names = {backend.name for backend in route.backends}
    left = tuple(backend for backend in balancing.backends if backend.name in names)
    return msgspec.structs.replace(
        route.settings, balancing=msgspec.structs.replace(balancing, backends=left)
    )


def must_have_bound_route(listener: Listener, route: Route) -> bool:
    """Return True if requests with a region rule may reach a route that the module does not order."""
    keys = listener.front.keys if listener.front else None
    if keys is None or not route.backends or route.settings.balancing is not None:
        return False
    services = keys.bound_services
    namespace = route.name.partition("/")[0]
    return bool(services) and not services.isdisjoint({route.name, f"{namespace}/*"})


def build_bound_route(route: Route) -> Route:
    """Return the route of bound requests."""
    backends = tuple(
        BackendEntry(name=backend.name, weight=backend.weight, priority=backend.priority)
        for backend in sorted(route.backends, key=lambda backend: backend.name)
    )
    return replace(route, settings=ServiceEntry(balancing=BalancingEntry(backends=backends)))


def add_regions(route: Route, choice: BalancingEntry | None) -> BalancingEntry | None:
    """Return the choice among a route's backends with the region of each."""
    if choice is None:
        return None
    regions = {backend.name: backend.region for backend in route.backends}
    backends = tuple(
        msgspec.structs.replace(backend, region=regions[backend.name] or None) for backend in choice.backends
    )
    return msgspec.structs.replace(choice, backends=backends)

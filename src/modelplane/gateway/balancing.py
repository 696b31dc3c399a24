"""Balancing of a service: what the gateway's module orders its backends by.

A service that sets neither a policy nor a limit has no balancing: its route alone decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import msgspec

from modelplane.api.model_service import BalancingPolicy, EndpointEntry, ModelService
from modelplane.gateway.module_files.service_file import BackendEntry, BalancingEntry, ServiceEntry
from modelplane.gateway.route_table import Backend, Route


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

"""Routes of requests that are bound to regions by their key.

If the route of a service decides by itself, such requests get a route of their own, whose backends the
gateway's module orders. The module also compares each attempt with the regions, so a route that is older than
the key sends no request elsewhere.
"""

from dataclasses import replace

import msgspec

from modelplane.gateway.module_files.service_file import BackendEntry, BalancingEntry, ServiceEntry
from modelplane.gateway.route_table import Listener, Route


def is_needed(listener: Listener, route: Route) -> bool:
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

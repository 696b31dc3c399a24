"""Routes of the fleet's gateway, from the compositions of their owners.

An owner is composed for its routes as soon as one of its inputs changes, independently of its reconcile, so
that a slow control plane delays no route. Namespaces take turns, so that one with many owners does not delay
the others. An owner that cannot be composed keeps its routes. The endpoints of a namespace's routes are
bounded (``EndpointShares``).

A service keeps the endpoints that it routes to: no other service takes them. Those that are free go to the
services that wait for them, the oldest first. The gateway's files record the routes, so a restart, an upgrade
from a version without the maximum, and another leader change nothing.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from modelplane.api.listing import listing
from modelplane.api.meta import kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.compose.composition import Blocked, Composition, Requirement
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.queue import FairLane
from modelplane.gateway.route_table import Route, shared
from modelplane.gateway.services import MOST_IN_NAMESPACE, EndpointShare
from modelplane.kube.informer import build_key
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

_ENDPOINT = kind_name(ModelEndpoint)
_METADATA = ("uid", "labels", "annotations", "deletionTimestamp")
_SLICE_S = 0.05
"""Time for which composing may block the other tasks of the controllers, such as the renewal of the lease."""
_TURN_S = 0.25
"""Time after which the routes composed so far are written, although other owners wait."""


class EndpointShares:
    """Number of endpoints of every service."""

    def __init__(self) -> None:
        self._routed: dict[str, dict[OwnerKey, int]] = {}
        self._totals: Counter[str] = Counter()
        self._waiting: dict[str, set[OwnerKey]] = {}
        self._created: dict[OwnerKey, str] = {}

    def of(self, key: OwnerKey) -> EndpointShare:
        """Return the share of a service."""
        own, _ = self.state(key)
        free = max(MOST_IN_NAMESPACE - self._totals[key.namespace], 0)
        return EndpointShare(own + free, self.is_exceeded(key.namespace) and self._is_beyond(key))

    def _is_beyond(self, key: OwnerKey) -> bool:
        age = self.age(key)
        members = self._routed.get(key.namespace, {}).items()
        return sum(routed for other, routed in members if self.age(other) <= age) > MOST_IN_NAMESPACE

    def is_exceeded(self, namespace: str) -> bool:
        """Return True if the services of a namespace keep more endpoints than the maximum."""
        return self._totals[namespace] > MOST_IN_NAMESPACE

    def state(self, key: OwnerKey) -> tuple[int, bool]:
        """Return the number of endpoints that a service routes to, and whether it waits for more."""
        namespace = key.namespace
        return self._routed.get(namespace, {}).get(key, 0), key in self._waiting.get(namespace, ())

    def members(self, namespace: str) -> Iterator[OwnerKey]:
        """Return the services of a namespace that have endpoints."""
        return iter(tuple(self._routed.get(namespace, ())))

    def age(self, key: OwnerKey) -> tuple[str, OwnerKey]:
        """Return a value by which older services come first."""
        return self._created.get(key, ""), key

    def note(self, key: OwnerKey, created: str) -> None:
        """Note when a service was created."""
        self._created[key] = created

    def restore(self, routed: Mapping[OwnerKey, int]) -> None:
        """Take over the numbers of an earlier process."""
        for key, number in routed.items():
            self._set(key, number)

    def keep_only(self, keys: Collection[OwnerKey]) -> None:
        """Forget services that an earlier process had and that are gone."""
        for key in [member for members in self._routed.values() for member in members if member not in keys]:
            self.forget(key)

    def set(self, key: OwnerKey, number: int, *, waits: bool) -> None:
        """Note the number of endpoints that a service routes to, and whether it waits for more."""
        self._set(key, number)
        if waits:
            self._waiting.setdefault(key.namespace, set()).add(key)

    def _set(self, key: OwnerKey, number: int) -> None:
        members = self._routed.setdefault(key.namespace, {})
        self._totals[key.namespace] += number - members.pop(key, 0)
        if number:
            members[key] = number
        if not members:
            del self._routed[key.namespace], self._totals[key.namespace]

    def stop_waiting(self, key: OwnerKey) -> None:
        """Note that a service is being composed, and no longer waits."""
        if waiting := self._waiting.get(key.namespace):
            waiting.discard(key)
            if not waiting:
                del self._waiting[key.namespace]

    def forget(self, key: OwnerKey) -> None:
        """Drop a deleted service."""
        self._set(key, 0)
        self.stop_waiting(key)
        self._created.pop(key, None)

    def next(self, namespace: str) -> OwnerKey | None:
        """Return the oldest service that waits, if the namespace has endpoints left for it."""
        if self._totals[namespace] >= MOST_IN_NAMESPACE:
            return None
        return min(self._waiting.get(namespace, ()), key=self.age, default=None)


class Composed(NamedTuple):
    """An owner's composition and its requirements."""

    requirements: tuple[Requirement, ...]
    composition: Composition | Blocked


Compose = Callable[[OwnerKey], Composed | None]
"""Composes an owner and writes nothing; returns None if the owner is gone."""


class _Agreed(NamedTuple):
    """Routes of a namespace in which each name is one backend, and the problems of the others."""

    routes: tuple[Route, ...]
    problems: dict[str, str]
    served: frozenset[OwnerKey]
    """Owners with an endpoint in their routes."""


class Routes:
    """The routes of every owner."""

    def __init__(self, compose: Compose, settled: Callable[[OwnerKey], None] = lambda _key: None) -> None:
        """``settled`` takes an owner whose share of endpoints is another one, as its conditions say it."""
        self._compose = compose
        self._settled = settled
        self._interests = Interests()
        self._routes: dict[str, dict[OwnerKey, tuple[Route, ...]]] = {}
        """By namespace."""
        self._agreed: dict[str, _Agreed] = {}
        self._problems: dict[OwnerKey, str] = {}
        self._endpoints: dict[OwnerKey, tuple[Any, ...]] = {}
        self._stale: FairLane[OwnerKey] = FairLane(attrgetter("namespace"))
        self._shares = EndpointShares()
        self._is_complete = False

    def __iter__(self) -> Iterator[Route]:
        """Yield the routes, sorted by their namespaces and owners."""
        for namespace in sorted(self._routes):
            yield from (route for _, route in self._of(namespace))

    def _of(self, namespace: str) -> Iterator[tuple[OwnerKey, Route]]:
        owners = self._routes[namespace]
        return ((key, route) for key in sorted(owners) for route in owners[key])

    def agreed(self) -> tuple[tuple[Route, ...], dict[str, str]]:
        """Return the routes in which each name is one backend, and the problems of the others.

        Two owners can know one endpoint at different times. The owner that was composed last is right, and
        the route of the other waits without that backend, so that nobody else's change waits. Owners share
        the endpoints of their namespace only, so a namespace without changes is not looked at again.
        """
        for namespace in self._routes:
            known = self._agreed.get(namespace)
            if known is None or known.problems:
                self._agreed[namespace] = self._agree(namespace)
        found = [self._agreed[namespace] for namespace in sorted(self._routes)]
        problems = {subject: problem for part in found for subject, problem in part.problems.items()}
        return tuple(route for part in found for route in part.routes), problems

    def list_served(self) -> frozenset[OwnerKey]:
        """Return the owners with an endpoint in the routes that ``agreed`` returned last."""
        return frozenset().union(*(self._agreed[namespace].served for namespace in self._routes))

    def _agree(self, namespace: str) -> _Agreed:
        known: dict[str, tuple[Any, ...]] = {}
        owners = self._routes[namespace]
        for key in sorted(owners, key=lambda key: ((key in self._problems or key in self._stale), key)):
            for backend in (target for route in owners[key] for target in route.backends):
                known.setdefault(backend.name, shared(backend))
        routes, problems, served = [], {}, set()
        for key, route in self._of(namespace):
            backends = tuple(target for target in route.backends if known[target.name] == shared(target))
            if backends:
                served.add(key)
            if len(backends) == len(route.backends):
                routes.append(route)
                continue
            left = sorted({target.name for target in route.backends} - {target.name for target in backends})
            problems[f"{route.name} does not use {listing(left)}"] = "it knows them in a former state"
            message = f'cannot serve ModelService "{route.name}": its endpoints are changing: try again'
            routes.append(replace(route, backends=backends, unavailable="" if backends else message))
        return _Agreed(tuple(routes), problems, frozenset(served))

    def share(self, key: OwnerKey) -> EndpointShare:
        """Return how many endpoints an owner may route to."""
        return self._shares.of(key)

    def restore(self, routed: Mapping[str, int]) -> None:
        """Note how many endpoints each route has that an earlier process wrote, by NAMESPACE/NAME."""
        if self._is_complete:
            return
        kinds = [row.name for row in COMPOSERS.values() if row.is_routed]
        self._shares.restore(
            {OwnerKey(kind, *name.split("/", 1)): number for name, number in routed.items() for kind in kinds}
        )

    @property
    def problems(self) -> Mapping[str, str]:
        """Reasons why owners cannot be composed, by owner and consequence."""
        return {
            f"{key} {'keeps its routes' if self._has_routes(key) else 'is not served'}": problem
            for key, problem in self._problems.items()
        }

    def _has_routes(self, key: OwnerKey) -> bool:
        return key in self._routes.get(key.namespace, ())

    def changed(self, item: Object, *, is_gone: bool) -> bool:
        """Note the change of an object; return whether it concerns the routes of any owner."""
        key = OwnerKey(item["kind"], *build_key(item))
        if key.kind == _ENDPOINT and not self._is_news(key, item, is_gone=is_gone):
            return False
        concerned = dict.fromkeys(self._interests.triggered_by(item, ""))
        if COMPOSERS[key.kind].is_routed:
            concerned[key] = None
            self._shares.note(key, str(item["metadata"].get("creationTimestamp", "")))
        for owner in concerned:
            self._stale.add(owner)
        return bool(concerned)

    def _is_news(self, key: OwnerKey, item: Object, *, is_gone: bool) -> bool:
        """Return False if only the status of an endpoint has changed, of which no route is made."""
        metadata = item["metadata"]
        parts = (item["spec"], *(metadata.get(name) for name in _METADATA))
        known = self._endpoints.pop(key, None)
        if not is_gone:
            self._endpoints[key] = parts
        return is_gone or parts != known

    async def update(self) -> bool:
        """Compose owners with changed inputs; return True if some are left for the next turn."""
        clock = asyncio.get_running_loop().time
        began = turn = clock()
        if not self._is_complete:
            self._order_by_age()
        while self._stale and clock() - turn < _TURN_S:
            self._bring(self._stale.take())
            if clock() - began > _SLICE_S:
                await asyncio.sleep(0)
                began = clock()
        if not self._stale and not self._is_complete:
            self._complete()
        return bool(self._stale)

    def _order_by_age(self) -> None:
        """Compose the oldest owners of each namespace first, so that they have the first share."""
        waiting = []
        while self._stale:
            waiting.append(self._stale.take())
        for key in sorted(waiting, key=lambda owner_key: self._shares.age(owner_key)[0]):
            self._stale.add(key)

    def _complete(self) -> None:
        """Note that every owner has been composed once: what an earlier process knew besides them is gone."""
        self._is_complete = True
        self._shares.keep_only(
            {*self._problems, *(key for owners in self._routes.values() for key in owners)}
        )
        for namespace in self._routes:
            self._wake(namespace)
            if self._shares.is_exceeded(namespace):
                self._settle(self._shares.members(namespace))

    def _bring(self, key: OwnerKey) -> None:
        """Compose an owner, and let others have the endpoints that it leaves."""
        before, exceeded = self._shares.state(key), self._shares.is_exceeded(key.namespace)
        self._shares.stop_waiting(key)
        try:
            self._update(key, self._compose(key))
        except Exception:  # noqa: BLE001 - a bug in one composition takes no route from the others
            _log.exception("cannot compose the routes of %s: a bug", key)
        after = self._shares.state(key)
        if before != after and (before[1] or after[1]):
            self._settle([key])
        if exceeded and not self._shares.is_exceeded(key.namespace):
            self._settle(self._shares.members(key.namespace))
        self._wake(key.namespace)

    def _settle(self, keys: Iterable[OwnerKey]) -> None:
        for key in keys:
            self._settled(key)

    def _wake(self, namespace: str) -> None:
        oldest = self._shares.next(namespace)
        if oldest is not None:
            self._stale.add(oldest)

    def _update(self, key: OwnerKey, composed: Composed | None) -> None:
        self._problems.pop(key, None)
        self._agreed.pop(key.namespace, None)
        if composed is None:
            owners = self._routes.get(key.namespace, {})
            owners.pop(key, None)
            if not owners:
                self._routes.pop(key.namespace, None)
            self._interests.forget(key)
            self._shares.forget(key)
            return
        requirements, composition = composed
        self._interests.set(key, requirements)
        if isinstance(composition, Blocked):
            self._problems[key] = composition.cause
            return
        self._routes.setdefault(key.namespace, {})[key] = composition.routes
        number = sum(len(route.backends) for route in composition.routes)
        self._shares.set(key, number, waits=composition.unsatisfied)

"""Routes of the fleet's gateway, from the compositions of their owners.

An owner is composed for its routes as soon as one of its inputs changes, independently of its reconcile, so
that a slow control plane delays no route. Namespaces take turns, so that one with many owners does not delay
the others. An owner that cannot be composed keeps its routes.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from modelplane.api.listing import listing
from modelplane.compose.composition import Blocked, Composition, Requirement
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.turns import Turns
from modelplane.gateway.table import Backend, Route, unshared
from modelplane.kube.informer import key_of
from modelplane.kube.resources import Object

_log = logging.getLogger(__name__)

_SLICE_S = 0.05
"""Time for which composing may block the other tasks of the controllers, such as the renewal of the lease."""
_TURN_S = 0.25
"""Time after which the routes composed so far are written, although other owners wait."""


class Composed(NamedTuple):
    """An owner's composition and its requirements."""

    requirements: tuple[Requirement, ...]
    composition: Composition | Blocked


Compose = Callable[[OwnerKey], Composed | None]
"""Composes an owner and writes nothing; returns None if the owner is gone."""


class Routes:
    """The routes of every owner."""

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._interests = Interests()
        self._routes: dict[OwnerKey, tuple[Route, ...]] = {}
        self._problems: dict[OwnerKey, str] = {}
        self._stale: Turns[OwnerKey] = Turns(attrgetter("namespace"))

    def __iter__(self) -> Iterator[Route]:
        """Yield the routes, sorted by their owners."""
        return (route for key in sorted(self._routes) for route in self._routes[key])

    def agreed(self) -> tuple[tuple[Route, ...], dict[str, str]]:
        """Return the routes in which each name is one backend, and the problems of the others.

        Two owners can know one endpoint at different times. The owner that was composed last is right, and
        the route of the other waits without that backend, so that nobody else's change waits.
        """
        known: dict[str, Backend] = {}
        for key in sorted(self._routes, key=lambda key: (self._is_outdated(key), key)):
            for backend in (each for route in self._routes[key] for each in route.backends):
                known.setdefault(backend.name, unshared(backend))
        routes, problems = [], {}
        for route in self:
            backends = tuple(each for each in route.backends if known[each.name] == unshared(each))
            if len(backends) == len(route.backends):
                routes.append(route)
                continue
            left = sorted({each.name for each in route.backends} - {each.name for each in backends})
            problems[f"{route.name} does not use {listing(left)}"] = "it knows them in a former state"
            message = f'cannot serve ModelService "{route.name}": its endpoints are changing: try again'
            routes.append(replace(route, backends=backends, unavailable="" if backends else message))
        return tuple(routes), problems

    def _is_outdated(self, key: OwnerKey) -> bool:
        return key in self._problems or key in self._stale

    @property
    def problems(self) -> Mapping[str, str]:
        """Reasons why owners cannot be composed, by owner and consequence."""
        return {
            f"{key} {'keeps its routes' if key in self._routes else 'is not served'}": problem
            for key, problem in self._problems.items()
        }

    def changed(self, item: Object) -> bool:
        """Note the change of an object; return whether it concerns the routes of any owner."""
        key = OwnerKey(item["kind"], *key_of(item))
        concerned = dict.fromkeys(self._interests.triggered_by(item, ""))
        if COMPOSERS[key.kind].is_routed:
            concerned[key] = None
        for owner in concerned:
            self._stale.add(owner)
        return bool(concerned)

    async def update(self) -> bool:
        """Compose owners with changed inputs; return True if some are left for the next turn."""
        clock = asyncio.get_running_loop().time
        began = turn = clock()
        while self._stale and clock() - turn < _TURN_S:
            key = self._stale.take()
            try:
                self._update(key, self._compose(key))
            except Exception:  # noqa: BLE001 - a bug in one composition takes no route from the others
                _log.exception("cannot compose the routes of %s: a bug", key)
            if clock() - began > _SLICE_S:
                await asyncio.sleep(0)
                began = clock()
        return bool(self._stale)

    def _update(self, key: OwnerKey, composed: Composed | None) -> None:
        self._problems.pop(key, None)
        if composed is None:
            self._routes.pop(key, None)
            self._interests.forget(key)
            return
        requirements, composition = composed
        self._interests.set(key, requirements)
        if isinstance(composition, Blocked):
            self._problems[key] = composition.cause
        else:
            self._routes[key] = composition.routes

"""Watches on the nodes, devices, claims and taint rules of one cluster, which capacity is observed from.

Each kind has one watch, from the first time that a composition requires it. Copies have facts only
(``compose.cluster.capacity_facts``), and a change that leaves the facts as they are, such as the heartbeat of
a node, is not reported. Changes are gathered for a second, because pods come and go together.

A cluster need not have the kinds of ``OPTIONAL``, and an earlier registration did not grant to read them. A
server that lacks or forbids one is asked again after minutes, not all the time.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from modelplane.api import labels
from modelplane.compose.cluster.capacity_facts import project
from modelplane.compose.composition import Unknown
from modelplane.controllers.clusters.watch_health import PATIENCE_S, silence_of
from modelplane.controllers.runnable import cancel_all
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource

_log = logging.getLogger(__name__)

OPTIONAL: Final = (resources.DEVICE_TAINT_RULES,)
KINDS: Final = (resources.NODES, resources.RESOURCE_SLICES, resources.RESOURCE_CLAIMS, *OPTIONAL)

_GATHERED_S: Final = 1.0
_ASKED_AGAIN_S: Final = 300.0
"""Delay before another attempt to read a kind that the server lacks or forbids."""


class CapacityWatches:
    """Copies of the objects of one cluster that capacity is observed from."""

    def __init__(self, client: Client, on_change: Callable[[Object], None]) -> None:
        """``on_change`` is called with an object that stands for the kind that changed; its name is empty."""
        self._client = client
        self._on_change = on_change
        self._informers: dict[Resource, Informer] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: dict[Resource, asyncio.TimerHandle] = {}
        self._absent: dict[Resource, tuple[Object, ...] | Unknown] = {}
        """The answer for each optional kind that the server lacks (none) or forbids (the cause)."""

    def find(self, resource: Resource) -> tuple[Object, ...] | Unknown:
        """Return the objects of a kind, or the cause if they are unknown; begin to watch it if need be."""
        informer = self._informers.get(resource)
        if informer is None:
            informer = self._begin(resource)
        if resource in self._absent:
            return self._absent[resource]
        if silence_of(informer) or not informer.synced:
            return Unknown(informer.problem or "still being read", loading=not informer.problem)
        return tuple(informer)

    async def close(self) -> None:
        """Stop every watch."""
        for timer in self._timers.values():
            timer.cancel()
        await cancel_all(self._tasks)

    def _begin(self, resource: Resource) -> Informer:
        informer = self._informers[resource] = Informer(
            self._client,
            resource,
            labels=labels.POOL if resource == resources.NODES else "",
            project=project,
            on_change=lambda _item: self._tell(resource, _GATHERED_S),
            on_answer=lambda informer: self._answered(resource, informer),
        )
        before_list = partial(self._until_served, resource) if resource in OPTIONAL else None
        self._tasks.append(
            asyncio.create_task(informer.run(before_list), name=f"capacity: {resource.plural}")
        )
        return informer

    async def _until_served(self, resource: Resource) -> bool:
        """Wait until the server has an optional kind and lets it be read."""
        while (absent := await self._absence(resource)) is not None:
            if self._absent.get(resource) != absent:
                self._absent[resource] = absent
                self._tell(resource, 0.0)
            await asyncio.sleep(_ASKED_AGAIN_S)
        if self._absent.pop(resource, None) is not None:
            self._tell(resource, _GATHERED_S)
        return True

    async def _absence(self, resource: Resource) -> tuple[Object, ...] | Unknown | None:
        """Return the answer for a kind that the server lacks or forbids; None if it can be read."""
        try:
            if not await self._client.is_served(resource):
                return ()
            # Only a list tells whether one is allowed. It needs no limit: optional kinds have few objects.
            await self._client.list(resource, metadata_only=True)
        except errors.Forbidden as error:
            _log.debug("cannot list %s: %s", resource.plural, error)
            return Unknown(str(error), forbidden=True)
        except errors.NotFound:
            return ()
        return None

    def _answered(self, resource: Resource, informer: Informer) -> None:
        self._tell(resource, PATIENCE_S + _GATHERED_S if informer.synced and informer.problem else 0.0)

    def _tell(self, resource: Resource, after_s: float) -> None:
        """Report a change after a time, unless one is to be reported before."""
        loop = asyncio.get_running_loop()
        due = loop.time() + after_s
        timer = self._timers.get(resource)
        if timer is not None and not timer.cancelled() and loop.time() < timer.when() <= due:
            return
        if timer is not None:
            timer.cancel()
        changed = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": ""}}
        self._timers[resource] = loop.call_at(due, self._on_change, changed)

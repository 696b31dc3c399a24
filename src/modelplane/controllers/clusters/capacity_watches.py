"""Watches on what capacity is observed from: Nodes, ResourceSlices and ResourceClaims of a cluster.

There is one watch for each kind, from the first time that a composition requires it. Copies have facts only
(``compose.capacity_facts``), and a change that leaves the facts as they are, such as the heartbeat of a node,
is no change. Changes are gathered for a second, because pods come and go together.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from modelplane.api import labels
from modelplane.compose.capacity_facts import project
from modelplane.compose.composition import Unknown
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource

KINDS: Final = (resources.NODES, resources.RESOURCE_SLICES, resources.RESOURCE_CLAIMS)

_GATHERED_S: Final = 1.0
_PATIENCE_S: Final = 15.0
"""Silence of a watch after which its objects count as unknown."""


class CapacityWatches:
    """Copies of the objects of one cluster that capacity is observed from."""

    def __init__(self, client: Client, on_change: Callable[[Object], None]) -> None:
        """``on_change`` is called with one of the objects that changed."""
        self._client = client
        self._on_change = on_change
        self._informers: dict[Resource, Informer] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: dict[Resource, asyncio.TimerHandle] = {}

    def find(self, resource: Resource) -> tuple[Object, ...] | Unknown:
        """Return the objects of a kind, or the cause if they are unknown; begin to watch it if need be."""
        informer = self._informers.get(resource)
        if informer is None:
            informer = self._begin(resource)
        silent = informer.problem and self._now() - informer.problem_since > _PATIENCE_S
        if silent or not informer.synced:
            return Unknown(informer.problem or "they are still being read", loading=not informer.problem)
        return tuple(informer)

    async def close(self) -> None:
        """Stop every watch."""
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, resource: Resource) -> Informer:
        informer = self._informers[resource] = Informer(
            self._client,
            resource,
            labels=labels.POOL if resource == resources.NODES else "",
            project=project,
            on_change=lambda _item: self._tell(resource, _GATHERED_S),
            on_answer=lambda informer: self._answered(resource, informer),
        )
        self._tasks.append(asyncio.create_task(informer.run(), name=f"capacity: {resource.plural}"))
        return informer

    def _answered(self, resource: Resource, informer: Informer) -> None:
        self._tell(resource, _PATIENCE_S + _GATHERED_S if informer.synced and informer.problem else 0.0)

    def _tell(self, resource: Resource, after_s: float) -> None:
        """Report a change after a time, unless one is to be reported before."""
        due = self._now() + after_s
        timer = self._timers.get(resource)
        if timer is not None and not timer.cancelled() and self._now() < timer.when() <= due:
            return
        if timer is not None:
            timer.cancel()
        changed = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": ""}}
        self._timers[resource] = asyncio.get_running_loop().call_at(due, self._on_change, changed)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

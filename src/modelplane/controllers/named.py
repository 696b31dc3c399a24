"""Copies of single objects of the control plane, of kinds that are not watched as a whole.

A Secret that a cache names is watched by its name. No other Secret is ever requested. A copy lives as long as
an owner requires it.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.runnable import Runnable
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object, Resource

_POLL_S = 0.1


class _Name(NamedTuple):
    resource: Resource
    namespace: str
    name: str


class NamedObjects(Runnable):
    """Copies of the objects that owners require by name."""

    name = "named objects"

    def __init__(
        self, client: Client, changed: Callable[[Object], None], required: Callable[[Requirement], bool]
    ) -> None:
        """``changed`` is called with an object that changed, or that was found missing or unreadable."""
        self._client = client
        self._changed = changed
        self._required = required
        self._copies: dict[_Name, tuple[Requirement, Informer, asyncio.Task[None]]] = {}

    def find(self, requirement: Requirement) -> tuple[Object, ...] | Unknown:
        """Return the object that a requirement names, or the cause if it is unknown."""
        resource = resource_for(requirement.api_version, requirement.kind)
        name = _Name(resource, requirement.namespace, requirement.name)
        if name not in self._copies:
            self._drop_unused()
            self._copies[name] = self._begin(name, requirement)
        _, informer, _ = self._copies[name]
        if not informer.synced:
            return Unknown(informer.problem or "it is still being read", loading=not informer.problem)
        found = informer.get(requirement.name, requirement.namespace)
        return () if found is None else (found,)

    def _begin(
        self, name: _Name, requirement: Requirement
    ) -> tuple[Requirement, Informer, asyncio.Task[None]]:
        informer = Informer(
            self._client,
            name.resource,
            namespace=name.namespace or None,
            fields=f"metadata.name={name.name}",
            on_change=self._changed,
        )
        return requirement, informer, asyncio.create_task(self._run(name, informer))

    async def _run(self, name: _Name, informer: Informer) -> None:
        absent: Object = {
            "apiVersion": name.resource.api_version,
            "kind": name.resource.kind,
            "metadata": {"name": name.name, "namespace": name.namespace},
        }
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            while not (informer.synced or informer.problem):
                await asyncio.sleep(_POLL_S)
            self._changed(absent)
            if not informer.synced:
                await informer.wait_until_synced()
                self._changed(absent)

    def _drop_unused(self) -> None:
        for name, (requirement, _, task) in tuple(self._copies.items()):
            if not self._required(requirement):
                task.cancel()
                del self._copies[name]

    async def close(self) -> None:
        """Stop every watch."""
        tasks = [task for _, _, task in self._copies.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""Refusal to act while another owns the CustomResourceDefinitions.

Crossplane and the controllers compose the same children. One rule: the owner of the definitions reconciles.
A process checks again whenever a definition changes.
"""

import asyncio

from modelplane.api.meta import GROUP
from modelplane.compose.definition_owner import DefinitionOwner, owned_by_other
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object


class NotOurs(Exception):
    """Another owns the definitions; the message has the remedy."""


class Definitions:
    """The CustomResourceDefinitions of the control plane, without their schemas."""

    def __init__(self, client: Client, own: DefinitionOwner = DefinitionOwner.CONTROLLERS) -> None:
        self._own = own
        self.informer = Informer(
            client, resources.CUSTOM_RESOURCE_DEFINITIONS, metadata_only=True, on_change=self._changed
        )
        self._touched = asyncio.Event()
        self._read = asyncio.Event()

    def _changed(self, definition: Object) -> None:
        if _is_ours(definition):
            self._touched.set()

    async def run(self) -> None:
        """Watch until another owns the definitions, then raise ``NotOurs``."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self.informer.run())
            await self.informer.wait_until_synced()
            while not (
                rejected := owned_by_other((entry for entry in self.informer if _is_ours(entry)), self._own)
            ):
                self._read.set()
                await self._touched.wait()
                self._touched.clear()
            watching.cancel()
        raise NotOurs(rejected.message)

    async def wait_until_read(self) -> None:
        """Return once the definitions have been read and are not another's."""
        await self._read.wait()


def _is_ours(definition: Object) -> bool:
    return bool(definition["metadata"]["name"].partition(".")[2] == GROUP)

"""Applying many objects to a control plane, and waiting until it serves new kinds."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from modelplane.compose.readiness import is_true
from modelplane.kube import resources
from modelplane.kube.client import Client

_ESTABLISHED_S = 30.0
_TOGETHER = 4


async def apply_in_order(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Apply manifests one after the other."""
    for manifest in manifests:
        await client.apply(manifest)


async def apply_together(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Apply manifests that do not need one another."""
    room = asyncio.Semaphore(_TOGETHER)

    async def apply(manifest: Mapping[str, Any]) -> None:
        async with room:
            await client.apply(manifest)

    await gather_all(apply(manifest) for manifest in manifests)


async def gather_all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do everything at once; raise the first failure once nothing is under way any more."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def wait_until_established(client: Client, names: list[str]) -> None:
    """Return once the API server serves every named CustomResourceDefinition."""
    async with asyncio.timeout(_ESTABLISHED_S):
        # One by one: a list of all has megabytes of schemas, each time.
        for name in names:
            while not await _established(client, name):
                await asyncio.sleep(0.05)


async def _established(client: Client, name: str) -> bool:
    definition = await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name)
    return definition is not None and is_true(definition, "Established")

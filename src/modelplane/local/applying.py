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

    await all_of(apply(manifest) for manifest in manifests)


async def all_of(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do everything at once; raise the first failure once nothing is under way any more."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def until_established(client: Client, names: list[str]) -> None:
    """Return once the API server serves every named CustomResourceDefinition."""
    waiting = set(names)
    async with asyncio.timeout(_ESTABLISHED_S):
        while True:
            found = (await client.list(resources.CUSTOM_RESOURCE_DEFINITIONS)).items
            waiting -= {item["metadata"]["name"] for item in found if is_true(item, "Established")}
            if not waiting:
                return
            await asyncio.sleep(0.05)

"""The kinds of Modelplane on a control plane of a test's own."""

import asyncio
from collections.abc import Iterable, Sequence

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.fleet_resources import resource_for
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from support.patience import PATIENCE_S


async def install(client: Client, others: Iterable[Object] = ()) -> None:
    """Install the kinds that are composed, and others; return once objects of them can be written."""
    ours = [kind for kind in KINDS if kind.name in COMPOSERS]
    created = await create_missing(client, [*(crd(kind) for kind in ours), *others])
    async with asyncio.timeout(PATIENCE_S):
        for definition in created:
            await _open(client, definition)


async def create_missing(client: Client, definitions: Iterable[Object]) -> Sequence[Object]:
    """Create the CustomResourceDefinitions that aren't there; return them once they are established.

    To apply one that is there takes an API server as long as to create it, and ten times as long as a look.
    """
    missing = [
        definition
        for definition in definitions
        if await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"]) is None
    ]
    await apply_definitions(client, missing)
    return missing


async def apply_definitions(
    client: Client, definitions: Sequence[Object], namespaces: Iterable[str] = ()
) -> None:
    """Create namespaces and CustomResourceDefinitions; return once these are established."""
    for name in namespaces:
        await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for definition in definitions:
        await client.apply(definition)
    names = [definition["metadata"]["name"] for definition in definitions]
    await cluster_objects.wait_until_established(client, names)


async def _open(client: Client, definition: Object) -> None:
    """Wait until the server has opened a kind's storage, which it does a moment after it says it has."""
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["storage"])
    try:
        resource = resource_for(f"{spec['group']}/{version}", spec["names"]["kind"])
    except KeyError:
        return  # nobody here reads that kind
    while True:
        try:
            await client.list(resource)
        except errors.ApiError:
            await asyncio.sleep(0.05)
        else:
            return

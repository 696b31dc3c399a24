import asyncio
from typing import Any

import pytest

from modelplane.controllers.definition_check import Definitions, NotOurs
from modelplane.kube.client import Client


def _definition(name: str, crossplane: bool = False, version: int = 5) -> dict[str, Any]:
    owner = {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "name": name,
        "uid": "x",
        "controller": True,
    }
    metadata = {"name": name, "uid": name, "resourceVersion": str(version)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata | ({"ownerReferences": [owner]} if crossplane else {}),
    }


OURS = "modeldeployments.modelplane.ai"


async def test_definitions_that_are_crossplanes_end_it_before_anything_is_done(
    client: Client, plane: Any
) -> None:
    plane.has([_definition(OURS, crossplane=True)])
    definitions = Definitions(client)
    with pytest.raises(NotOurs, match=rf"the controllers must not run: .*{OURS}"):
        await asyncio.wait_for(definitions.run(), 5)
    assert not definitions._read.is_set()


@pytest.mark.virtual_time
async def test_definitions_that_crossplane_takes_over_end_it(client: Client, plane: Any) -> None:
    plane.has([_definition(OURS), _definition("buckets.example.org", crossplane=True)])
    definitions = Definitions(client)
    running = asyncio.create_task(definitions.run())
    await asyncio.wait_for(definitions.wait_until_read(), 5)
    definitions.informer.remember(_definition(OURS, version=2000))
    await asyncio.sleep(600)
    assert not running.done()
    definitions.informer.remember(_definition(OURS, crossplane=True, version=2001))
    with pytest.raises(NotOurs):
        await asyncio.wait_for(running, 5)


async def test_no_definitions_at_all_are_nobodys(client: Client, plane: Any) -> None:
    definitions = Definitions(client)
    running = asyncio.create_task(definitions.run())
    await asyncio.wait_for(definitions.wait_until_read(), 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert plane.writes == []

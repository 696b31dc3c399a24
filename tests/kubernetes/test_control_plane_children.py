"""An object of others' kind, invented here, is composed on a real control plane."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from modelplane.compose import workload_kinds
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.readiness import condition_of, exists
from modelplane.compose.workload_kinds import Place, WorkloadKind
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import of_row
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from support import kinds
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.kubernetes,
    # Controllers that stop while they connect leave a connection to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

ROW = WorkloadKind(
    "storage.example.com", "v1", "Bucket", "buckets", "Invented here.", place=Place.CONTROL_PLANE
)
BUCKETS = of_row(ROW)
CLASS = fleet_resources.INFERENCE_CLASSES
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": ROW.definition},
    "spec": {
        "group": ROW.group,
        "scope": "Namespaced",
        "names": {"kind": ROW.kind, "plural": ROW.plural, "singular": "bucket", "listKind": "BucketList"},
        "versions": [
            {
                "name": ROW.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}
                        },
                    }
                },
            }
        ],
    },
}


def _composed(request: Request[Any, Any]) -> Composition:
    """Compose a bucket for each capital letter of a class's description."""
    names = [letter.lower() for letter in request.owner.spec.description if letter.isupper()]
    return Composition(tuple(Desired(name, _bucket(name), exists) for name in names))


def _bucket(name: str) -> Object:
    metadata = {"name": name, "namespace": "modelplane-system"}
    return {"apiVersion": ROW.api_version, "kind": ROW.kind, "metadata": metadata, "spec": {"size": 1}}


def _class(description: str) -> Object:
    device = {"name": "gpu", "driver": "test.example", "deviceClassName": "test.example"}
    return {
        "apiVersion": CLASS.api_version,
        "kind": CLASS.kind,
        "metadata": {"name": "letters"},
        "spec": {"description": description, "devices": [device]},
    }


@pytest.fixture
async def client(own_control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """An administrator's client, where a class is composed of buckets that are not installed yet."""
    monkeypatch.setitem(workload_kinds.ROWS, (ROW.api_version, ROW.kind), ROW)
    monkeypatch.setitem(COMPOSERS, CLASS.kind, replace(COMPOSERS[CLASS.kind], decide=_composed))
    async with Client.from_kubeconfig(
        str(own_control_plane.kubeconfig), known=fleet_resources.find_known
    ) as connected:
        await kinds.install(connected)
        for manifest in cluster_objects.build_fleet_roles():
            await connected.apply(manifest)
        yield connected


async def _eventually(check: Callable[[], Awaitable[bool]], timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not await check():
            await asyncio.sleep(0.05)


async def test_an_invented_kind_is_written_watched_corrected_and_pruned(
    own_control_plane: ControlPlane, client: Client
) -> None:
    async def buckets() -> list[str]:
        items = (await client.list(BUCKETS, "modelplane-system")).items
        return sorted(item["metadata"]["name"] for item in items)

    async def said(cause: str) -> bool:
        found = await client.get(CLASS, "letters") or {}
        return cause in condition_of(found, "Synced").get("message", "")

    async def are(*names: str) -> None:
        async def there() -> bool:
            return await buckets() == list(names)

        await _eventually(there)

    async with running_controllers(own_control_plane):
        await client.apply(_class("A B"))
        await _eventually(lambda: said("kind Bucket of storage.example.com/v1 is not installed"))
        await kinds.install(client, [DEFINITION])
        await are("a", "b")
        bucket = await client.get(BUCKETS, "a", "modelplane-system")
        assert bucket is not None
        # The garbage collector goes by it, once it knows the kind: it looks for new ones twice a minute.
        [reference] = bucket["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"], reference["controller"]) == (
            CLASS.kind,
            "letters",
            True,
        )
        await client.patch(BUCKETS, "a", {"spec": {"size": 7}}, "modelplane-system")

        async def corrected() -> bool:
            found = await client.get(BUCKETS, "a", "modelplane-system")
            return found is not None and found["spec"]["size"] == 1

        await _eventually(corrected)
    await client.apply(_class("B"))
    async with running_controllers(own_control_plane):
        await are("b")
        await client.delete(BUCKETS, "b", "modelplane-system")
        await are("b")

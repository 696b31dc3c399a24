"""The XRDs on a real API server that has Crossplane's own CustomResourceDefinition for them."""

import asyncio
from pathlib import Path

import pytest
import yaml

from modelplane.api.kinds import KINDS
from modelplane.api.schema.xrd import build_xrd
from modelplane.controllers import fleet_resources
from modelplane.kube.client import Client
from modelplane.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from modelplane.local.kubernetes.cluster_objects import wait_until_established
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes

DEFINITIONS = "compositeresourcedefinitions"
ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT.parent / "shared" / "crds" / "crossplane" / f"apiextensions.crossplane.io_{DEFINITIONS}.yaml"


@pytest.fixture(scope="module")
def kubeconfig(control_plane):
    """The kubeconfig of a control plane that serves XRDs."""
    if not CRD.is_file():
        pytest.skip("Crossplane's CustomResourceDefinitions are not beside the repository")
    definition = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    name = definition["metadata"]["name"]

    async def until_not_leaving(client):
        """Wait for the end of one that another module has deleted, which can still be applied."""
        async with asyncio.timeout(PATIENCE_S):
            while found := await client.get(CUSTOM_RESOURCE_DEFINITIONS, name):
                if "deletionTimestamp" not in found["metadata"]:
                    return
                await asyncio.sleep(0.05)

    async def install():
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.find_known
        ) as client:
            await until_not_leaving(client)
            await client.apply(definition)
            await wait_until_established(client, [name])

    async def remove():
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.find_known
        ) as client:
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)

    asyncio.run(install())
    yield str(control_plane.kubeconfig)
    asyncio.run(remove())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_an_xrd_is_accepted_and_nothing_of_it_is_dropped(kubeconfig, kind):
    manifest = build_xrd(kind)
    async with Client.from_kubeconfig(kubeconfig, known=fleet_resources.find_known) as client:
        accepted = (await client.apply(manifest, dry_run=True))["spec"]
    assert {field: accepted[field] for field in manifest["spec"]} == manifest["spec"]

"""Each example applies as it is: in the order of its files, to a control plane that has only our kinds."""

import asyncio

import pytest
import yaml

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.controllers import fleet_resources
from modelplane.kube.client import Client
from modelplane.local.examples import Example, list_examples
from support.kinds import apply_definitions

pytestmark = pytest.mark.kubernetes

BUILT_IN = {"ConfigMap", "LimitRange", "Namespace", "PriorityClass", "ResourceQuota", "Secret"}
"""Kinds of Kubernetes itself; those of other projects are checked where they are installed."""
EXISTING = ("argocd", "ml-team", "modelplane-system")
"""Namespaces of Argo CD, of the first tutorial, and of an installation."""


@pytest.fixture(scope="module")
def kubeconfig(control_plane):
    """The kubeconfig of a control plane that has our kinds."""
    crds = [crd(kind) for kind in KINDS]

    async def install():
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.find_known
        ) as client:
            await apply_definitions(client, crds, EXISTING)

    asyncio.run(install())
    return str(control_plane.kubeconfig)


@pytest.fixture
async def client(kubeconfig):
    async with Client.from_kubeconfig(kubeconfig, known=fleet_resources.find_known) as connected:
        yield connected


@pytest.mark.parametrize("example", list_examples(), ids=lambda example: example.name)
async def test_an_example_applies_as_it_is(client: Client, example: Example) -> None:
    ours = {kind.name for kind in KINDS}
    for path in example.manifests:
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest["kind"] in ours | BUILT_IN:
                is_namespace = manifest["kind"] == "Namespace"
                stored = await client.apply(manifest, dry_run=not is_namespace)
                assert stored["metadata"]["name"] == manifest["metadata"]["name"]

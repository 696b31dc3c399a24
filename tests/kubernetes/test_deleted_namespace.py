"""A namespace is deleted on a real API server that has the provider's kinds, and the policy beside them."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from click.testing import CliRunner

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import kind_of
from modelplane.api.meta import SYSTEM_NAMESPACE
from modelplane.api.schema.crd import crd
from modelplane.cli.operate.cleanup import cleanup
from modelplane.controllers import fleet_resources
from modelplane.crossplane.function.companions import provider_config_name
from modelplane.crossplane.package.prerequisites import build_prerequisites
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from modelplane.local.kubernetes.cluster_objects import wait_until_established
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.patience import PATIENCE_S
from support.third_party_crds import definitions

pytestmark = pytest.mark.kubernetes

GROUP = "kubernetes.m.crossplane.io"
API_VERSION = f"{GROUP}/v1alpha1"
ADMISSION = "admissionregistration.k8s.io"
OBJECTS = Resource(GROUP, "v1alpha1", "Object", "objects")
USAGES = Resource(GROUP, "v1alpha1", "ProviderConfigUsage", "providerconfigusages")
POLICIES = Resource(
    ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
BINDINGS = Resource(
    ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)
FINALIZER = "finalizer.managedresource.crossplane.io"
FAR = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "far", "namespace": "default"}}


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    """Let the client write kinds that the controllers never write."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (OBJECTS, USAGES, POLICIES, BINDINGS):
            patch.setitem(resources._BY_KIND, (kind.api_version, kind.kind), kind)
        yield


@pytest.fixture
async def provided(own_control_plane) -> AsyncIterator[Client]:
    """A client of a control plane with the provider's kinds."""
    crds = [each for each in definitions("provider-kubernetes") if each["spec"]["group"] == GROUP]
    async with Client.from_kubeconfig(
        str(own_control_plane.kubeconfig), known=fleet_resources.find_known
    ) as client:
        await create_missing(client, crds)
        yield client


async def _tracked(client: Client, namespace: str) -> None:
    """Make an Object as the provider keeps it: held by a finalizer, tracked by a usage."""
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    replica = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelReplica", "name": "r", "uid": "r"}
    manifest = FAR
    made = await client.create(
        {
            "apiVersion": API_VERSION,
            "kind": "Object",
            "metadata": {
                "name": "far",
                "namespace": namespace,
                "finalizers": [FINALIZER],
                "ownerReferences": [{**replica, "controller": True}],
            },
            "spec": {
                "forProvider": {"manifest": manifest},
                "providerConfigRef": {"kind": "ClusterProviderConfig", "name": provider_config_name("a")},
            },
        }
    )
    reference = {"apiVersion": API_VERSION, "kind": "Object", "name": "far"}
    uid = made["metadata"]["uid"]
    await client.create(
        {
            "apiVersion": API_VERSION,
            "kind": "ProviderConfigUsage",
            "metadata": {
                "name": uid,
                "namespace": namespace,
                "ownerReferences": [
                    {**reference, "uid": uid, "controller": True, "blockOwnerDeletion": True}
                ],
            },
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "a"},
            "resourceRef": reference,
        }
    )


async def _until(holds: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.sleep(0.2)


def _is_deleted(item: Object | None) -> bool:
    return item is not None and "deletionTimestamp" in item["metadata"]


async def _usages(client: Client, namespace: str) -> int:
    return len((await client.list(USAGES, namespace)).items)


async def _registered(client: Client, kubeconfig: bytes) -> None:
    """Register the API server itself as an inference cluster."""
    definition = crd(kind_of(InferenceCluster))
    await client.apply(definition)
    await wait_until_established(client, [definition["metadata"]["name"]])
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}})
    await client.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "a", "namespace": SYSTEM_NAMESPACE},
            "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
        }
    )
    await client.apply(
        {
            "apiVersion": fleet_resources.INFERENCE_CLUSTERS.api_version,
            "kind": "InferenceCluster",
            "metadata": {"name": "a"},
            "spec": {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "a"}}},
                "servingStack": {"profile": "None"},
                "nodePools": [{"name": "pool", "className": "l4", "nodeCount": 1}],
            },
        }
    )


async def test_without_the_policy_the_provider_loses_its_way_and_cleanup_is_the_way_out(
    own_control_plane: ControlPlane, provided: Client
) -> None:
    async def is_being_deleted() -> bool:
        return _is_deleted(await provided.get(OBJECTS, "far", "lost"))

    async def is_forgotten() -> bool:
        return await _usages(provided, "lost") == 0

    async def is_gone() -> bool:
        return await provided.get(resources.NAMESPACES, "lost") is None

    await _registered(provided, await asyncio.to_thread(own_control_plane.kubeconfig.read_bytes))
    await provided.apply(FAR)
    await _tracked(provided, "lost")
    await provided.delete(resources.NAMESPACES, "lost")
    await _until(is_being_deleted)
    await _until(is_forgotten)
    arguments = ["lost", "--kubeconfig", str(own_control_plane.kubeconfig)]
    shown = await asyncio.to_thread(CliRunner().invoke, cleanup, [*arguments, "--dry-run"])
    assert (shown.exit_code, shown.output.splitlines()) == (
        0,
        [
            'a: ConfigMap "default/far"',
            "Would delete 1 objects on clusters, and release 1 Crossplane Objects",
        ],
    )
    ran = await asyncio.to_thread(CliRunner().invoke, cleanup, [*arguments, "--yes"])
    assert (ran.exit_code, ran.output.splitlines()[0]) == (0, 'a: ConfigMap "default/far"')
    assert await provided.get(resources.CONFIG_MAPS, "far", "default") is None
    await _until(is_gone)


async def test_with_the_policy_it_stays_until_what_it_is_for_is_gone(provided: Client) -> None:
    async def is_being_deleted() -> bool:
        return _is_deleted(await provided.get(OBJECTS, "far", "kept"))

    async def told() -> str:
        namespace = await provided.get(resources.NAMESPACES, "kept")
        conditions = namespace["status"].get("conditions", ()) if namespace else ()
        return " ".join(each.get("message", "") for each in conditions)

    async def explained() -> bool:
        return "needs it to delete what Object far stands for on its cluster" in await told()

    async def is_gone() -> bool:
        return await provided.get(resources.NAMESPACES, "kept") is None

    for document in build_prerequisites():
        if document["apiVersion"].startswith(ADMISSION):
            await provided.apply(document)
    await _tracked(provided, "kept")
    # The server reads policies once a second, and a moment more may pass on a busy machine.
    await asyncio.sleep(3)
    await provided.delete(resources.NAMESPACES, "kept")
    await _until(is_being_deleted)
    await _until(explained)
    assert await _usages(provided, "kept") == 1
    await provided.patch(OBJECTS, "far", {"metadata": {"finalizers": None}}, "kept")
    await _until(is_gone)

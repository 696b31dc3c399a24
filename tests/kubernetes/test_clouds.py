"""Clusters of clouds on a real control plane, with the real definitions of the clouds' providers.

The providers are simulated.
"""

import base64
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from modelplane.api.clouds.aks_cluster import AKSCluster
from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.clouds.eks_cluster import EKSCluster
from modelplane.api.clouds.gke_cluster import GKECluster
from modelplane.api.clouds.nebius_cluster import NebiusCluster
from modelplane.api.clouds.serving_stack import ServingStack, name_stack
from modelplane.api.clouds.vultr_cluster import VultrCluster
from modelplane.compose.readiness import condition_of
from modelplane.compose.workload_kinds import Place, rows
from modelplane.controllers import fleet_resources
from modelplane.controllers.children import ownership
from modelplane.controllers.fleet_resources import of_row, resource_of_kind
from modelplane.kube.client import Client
from modelplane.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Object
from modelplane.local.kubernetes import cluster_objects
from support import kinds
from support.cloud_clusters import class_of, cluster_of
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.patience import eventually
from support.simulated_clouds import SimulatedClouds
from support.third_party_crds import definitions

pytestmark = [
    pytest.mark.kubernetes,
    # Controllers that stop while they connect leave a connection to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

SYSTEM = "modelplane-system"
CLUSTERS = fleet_resources.INFERENCE_CLUSTERS
CLASSES = fleet_resources.INFERENCE_CLASSES
STACKS = resource_of_kind(ServingStack)
KINDS = {
    "GKE": resource_of_kind(GKECluster),
    "EKS": resource_of_kind(EKSCluster),
    "AKS": resource_of_kind(AKSCluster),
    "Nebius": resource_of_kind(NebiusCluster),
    "Vultr": resource_of_kind(VultrCluster),
}
ORIGINS = ("aws", "azure", "gcp", "nebius", "vultr")


@pytest.fixture
async def client(own_control_plane: ControlPlane) -> AsyncIterator[Client]:
    """An administrator's client, where the controllers may do what they do on a fleet."""
    async with Client.from_kubeconfig(
        str(own_control_plane.kubeconfig), known=fleet_resources.find_known
    ) as connected:
        await kinds.install(connected)
        for manifest in cluster_objects.build_fleet_roles():
            await connected.apply(manifest)
        yield connected


async def _said(client: Client, cloud: str, type_: str, *, internal: bool = False) -> dict[str, Any]:
    found = (
        await client.get(KINDS[cloud], cloud.lower(), SYSTEM)
        if internal
        else await client.get(CLUSTERS, cloud.lower())
    )
    return dict(condition_of(found or {}, type_))


async def _managed(client: Client) -> list[Object]:
    return [
        item for row in rows(Place.CONTROL_PLANE) for item in (await client.list(of_row(row), SYSTEM)).items
    ]


def _kubeconfig(text: str, name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": SYSTEM},
        "data": {"kubeconfig": base64.b64encode(text.encode()).decode()},
    }


UNREACHABLE = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""
WITHOUT_CREDENTIAL = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


async def test_a_cluster_of_each_cloud_goes_from_nothing_to_running(
    own_control_plane: ControlPlane, client: Client
) -> None:
    async def all_are(reason: str, type_: str, *, internal: bool) -> bool:
        said = [await _said(client, cloud, type_, internal=internal) for cloud in KINDS]
        return all(each.get("reason") == reason for each in said)

    async with running_controllers(own_control_plane):
        for cloud in KINDS:
            await client.apply(class_of(Cloud(cloud)))
            await client.apply(cluster_of(Cloud(cloud)))
        await eventually(lambda: all_are("ProviderNotInstalled", "ClusterReady", internal=True))

        async def named() -> bool:
            message = (await _said(client, "EKS", "ClusterReady")).get("message", "")
            return "xpkg.crossplane.io/crossplane-contrib/provider-aws-" in message

        await eventually(named)
        assert await _managed_kinds_installed(client) == []
        for origin in ORIGINS:
            await kinds.install(client, definitions(f"provider-upjet-{origin}"))
        await eventually(lambda: all_are("Provisioning", "ClusterReady", internal=True))

        with SimulatedClouds(str(own_control_plane.kubeconfig), lambda _item: {}):
            await eventually(lambda: all_are("ClusterRunning", "ClusterReady", internal=True))
        kubeconfigs = {}
        for cloud, kind in KINDS.items():
            found = await client.get(kind, cloud.lower(), SYSTEM)
            assert found is not None
            kubeconfigs[cloud] = found["status"]["secrets"][0]["name"]
        await client.apply(_kubeconfig(own_control_plane.kubeconfig.read_text(), kubeconfigs["EKS"]))
        await client.apply(_kubeconfig(WITHOUT_CREDENTIAL, kubeconfigs["GKE"]))

        async def runs() -> bool:
            return (await _said(client, "EKS", "ClusterReady")).get("reason") == "ClusterRunning"

        await eventually(runs)
        backend = await _said(client, "EKS", "BackendReady")
        assert backend["reason"] == "Installing"

        async def has_a_stack() -> bool:
            return await client.get(STACKS, name_stack("eks"), SYSTEM) is not None

        await eventually(has_a_stack)
        stack = await client.get(STACKS, name_stack("eks"), SYSTEM)
        assert stack is not None
        assert (stack["spec"]["clusterName"], stack["spec"]["profile"]) == ("eks", "Standard")
        assert [each["name"] for each in stack["spec"]["secrets"]] == [kubeconfigs["EKS"]]
        assert stack["metadata"]["finalizers"] == [ownership.FINALIZER]

        async def explained() -> bool:
            message = (await _said(client, "GKE", "ClusterReady")).get("message", "")
            return "create it with a Google credential" in message

        await eventually(explained)
        before = {item["metadata"]["uid"] for item in await _managed(client)}
        await client.delete(CLASSES, "l4-eks")
        await client.patch(CLUSTERS, "gke", {"spec": {"nodePools": [{**_pool(), "zones": ["us-east1-b"]}]}})
        await client.patch(CLUSTERS, "aks", {"spec": {"nodePools": [{**_pool(), "className": "typo"}]}})
        await client.apply(_kubeconfig(UNREACHABLE, kubeconfigs["EKS"]))
        await _lose_the_cloud(client, "Vultr")
        for cloud, (type_, reason, internal) in DOUBTS.items():
            await eventually(partial(_is_said, client, cloud, type_, reason, internal=internal))
        assert {item["metadata"]["uid"] for item in await _managed(client)} == before
        assert await client.get(STACKS, name_stack("eks"), SYSTEM) is not None


def _pool() -> Object:
    return {"name": "gpu", "className": "l4-gke"}


DOUBTS = {
    "GKE": ("ClusterReady", "InvalidSettings", True),
    "AKS": ("ClusterReady", "WaitingForClasses", False),
    "EKS": ("ClusterReady", "Unreachable", False),
    "Vultr": ("ClusterReady", "Provisioning", True),
}
"""The condition that tells of a zone elsewhere, a typo, a control plane that is down, and an outage."""


async def _is_said(client: Client, cloud: str, type_: str, reason: str, *, internal: bool) -> bool:
    return (await _said(client, cloud, type_, internal=internal)).get("reason") == reason


async def _lose_the_cloud(client: Client, cloud: str) -> None:
    """Let every resource of a cloud's cluster report an outage."""
    conditions = [
        {"type": type_, "status": "False", "reason": "Outage", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for type_ in ("Ready", "Synced")
    ]
    for row in rows(Place.CONTROL_PLANE):
        for item in (await client.list(of_row(row), SYSTEM)).items:
            if item["metadata"]["ownerReferences"][0]["kind"] == KINDS[cloud].kind:
                body = {"status": {"conditions": conditions}}
                await client.patch(of_row(row), item["metadata"]["name"], body, SYSTEM, subresource="status")


async def _managed_kinds_installed(client: Client) -> list[str]:
    crds = (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items
    return [each["metadata"]["name"] for each in crds if each["metadata"]["name"].endswith(".upbound.io")]

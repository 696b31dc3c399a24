import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.runnable import run_all
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from unit.conftest import Scripted

pytestmark = pytest.mark.virtual_time

GOOD = b"""
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""
INFERENCE_CLUSTERS = resource_for("modelplane.ai/v1alpha1", "InferenceCluster")


def _cluster(name: str, version: int = 1, **origin: Any) -> dict[str, Any]:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name, "uid": name, "resourceVersion": str(version)},
        "spec": {"cluster": origin},
    }


def _existing(secret: str) -> dict[str, Any]:
    return {"source": "Existing", "existing": {"secretRef": {"name": secret}}}


def _secret(name: str, content: bytes, version: int = 2) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": "modelplane-system",
            "uid": name,
            "resourceVersion": str(version),
        },
        "data": {"kubeconfig": base64.b64encode(content).decode()},
    }


@pytest.fixture
async def registered(client: Client) -> Informer:
    return Informer(client, INFERENCE_CLUSTERS)


@pytest.fixture
async def secrets(client: Client, registered: Informer, clusters: Clusters) -> AsyncIterator[Informer]:
    """The Secrets that the running ``Kubeconfigs`` follows."""
    kubeconfigs = Kubeconfigs(client, registered, clusters)
    task = asyncio.create_task(run_all((kubeconfigs,), (registered,)))
    await asyncio.sleep(1)
    yield kubeconfigs.informers[0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert list(clusters) == []


@pytest.fixture
def plane() -> Scripted:
    server = Scripted()
    server.has(
        [
            _cluster("east", **_existing("east")),
            _cluster("later", **_existing("later")),
            _cluster("odd", source="Moon"),
            _cluster("west", source="EKS", eks={"region": "r"}),
            _secret("east", GOOD),
        ]
    )
    return server


def _connected(clusters: Clusters) -> list[str]:
    return sorted(connection.name for connection in clusters)


@pytest.mark.usefixtures("secrets")
async def test_every_cluster_is_connected_to_or_has_a_problem(clusters: Clusters) -> None:
    assert _connected(clusters) == ["east"]
    assert {name: clusters.problem(name) for name in ("later", "odd", "west")} == {
        "later": 'there is no Secret "later" in namespace "modelplane-system": '
        "create it with the cluster's kubeconfig",
        "odd": "cannot read spec.cluster: Invalid enum value 'Moon' - at `$.source`",
        "west": "a cluster of source EKS has no kubeconfig yet",
    }


async def test_a_secret_that_comes_later_connects_the_clusters_that_name_it(
    clusters: Clusters, secrets: Informer
) -> None:
    secrets.remember(_secret("later", GOOD, 2000))
    assert _connected(clusters) == ["east", "later"]


@pytest.mark.usefixtures("secrets")
async def test_an_origin_that_cannot_be_read_any_more_leaves_the_connection(
    clusters: Clusters, registered: Informer
) -> None:
    before = clusters.get("east")
    registered.remember(_cluster("east", 2000, source="Moon"))
    assert clusters.get("east") is before


@pytest.mark.usefixtures("secrets")
async def test_a_cluster_that_is_registered_otherwise_is_disconnected(
    clusters: Clusters, registered: Informer
) -> None:
    registered.remember(_cluster("east", 2000, source="EKS", eks={"region": "r"}))
    assert _connected(clusters) == []

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from modelplane.api import labels
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.children import ownership
from modelplane.controllers.children.ownership import ChildIndex
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.finalizer import Finalizer
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.status_writer import StatusWriter
from modelplane.kube import resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from support.helm import no_releases

REPLICA = "/apis/modelplane.ai/v1alpha1/namespaces/n/modelreplicas/r"
CLUSTER = "/apis/modelplane.ai/v1alpha1/inferenceclusters/east"
CLASS = "/apis/modelplane.ai/v1alpha1/inferenceclasses/l4"
CACHE = "/apis/modelplane.ai/v1alpha1/namespaces/n/modelcaches/weights"
ENDPOINT = "/apis/modelplane.ai/v1alpha1/namespaces/n/modelendpoints/r"
SERVICE = "/api/v1/namespaces/n/services/s"
STACK = "/apis/infrastructure.modelplane.ai/v1alpha1/namespaces/modelplane-system/servingstacks/east-stack"
LEFT = (
    'its objects on InferenceCluster "east", with label modelplane.ai/owner-uid=uid-r, can still be running'
)


def _object(kind: str, name: str, namespace: str = "", **content: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "5",
        "generation": 1,
        "finalizers": [ownership.FINALIZER, ownership.IN_USE],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, **content}


def _replica() -> dict[str, Any]:
    return _object("ModelReplica", "r", "n", spec={"clusterName": "east"}, status={"clusters": ["east"]})


def _service() -> dict[str, Any]:
    own = {labels.OWNER_UID: "uid-r", labels.MANAGED_BY: "modelplane"}
    metadata = {"name": "s", "namespace": "n", "uid": "uid-s", "resourceVersion": "5", "labels": own}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata}


class Bench:
    """A finalizer, and what it did."""

    def __init__(self, plane: Any, client: Client, clusters: Clusters) -> None:
        self.plane = plane
        self.informers = {
            name: Informer(client, resource_for(row.api_version, name)) for name, row in COMPOSERS.items()
        }
        self.informers["InferenceCluster"].remember(_object("InferenceCluster", "east"))
        children = ChildIndex(ownership.controller_uid)
        for informer in self.informers.values():
            children.follow(informer)
        reporter = StatusWriter(client, self.informers)
        self.releases = no_releases(clusters)
        self._finalizer = Finalizer(client, self.informers, clusters, children, self.releases, reporter)
        self.warnings: list[tuple[str, str]] = []
        """Of the last attempt: the object that each is about, and its note."""

    async def finalize(self, owner: dict[str, Any]) -> str:
        """Return what the owner waits for, or nothing when it was let go."""
        self.plane.writes.clear()
        await self._finalizer.finalize(owner)
        written = [write for write in self.plane.writes if write[0] != "DELETE"]
        events = [body for _, path, _, body in written if path.endswith("/events")]
        assert {(each["type"], each["reason"]) for each in events} <= {("Warning", "Abandoned")}
        self.warnings = [(each["regarding"]["name"], each["note"]) for each in events]
        *before, (_, path, _, body) = written
        assert len(before) == len(events), "what happened is recorded before an owner is let go"
        if path in (REPLICA, CLUSTER, CLASS, CACHE, STACK):
            assert body["metadata"]["finalizers"] == []
            return ""
        # The scripted server answers a status without the metadata that it keeps.
        informer = self.informers[owner["kind"]]
        if informer.get(owner["metadata"]["name"], owner["metadata"].get("namespace", "")):
            informer._drop(owner)
            informer.remember(owner)
        [condition] = body["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "False", "Deleting")
        return str(condition["message"])


@pytest.fixture
def bench(plane: Any, client: Client, clusters: Clusters) -> Bench:
    return Bench(plane, client, clusters)


async def test_an_owner_waits_for_what_it_made_to_be_gone(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    east.has([_service()])
    connection = await connected(clusters, "east", east)
    assert await bench.finalize(_replica()) == 'waiting for Service "s" on "east" to go'
    assert east.wrote("DELETE") == [SERVICE]
    east.has([])
    connection.watches.informer(resources.SERVICES)._drop(_service())
    assert await bench.finalize(_replica()) == ""


async def test_a_replica_without_a_status_waits_for_the_cluster_that_its_creation_recorded(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    """A process that was killed between its first write to the cluster and the status leaves it like this."""
    new = _replica()
    del new["status"]
    new["metadata"]["ownerReferences"] = [
        {"kind": "ModelDeployment", "name": "d", "uid": "d", "controller": True}
    ]
    assert "which cannot be reached" in await bench.finalize(new)
    east.has([_service()])
    connection = await connected(clusters, "east", east)
    assert await bench.finalize(new) == 'waiting for Service "s" on "east" to go'
    east.has([])
    connection.watches.informer(resources.SERVICES)._drop(_service())
    assert await bench.finalize(new) == ""


async def test_the_endpoint_of_a_replica_goes_with_the_first_look(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    east.has([_service()])
    await connected(clusters, "east", east)
    reference = {"kind": "ModelReplica", "name": "r", "uid": "uid-r", "controller": True}
    endpoint = _object("ModelEndpoint", "r", "n")
    del endpoint["metadata"]["deletionTimestamp"]
    endpoint["metadata"] |= {"uid": "uid-e", "ownerReferences": [reference]}
    bench.informers["ModelEndpoint"].remember(endpoint)
    assert await bench.finalize(_replica()) == 'waiting for Service "s" on "east" to go'
    assert bench.plane.wrote("DELETE") == [ENDPOINT]


async def test_the_cluster_has_the_last_word_on_what_is_left(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    east.has([_service()])  # no watch has brought it yet
    assert await bench.finalize(_replica()) == 'waiting for Service "s" on "east" to go'
    assert east.wrote("DELETE") == [SERVICE]


@pytest.mark.virtual_time
async def test_a_cluster_that_is_still_being_read_lets_nobody_go(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    east.silent = True
    await connected(clusters, "east", east, read=False)
    await asyncio.sleep(10)
    message = await bench.finalize(_replica())
    assert message == (
        'waiting for what is on "east", which cannot be reached (its objects are still being read), to go'
    )


async def test_a_refused_deletion_is_told(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    east.has([_service()])
    east.refuse("DELETE", SERVICE, 403, "not allowed")
    await connected(clusters, "east", east)
    assert 'cannot delete Service "n/s": not allowed' in await bench.finalize(_replica())


async def test_a_cluster_that_a_person_deleted_holds_nobody(bench: Bench) -> None:
    assert "cannot be reached" in await bench.finalize(_replica())
    bench.informers["InferenceCluster"]._drop(_object("InferenceCluster", "east"))
    assert await bench.finalize(_replica()) == ""
    assert bench.warnings == [("r", f"released, but {LEFT} (the InferenceCluster is deleted)")]


async def test_a_cluster_waits_for_its_replicas(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    bench.informers["ModelReplica"].remember(_replica())
    cluster = _object("InferenceCluster", "east")
    assert await bench.finalize(cluster) == 'waiting for ModelReplica "n/r" to go'
    bench.informers["ModelReplica"]._drop(_replica())
    assert await bench.finalize(cluster) == ""


async def test_a_cluster_lets_its_replicas_go_first_and_then_its_serving_stack(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    stack = _object("ServingStack", "east-stack", "modelplane-system", spec={"clusterName": "east"})
    reference = {"kind": "InferenceCluster", "name": "east", "uid": "uid-east", "controller": True}
    stack |= {"apiVersion": "infrastructure.modelplane.ai/v1alpha1"}
    stack["metadata"] |= {"ownerReferences": [reference]}
    del stack["metadata"]["deletionTimestamp"]
    bench.informers["ServingStack"].remember(stack)
    bench.informers["ModelReplica"].remember(_replica())
    cluster = _object("InferenceCluster", "east")
    assert await bench.finalize(cluster) == 'waiting for ModelReplica "n/r" to go'
    assert bench.plane.wrote("DELETE") == []
    bench.informers["ModelReplica"]._drop(_replica())
    assert await bench.finalize(cluster) == 'waiting for ServingStack "east-stack" to go'
    assert bench.plane.wrote("DELETE") == [STACK]
    bench.informers["ServingStack"]._drop(stack)
    assert await bench.finalize(cluster) == ""


async def test_a_cluster_that_is_lost_is_given_up_with_its_replicas_but_not_before(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    bench.informers["ModelReplica"].remember(_replica())
    cluster = _object("InferenceCluster", "east")
    assert await bench.finalize(cluster) == 'waiting for ModelReplica "n/r" to go'
    gateway = connection.watches.informer(resources.GATEWAYS)
    gateway.problem, gateway.problem_since = "refused", asyncio.get_running_loop().time() - 60
    assert await bench.finalize(cluster) == (
        'waiting for ModelReplica "n/r" to go; the cluster cannot be reached (refused), and after 5 '
        "minutes these objects are abandoned"
    ), "an API server may be restarting"
    gateway.problem_since -= 300
    assert await bench.finalize(cluster) == ""
    [(about, note)] = bench.warnings
    assert about == "east"
    assert note == (
        'abandoned with ModelReplica "n/r" on the cluster, whose objects can still be running (refused)'
    ), "the event tells what may still run there"


async def test_a_cluster_that_has_been_silent_for_long_is_given_up_minutes_after_its_deletion(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    gateway = connection.watches.informer(resources.GATEWAYS)
    gateway.problem, gateway.problem_since = "Unauthorized", asyncio.get_running_loop().time() - 3600
    bench.informers["ModelReplica"].remember(_replica())
    cluster = _object("InferenceCluster", "east")
    cluster["metadata"] |= {"deletionTimestamp": timestamps.format_ago(10), "resourceVersion": "6"}
    bench.informers["InferenceCluster"].remember(cluster)
    assert "after 5 minutes these objects are abandoned" in await bench.finalize(cluster)
    assert "which cannot be reached" in await bench.finalize(_replica())
    assert bench.warnings == []


def _no_secret(clusters: Clusters) -> None:
    clusters.connect("east", None, "kubeconfig", "the Secret")


def _garbled(clusters: Clusters) -> None:
    clusters.connect("east", {"data": {"kubeconfig": "%"}}, "kubeconfig", "the Secret")


def _refused(clusters: Clusters) -> None:
    clusters.refuse("east", "the Secret is in another namespace")


def _unread(clusters: Clusters) -> None:
    clusters.report("east", "cannot read spec.cluster")


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "without",
    [
        pytest.param(_no_secret, id="the Secret is deleted"),
        pytest.param(_garbled, id="the Secret is garbled"),
        pytest.param(_refused, id="the InferenceCluster names another Secret"),
        pytest.param(_unread, id="the InferenceCluster cannot be read"),
        pytest.param(lambda _: None, id="nothing was looked at yet"),
    ],
)
@pytest.mark.parametrize("cluster_first", [True, False])
async def test_a_cluster_without_a_credential_is_given_up_after_minutes_as_one_that_is_silent(
    bench: Bench, clusters: Clusters, without: Callable[[Clusters], None], cluster_first: bool
) -> None:
    """Absence is no proof: the engines run on. Both objects are being deleted, in either order."""
    without(clusters)
    bench.informers["ModelReplica"].remember(_replica())
    cluster = _object("InferenceCluster", "east")
    for _ in range(29):
        for owner in (cluster, _replica()) if cluster_first else (_replica(), cluster):
            assert (await bench.finalize(owner)).startswith("waiting for")
            assert bench.warnings == []
        without(clusters)
        await asyncio.sleep(10)
    assert "and after 5 minutes these objects are abandoned" in await bench.finalize(cluster)
    await asyncio.sleep(20)
    cause = clusters.problem("east")
    assert await bench.finalize(_replica()) == ""
    assert bench.warnings == [
        ("r", f"released, but {LEFT} ({cause})"),
        ("east", f'ModelReplica "n/r" is released, but {LEFT} ({cause})'),
    ]
    assert await bench.finalize(cluster) == ""
    on_it = 'abandoned with ModelReplica "n/r" on the cluster, whose objects can still be running'
    assert bench.warnings == [("east", f"{on_it} ({cause})")]


@pytest.mark.virtual_time
async def test_a_cluster_without_a_credential_that_nobody_deleted_holds_its_replicas_for_ever(
    bench: Bench, clusters: Clusters
) -> None:
    _no_secret(clusters)
    cluster = _object("InferenceCluster", "east")
    del cluster["metadata"]["deletionTimestamp"]
    cluster["metadata"]["resourceVersion"] = "6"
    bench.informers["InferenceCluster"].remember(cluster)
    for _ in range(10):
        assert "which cannot be reached (there is no the Secret" in await bench.finalize(_replica())
        await asyncio.sleep(3600)


@pytest.mark.virtual_time
async def test_the_minutes_without_a_credential_begin_again_after_a_connection(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    _no_secret(clusters)
    bench.informers["ModelReplica"].remember(_replica())
    cluster = _object("InferenceCluster", "east")
    assert (await bench.finalize(cluster)).startswith("waiting for")
    await asyncio.sleep(290)
    await connected(clusters, "east", east)
    assert (await bench.finalize(cluster)).startswith("waiting for")
    clusters.refuse("east", "the Secret is in another namespace")
    await asyncio.sleep(290)
    assert (await bench.finalize(cluster)).startswith("waiting for")
    await asyncio.sleep(290)
    assert (await bench.finalize(cluster)).startswith("waiting for"), "the first question was 290 s ago"
    await asyncio.sleep(11)
    assert await bench.finalize(cluster) == ""


@pytest.mark.virtual_time
async def test_a_cluster_that_is_given_up_takes_its_serving_stack_with_it(
    bench: Bench, clusters: Clusters
) -> None:
    _no_secret(clusters)
    stack = _object("ServingStack", "east-stack", "modelplane-system", spec={"clusterName": "east"})
    reference = {"kind": "InferenceCluster", "name": "east", "uid": "uid-east", "controller": True}
    stack |= {
        "apiVersion": "infrastructure.modelplane.ai/v1alpha1",
        "status": {"clusters": ["east"]},
    }
    stack["metadata"] |= {
        "ownerReferences": [reference],
        "annotations": {labels.HELM_RELEASES: "east/lws/lws"},
    }
    bench.informers["ServingStack"].remember(stack)
    assert "which cannot be reached" in await bench.finalize(stack)
    await asyncio.sleep(301)
    assert await bench.finalize(stack) == ""
    assert [about for about, _ in bench.warnings] == ["east-stack", "east"]


async def test_a_class_waits_for_the_clusters_whose_pools_name_it(bench: Bench) -> None:
    class_ = _object("InferenceClass", "l4")
    cluster = _object("InferenceCluster", "west", spec={"nodePools": [{"name": "pool", "className": "l4"}]})
    bench.informers["InferenceCluster"]._drop(_object("InferenceCluster", "east"))
    bench.informers["InferenceCluster"].remember(cluster)
    assert await bench.finalize(class_) == 'waiting for InferenceCluster "west" to go'
    bench.informers["InferenceCluster"]._drop(cluster)
    assert await bench.finalize(class_) == ""


def _cache(*clusters: str) -> dict[str, Any]:
    entries = [{"name": name, "phase": "Ready"} for name in clusters]
    return _object("ModelCache", "weights", "n", status={"clusters": entries})


async def test_a_cache_waits_for_the_replicas_that_mount_it_and_then_for_what_it_made(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    own = {labels.OWNER_UID: "uid-weights", labels.MANAGED_BY: "modelplane"}
    metadata = {"name": "volume", "namespace": "n", "uid": "uid-v", "resourceVersion": "5", "labels": own}
    volume = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    east.has([volume])
    connection = await connected(clusters, "east", east)
    reader = _object(
        "ModelReplica", "r", "n", spec={"clusterName": "east", "modelCacheRef": {"name": "weights"}}
    )
    bench.informers["ModelReplica"].remember(reader)
    assert await bench.finalize(_cache("east")) == 'waiting for ModelReplica "n/r" to go'
    assert east.wrote("DELETE") == []
    bench.informers["ModelReplica"]._drop(reader)
    message = await bench.finalize(_cache("east"))
    assert message == 'waiting for PersistentVolumeClaim "volume" on "east" to go'
    east.has([])
    connection.watches.informer(resources.PERSISTENT_VOLUME_CLAIMS)._drop(volume)
    assert await bench.finalize(_cache("east")) == ""


async def test_a_cluster_waits_for_the_caches_that_are_staged_on_it(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    bench.informers["ModelCache"].remember(_cache("east"))
    cluster = _object("InferenceCluster", "east")
    assert await bench.finalize(cluster) == 'waiting for ModelCache "n/weights" to go'
    bench.informers["ModelCache"]._drop(_cache("east"))
    assert await bench.finalize(cluster) == ""


async def test_clusters_are_asked_only_when_nothing_is_known_to_be_left(
    bench: Bench, east: Any, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    for name in ("east", "west"):
        bench.informers["InferenceCluster"].remember(_object("InferenceCluster", name))
    east.refuse("GET", "/api/v1/services", 500, "would be asked")
    message = await bench.finalize(_cache("east", "west"))
    assert message.startswith('waiting for what is on "west", which cannot be reached')
    assert "east" not in message
    assert "would be asked" in await bench.finalize(_cache("east"))


async def test_a_cluster_waits_until_its_cloud_has_taken_away_what_it_made(bench: Bench) -> None:
    reference = {"kind": "InferenceCluster", "name": "east", "uid": "uid-east", "controller": True}
    made = _object("GKECluster", "east", "modelplane-system")
    del made["metadata"]["deletionTimestamp"]
    made["apiVersion"] = "infrastructure.modelplane.ai/v1alpha1"
    made["metadata"] |= {"uid": "uid-gke", "ownerReferences": [reference]}
    bench.informers["GKECluster"].remember(made)
    cluster = _object("InferenceCluster", "east")
    assert await bench.finalize(cluster) == 'waiting for GKECluster "east" to go'
    assert bench.plane.wrote("DELETE") == [
        "/apis/infrastructure.modelplane.ai/v1alpha1/namespaces/modelplane-system/gkeclusters/east"
    ]
    refused = {"type": "Synced", "status": "False", "message": "quota exceeded"}
    made = {**made, "status": {"conditions": [refused]}}
    made["metadata"] = {
        **made["metadata"],
        "resourceVersion": "6",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    bench.informers["GKECluster"].remember(made)
    assert await bench.finalize(cluster) == 'waiting for GKECluster "east" (quota exceeded) to go'


async def test_the_releases_of_an_owner_are_uninstalled_last(
    bench: Bench, east: Any, clusters: Clusters, connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = ['release "lws" in namespace "lws" on "east"']
    asked: list[str] = []

    def uninstall_all(_owner: Any, cluster: str) -> list[str]:
        asked.append(cluster)
        return installed

    monkeypatch.setattr(bench.releases, "uninstall_all", uninstall_all)
    east.has([_service()])
    connection = await connected(clusters, "east", east)
    owner = _replica()
    owner["metadata"]["annotations"] = {labels.HELM_RELEASES: "east/lws/lws,gone/lws/lws"}
    assert await bench.finalize(owner) == 'waiting for Service "s" on "east" to go'
    assert asked == [], "the charts' controllers finish the deletion of the objects"
    east.has([])
    connection.watches.informer(resources.SERVICES)._drop(_service())
    assert await bench.finalize(owner) == f"waiting for {installed[0]} to go"
    installed.clear()
    assert await bench.finalize(owner) == "", "releases on a cluster that is no more are abandoned"
    assert asked == ["east", "east"]


async def test_releases_on_the_control_plane_hold_their_owner_until_their_installer_is_back(
    bench: Bench,
) -> None:
    owner = _replica()
    owner["status"] = {}
    owner["metadata"]["annotations"] = {labels.HELM_RELEASES: "/traefik-system/mp-traefik"}
    assert await bench.finalize(owner) == (
        "waiting for the Helm releases on the control plane (which are being read) to go"
    )
    await asyncio.sleep(0.05)
    said = await bench.finalize(owner)
    assert "cannot read Helm's records on the control plane" in said
    assert '"modelplane-installer"' in said
    await bench.releases.close()


async def test_releases_that_cannot_be_read_hold_their_owner(bench: Bench, clusters: Clusters) -> None:
    clusters.report("east", "the Secret is gone")
    owner = _replica()
    owner["status"] = {}
    owner["metadata"]["annotations"] = {labels.HELM_RELEASES: "east/lws/lws"}
    assert await bench.finalize(owner) == (
        'waiting for the Helm releases on "east" (which are being read) to go'
    )
    await asyncio.sleep(0.05)
    said = await bench.finalize(owner)
    assert 'cannot read Helm\'s records on cluster "east": the Secret is gone' in said
    await bench.releases.close()

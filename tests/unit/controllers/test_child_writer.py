import asyncio
import copy
from typing import Any

import httpx2
import pytest

from modelplane.api import labels
from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.readiness import exists
from modelplane.controllers.child_writer import ChildWriter, delete
from modelplane.controllers.children import ownership
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.status_writer import StatusWriter
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from support.helm import no_releases
from support.rejections import message_of

OWNER = "/apis/modelplane.ai/v1alpha1/namespaces/n/modelreplicas/owner"
SERVICES = "/api/v1/namespaces/n/services/"


class Bench:
    """A writer with its owner."""

    def __init__(self, client: Client, clusters: Clusters) -> None:
        self.informers = {
            name: Informer(client, resource_for(row.api_version, name)) for name, row in COMPOSERS.items()
        }
        self.definitions = Informer(client, resources.CUSTOM_RESOURCE_DEFINITIONS)
        self.children = ControlPlaneChildren(client, self.informers, self.definitions, lambda _item: None)
        reporter = StatusWriter(client, self.informers)
        self.writer = ChildWriter(
            client, self.informers, clusters, self.children, no_releases(clusters), reporter
        )
        self.recorded: list[str] = []

    @property
    def owner(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": "owner", "namespace": "n", "uid": "u", "resourceVersion": "1"}
        owner: dict[str, Any] = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelReplica",
            "metadata": metadata,
            "spec": {"clusterName": "east"},
        }
        if self.recorded:
            metadata["finalizers"] = [ownership.FINALIZER]
            owner["status"] = {"clusters": self.recorded}
        return owner

    def stored(self, child: Desired, uid: str = "") -> dict[str, Any]:
        item = copy.deepcopy(ownership.stamp(self.owner, child))
        item["metadata"] |= {"uid": uid or f"uid-{item['metadata']['name']}", "resourceVersion": "9"}
        return item


@pytest.fixture
def bench(client: Client, clusters: Clusters) -> Bench:
    return Bench(client, clusters)


def _service(name: str, cluster: str = "east", port: int = 80) -> Desired:
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"ports": [{"port": port}]},
    }
    return Desired(name, manifest, exists, cluster)


def _composed(
    *children: Desired | Keep, ready: bool = True, clusters: tuple[str, ...] = ("east",)
) -> Composition:
    return Composition(children=children, status={"clusters": list(clusters)}, ready=ready)


async def test_the_owner_is_held_and_the_cluster_recorded_before_the_first_write(
    plane: Any, east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    cluster = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east", "uid": "e", "resourceVersion": "1"},
    }
    bench.informers["InferenceCluster"].remember(cluster)
    assert await bench.writer.write(bench.owner, {}, _composed(_service("s"))) is None
    assert [(path, body["metadata"].get("finalizers")) for _, path, _, body in plane.writes] == [
        ("/apis/modelplane.ai/v1alpha1/inferenceclusters/east", [ownership.IN_USE]),
        (OWNER, [ownership.FINALIZER]),
        (f"{OWNER}/status", None),
    ]
    assert east.wrote("PATCH") == [f"{SERVICES}s"]


async def test_the_creation_of_a_replica_records_its_cluster(
    plane: Any, east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    new = bench.owner
    reference = {"kind": "ModelDeployment", "name": "d", "uid": "d", "controller": True}
    new["metadata"] |= {"ownerReferences": [reference], "finalizers": [ownership.FINALIZER]}
    assert await bench.writer.write(new, {}, _composed(_service("s"))) is None
    assert (plane.writes, east.wrote("PATCH")) == ([], [f"{SERVICES}s"])
    # With a status, only the status counts: the replica may have been kept away from its cluster until now.
    waited = new | {"status": {"conditions": []}}
    assert await bench.writer.write(waited, {}, _composed(_service("t"))) is None
    assert plane.wrote("PATCH") == [f"{OWNER}/status"]


async def test_what_an_owner_needs_is_held_even_where_it_writes_nothing(plane: Any, bench: Bench) -> None:
    class_ = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceClass",
        "metadata": {"name": "l4", "uid": "c", "resourceVersion": "1"},
    }
    bench.informers["InferenceClass"].remember(class_)
    cluster = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east", "uid": "e", "resourceVersion": "1"},
        "spec": {"nodePools": [{"name": "pool", "className": "l4"}, {"name": "two", "className": "absent"}]},
    }
    assert await bench.writer.write(cluster, {}, Composition()) is None
    assert plane.wrote("PATCH") == ["/apis/modelplane.ai/v1alpha1/inferenceclasses/l4"]


async def test_nothing_is_written_to_a_cluster_that_could_not_be_recorded(
    plane: Any, east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    plane.refuse("PATCH", f"{OWNER}/status", 409, "the object was replaced")
    assert (
        message_of(await bench.writer.write(bench.owner, {}, _composed(_service("s"))))
        == "the object was replaced"
    )
    assert east.writes == []


async def test_problems_beyond_the_first_are_counted(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    for name in "abcde":
        east.refuse("PATCH", f"{SERVICES}{name}", 422, f"{name} is invalid")
    problem = message_of(await bench.writer.write(bench.owner, {}, _composed(*map(_service, "abcde"))))
    assert problem.startswith('cannot write Service "n/a"')
    assert problem.endswith("; and 2 more")


async def test_what_is_not_known_to_be_ours_is_not_taken_from_anyone(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    bench.recorded = ["east"]
    ours = bench.stored(_service("ours", port=1))
    await bench.writer.write(
        bench.owner, {"ours": ours}, _composed(_service("ours", port=2), _service("new"))
    )
    assert [(path, params["force"]) for _, path, params, _ in east.writes] == [
        (f"{SERVICES}ours", "true"),
        (f"{SERVICES}new", "false"),
    ]


def _of(stored: dict[str, Any], uid: str, name: str = "owner") -> dict[str, Any]:
    """Return an object as another owner's."""
    item = copy.deepcopy(stored)
    item["metadata"]["labels"][labels.OWNER_UID] = uid
    item["metadata"]["annotations"][labels.OWNER_NAME] = name
    item["metadata"]["resourceVersion"] = str(int(item["metadata"]["resourceVersion"]) + 1)
    return item


async def test_what_another_owner_has_is_left_to_it(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    bench.recorded = ["east"]
    east.has([_of(bench.stored(_service("s")), "v", "other")])
    await connected(clusters, "east", east)
    problem = message_of(await bench.writer.write(bench.owner, {}, _composed(_service("s"))))
    assert problem == (
        'cannot write Service "n/s": it belongs to ModelReplica "n/other": rename or delete one of them'
    )
    assert east.writes == []


async def test_an_owner_that_was_made_again_takes_over_but_two_that_live_do_not_fight(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    bench.recorded = ["east"]
    east.has([_of(bench.stored(_service("s"), uid="uid"), "v")])
    connection = await connected(clusters, "east", east)
    assert await bench.writer.write(bench.owner, {}, _composed(_service("s"))) is None
    assert east.wrote("PATCH") == [f"{SERVICES}s"]
    taken_back = _of(connection.children.keyed("u")["s"], "v")
    connection.watches.informer(resources.SERVICES).remember(taken_back)
    problem = message_of(await bench.writer.write(bench.owner, {}, _composed(_service("s"))))
    assert problem == (
        'cannot write Service "n/s": another control plane has taken it over for its own ModelReplica '
        '"n/owner": register the cluster with only one control plane'
    )
    assert east.wrote("PATCH") == [f"{SERVICES}s"]


async def test_one_refused_child_keeps_no_other_from_being_written_and_all_from_being_deleted(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    bench.recorded = ["east"]
    east.has([bench.stored(_service("old"))])
    await connected(clusters, "east", east)
    east.refuse("PATCH", f"{SERVICES}a", 409, 'conflict with "kubectl"')
    composition = _composed(_service("a"), _service("b"))
    problem = message_of(await bench.writer.write(bench.owner, {}, composition))
    assert problem == 'cannot write Service "n/a": conflict with "kubectl"'
    assert east.wrote("PATCH") == [f"{SERVICES}a", f"{SERVICES}b"]
    assert east.wrote("DELETE") == []
    east.answers.clear()
    assert await bench.writer.write(bench.owner, {}, composition) is None
    assert east.wrote("DELETE") == [f"{SERVICES}old"]


async def test_a_kind_that_is_not_installed_on_the_cluster_is_named(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    bench.recorded = ["east"]
    metadata = {"name": "gang", "namespace": "n"}
    manifest = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": metadata}
    group = "/apis/leaderworkerset.x-k8s.io/v1"
    for method, path in (("PATCH", f"{group}/namespaces/n/leaderworkersets/gang"), ("GET", group)):
        east.answers[method, path] = httpx2.Response(404, text="404 page not found")
    east.answers["GET", "/apis"] = httpx2.Response(200, json={"kind": "APIGroupList", "groups": []})
    composition = _composed(Desired("gang", manifest, exists, "east"), _service("s"))
    assert message_of(await bench.writer.write(bench.owner, {}, composition)) == (
        'cannot write LeaderWorkerSet "n/gang": kind LeaderWorkerSet of leaderworkerset.x-k8s.io/v1 is not '
        "installed: apply its CustomResourceDefinition"
    )
    assert east.wrote("PATCH")[1:] == [f"{SERVICES}s"], "what can be written is"


async def test_what_would_not_be_seen_again_is_not_written(plane: Any, bench: Bench) -> None:
    problem = message_of(await bench.writer.write(bench.owner, {}, _composed(_service("s", cluster=""))))
    assert problem == (
        'cannot write Service "n/s": kind "Service" of "v1" has no row for the control plane '
        "in compose/workload_kinds.py"
    )
    assert plane.writes == []


async def test_a_cluster_that_does_not_answer_is_asked_once(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    await connected(clusters, "east", east)
    bench.recorded = ["east"]
    east.answers["PATCH", f"{SERVICES}a"] = httpx2.ReadTimeout("no answer")
    problem = message_of(await bench.writer.write(bench.owner, {}, _composed(_service("a"), _service("b"))))
    assert problem == "no answer"
    assert east.wrote("PATCH") == [f"{SERVICES}a"]


@pytest.mark.parametrize(
    ("composition", "deleted"),
    [
        pytest.param(_composed(_service("s", "west"), ready=False), False, id="its successor starts"),
        pytest.param(_composed(_service("s", "west"), ready=True), True, id="its successor serves"),
        pytest.param(_composed(Keep("other")), False, id="nobody knows where it belongs"),
    ],
)
async def test_what_is_on_a_cluster_that_was_left_goes_when_its_successor_serves(
    east: Any, bench: Bench, clusters: Clusters, connected: Any, composition: Composition, deleted: bool
) -> None:
    bench.recorded = ["east", "west"]
    east.has([bench.stored(_service("s"))])
    west = type(east)()
    await connected(clusters, "east", east)
    await connected(clusters, "west", west)
    assert await bench.writer.write(bench.owner, {}, composition) is None
    assert east.wrote("DELETE") == ([f"{SERVICES}s"] if deleted else [])


@pytest.mark.virtual_time
async def test_two_names_of_one_cluster_do_not_undo_each_other(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    bench.recorded = ["east", "west"]
    stored = bench.stored(_service("s", "west"))
    east.has([stored])
    await connected(clusters, "east", east)
    await connected(clusters, "west", east)
    await bench.writer.write(bench.owner, {"s": stored}, _composed(_service("s", "west")))
    await asyncio.sleep(600)
    assert east.writes == []


async def test_a_cluster_that_does_not_answer_keeps_no_other_from_its_children(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    bench.recorded = ["east", "west"]
    west = type(east)()
    await connected(clusters, "east", east)
    await connected(clusters, "west", west)
    east.answers["PATCH", f"{SERVICES}a"] = httpx2.ReadTimeout("no answer")
    composition = _composed(_service("a"), _service("b"), _service("c", "west"))
    assert message_of(await bench.writer.write(bench.owner, {}, composition)) == "no answer"
    assert (east.wrote("PATCH"), west.wrote("PATCH")) == ([f"{SERVICES}a"], [f"{SERVICES}c"])


@pytest.mark.parametrize(
    ("composition", "deleted"),
    [
        pytest.param(_composed(ready=False), True, id="let go"),
        pytest.param(_composed(Keep("s")), False, id="kept"),
        pytest.param(_composed(Keep("s"), _service("t", "west")), False, id="kept, while others are written"),
    ],
)
async def test_what_the_composition_saw_goes_when_it_lets_it_go(
    east: Any, bench: Bench, clusters: Clusters, connected: Any, composition: Composition, deleted: bool
) -> None:
    bench.recorded = ["east", "west"]
    stored = bench.stored(_service("s"))
    east.has([stored])
    await connected(clusters, "east", east)
    await connected(clusters, "west", type(east)())
    assert await bench.writer.write(bench.owner, {"s": stored}, composition) is None
    assert east.wrote("DELETE") == ([f"{SERVICES}s"] if deleted else [])


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "propagation"),
    [
        pytest.param("batch/v1", "Job", "/apis/batch/v1/namespaces/n/jobs/x", "Foreground", id="a Job"),
        pytest.param(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/n/leaderworkersets/x",
            "Foreground",
            id="a gang",
        ),
        pytest.param("v1", "Secret", "/api/v1/namespaces/n/secrets/x", "Background", id="what has no pods"),
    ],
)
async def test_what_has_pods_is_gone_only_when_they_are(
    plane: Any, client: Client, api_version: str, kind: str, path: str, propagation: str
) -> None:
    metadata = {"name": "x", "namespace": "n", "uid": "u"}
    await delete(client, {"apiVersion": api_version, "kind": kind, "metadata": metadata})
    [(method, where, _, body)] = plane.writes
    assert (method, where, body["propagationPolicy"]) == ("DELETE", path, propagation)


class Asked:
    """Helm releases as a writer hands them over."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        self.pruned: list[Composition] = []

    def want(self, _owner: Any, child: Desired) -> None:
        self.wanted.append(f"{child.key} on {child.cluster}")

    def prune(self, _owner: Any, composition: Composition) -> None:
        self.pruned.append(composition)


def _release(key: str, cluster: str = "east") -> Desired:
    manifest = {
        "apiVersion": "helm.m.crossplane.io/v1beta1",
        "kind": "Release",
        "metadata": {"name": key, "namespace": "modelplane-system"},
        "spec": {
            "forProvider": {"chart": {"name": "c", "repository": "oci://r.example.com", "version": "1"}}
        },
    }
    return Desired(key, manifest, exists, cluster)


@pytest.fixture
def asked(bench: Bench) -> Asked:
    bench.writer._releases = asked = Asked()  # type: ignore[assignment]  # what it is asked, and nothing else
    return asked


async def test_a_release_is_handed_over_once_its_clusters_are_recorded(
    plane: Any, bench: Bench, asked: Asked
) -> None:
    composition = _composed(_release("lws"), _release("nfd", "west"), clusters=())
    # A Release has no uid, as observed.
    seen = {"lws": {**_release("lws").manifest}}
    assert await bench.writer.write(bench.owner, seen, composition) is None
    [(_, path, _, body)] = plane.writes
    assert (path, body["metadata"]["finalizers"]) == (OWNER, [ownership.FINALIZER])
    assert body["metadata"]["annotations"] == {labels.HELM_RELEASES: "east/default/lws,west/default/nfd"}
    assert asked.wanted == ["lws on east", "nfd on west"]
    assert asked.pruned == [composition]


async def test_a_cluster_that_has_releases_stays_recorded(plane: Any, bench: Bench, asked: Asked) -> None:
    owner = bench.owner
    owner["metadata"] |= {
        "finalizers": [ownership.FINALIZER],
        "annotations": {labels.HELM_RELEASES: "east/default/lws,west/default/nfd"},
    }
    assert await bench.writer.write(owner, {}, _composed(_release("lws"), clusters=())) is None
    assert plane.writes == []
    assert asked.wanted == ["lws on east"]


async def test_no_release_is_handed_over_or_pruned_if_its_cluster_cannot_be_recorded(
    plane: Any, bench: Bench, asked: Asked
) -> None:
    plane.refuse("PATCH", OWNER, 409, "the object was replaced")
    problem = message_of(await bench.writer.write(bench.owner, {}, _composed(_release("lws"), clusters=())))
    assert problem == "the object was replaced"
    assert (asked.wanted, asked.pruned) == ([], [])


DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "qwen", "namespace": "n", "uid": "d", "resourceVersion": "1"},
    "spec": {},
}
REPLICAS = "/apis/modelplane.ai/v1alpha1/namespaces/n/modelreplicas/"


def _replica(number: int) -> Desired:
    manifest = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": f"r{number}", "namespace": "n"},
    }
    return Desired(f"replica-{number}", manifest, exists)


async def _stuck_writes(server: Any, writing: Any) -> list[str]:
    """Return what is written at once to a server that answers no write."""
    server.stuck = True
    task = asyncio.create_task(writing)
    async with asyncio.timeout(10):
        while not server.writes:
            await asyncio.sleep(0)
    for _ in range(100):  # more turns of the loop than any further write takes to begin
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return list(server.wrote("PATCH"))


async def test_the_replicas_of_a_deployment_are_written_several_at_once(plane: Any, bench: Bench) -> None:
    composition = Composition(children=tuple(map(_replica, range(20))))
    written = await _stuck_writes(plane, bench.writer.write(DEPLOYMENT, {}, composition))
    assert written == [f"{REPLICAS}r{number}" for number in range(8)]


async def test_children_on_a_cluster_are_written_one_after_another(
    east: Any, bench: Bench, clusters: Clusters, connected: Any
) -> None:
    bench.recorded = ["east"]
    await connected(clusters, "east", east)
    composition = _composed(_service("a"), _service("b"))
    assert await _stuck_writes(east, bench.writer.write(bench.owner, {}, composition)) == [f"{SERVICES}a"]


async def test_children_of_two_kinds_are_not_written_at_once(plane: Any, bench: Bench) -> None:
    other = Desired("other", {**_replica(1).manifest, "kind": "ModelEndpoint"}, exists)
    composition = Composition(children=(_replica(0), other))
    written = await _stuck_writes(plane, bench.writer.write(DEPLOYMENT, {}, composition))
    assert written == [f"{REPLICAS}r0"]


async def test_every_replica_is_written_in_the_end_and_each_problem_told_once(
    plane: Any, bench: Bench
) -> None:
    for number in (3, 4):
        plane.refuse("PATCH", f"{REPLICAS}r{number}", 422, f"no {number}")
    composition = Composition(children=tuple(map(_replica, range(20))))
    problem = message_of(await bench.writer.write(DEPLOYMENT, {}, composition))
    assert problem == ('cannot write ModelReplica "n/r3": no 3; cannot write ModelReplica "n/r4": no 4')
    assert len(plane.wrote("PATCH")) == 20


async def test_a_control_plane_that_does_not_answer_is_told_once(plane: Any, bench: Bench) -> None:
    for number in range(20):
        plane.answers["PATCH", f"{REPLICAS}r{number}"] = httpx2.ReadTimeout("no answer")
    composition = Composition(children=tuple(map(_replica, range(20))))
    assert message_of(await bench.writer.write(DEPLOYMENT, {}, composition)) == "no answer"
    assert len(plane.wrote("PATCH")) == 8, "the others are not tried"

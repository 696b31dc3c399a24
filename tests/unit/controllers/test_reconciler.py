import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from modelplane.api.meta import API_VERSION
from modelplane.api.rejected import Rejected
from modelplane.compose.composition import Blocked, Composition, Requirement
from modelplane.compose.gateway.inference_gateway import CLUSTERS
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.children.control_plane_children import ControlPlaneChildren
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.fleet_resources import resource_for
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.controllers.local_copies import LocalCopies, NamedObjects
from modelplane.controllers.reconciler import Reconciler
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from support.helm import no_releases

EAST = Requirement("", API_VERSION, "InferenceCluster", name="east")
CLASS = OwnerKey("InferenceClass", "", "l4")
DEPLOYMENT = OwnerKey("ModelDeployment", "n", "model")
CACHE = OwnerKey("ModelCache", "n", "weights")


def _object(key: OwnerKey, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    own: dict[str, Any] = {"name": key.name, "uid": "u", "resourceVersion": "5", "generation": 1}
    if key.namespace:
        own["namespace"] = key.namespace
    return {"apiVersion": API_VERSION, "kind": key.kind, "metadata": own | metadata, "spec": spec}


class Bench:
    """A reconciler with what it remembers."""

    def __init__(self, client: Client, clusters: Clusters) -> None:
        self.informers = {
            name: Informer(client, resource_for(row.api_version, name)) for name, row in COMPOSERS.items()
        }
        self.interests = Interests()
        self.named = NamedObjects(client, lambda _item: None, self.interests.anyone)
        definitions = Informer(client, resources.CUSTOM_RESOURCE_DEFINITIONS)
        self.releases = no_releases(clusters)
        children = ControlPlaneChildren(client, self.informers, definitions, lambda _item: None)
        self.copies = LocalCopies(self.informers, children, clusters, self.named, self.releases)
        self.reconciler = Reconciler(client, self.copies, self.interests, ())


async def test_who_uses_an_object_matters_only_once_it_is_to_go(client: Client, clusters: Clusters) -> None:
    bench = Bench(client, clusters)
    class_ = _object(CLASS, {"devices": [{"name": "gpu", "driver": "d"}]})
    bench.informers["InferenceClass"].remember(class_)
    await bench.reconciler.reconcile(CLASS)
    assert bench.interests.of(CLASS) == ()
    going = _object(CLASS, class_["spec"], resourceVersion="9999", deletionTimestamp="2026-01-01T00:00:00Z")
    bench.informers["InferenceClass"].remember(going)
    await bench.reconciler.reconcile(CLASS)
    assert [(each.kind, each.triggers) for each in bench.interests.of(CLASS)] == [("InferenceCluster", True)]


class SlowPlacement:
    """The placement of a deployment, which ends when the test lets it."""

    def __init__(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, *, result: Composition | Blocked
    ) -> None:
        self._reconcile = bench.reconciler.reconcile
        self._result = result
        self._entered, self._leave = threading.Event(), threading.Event()
        row = COMPOSERS[DEPLOYMENT.kind]
        monkeypatch.setitem(COMPOSERS, DEPLOYMENT.kind, replace(row, decide=self._decide))

    def _decide(self, _request: object) -> Composition | Blocked:
        self._entered.set()
        assert self._leave.wait(30)
        return self._result

    async def begun(self) -> "asyncio.Task[float | Rejected | None]":
        """Begin to reconcile; return once it is being placed."""
        self._entered.clear()
        self._leave.clear()
        placement = asyncio.create_task(self._reconcile(DEPLOYMENT))
        while not (self._entered.is_set() or placement.done()):
            await asyncio.sleep(0.01)
        return placement

    async def ended(self, placement: "asyncio.Task[float | Rejected | None]") -> float | Rejected | None:
        self._leave.set()
        return await placement


@pytest.fixture
def deployed(client: Client, clusters: Clusters) -> Bench:
    bench = Bench(client, clusters)
    bench.informers["ModelDeployment"].remember(_deployment(1))
    return bench


async def test_a_placement_that_takes_long_stops_nothing_else(
    deployed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowPlacement(deployed, monkeypatch, result=Composition())
    placement = await slow.begun()
    assert not placement.done(), "the loop goes on while it is placed"
    assert await slow.ended(placement) is None


@pytest.mark.parametrize(
    ("result", "triggered"),
    [
        pytest.param(Composition(also_watch=(EAST,)), [DEPLOYMENT], id="a replica is placed on it"),
        pytest.param(Composition(unsatisfied=True), [DEPLOYMENT], id="a replica fits nowhere"),
        pytest.param(Blocked("cannot list the fleet"), [DEPLOYMENT], id="the fleet cannot be read"),
        pytest.param(Composition(), [], id="nothing is placed on it, or waits for it"),
    ],
)
async def test_a_cluster_that_changes_during_a_placement_is_not_missed(
    deployed: Bench,
    monkeypatch: pytest.MonkeyPatch,
    result: Composition | Blocked,
    triggered: list[OwnerKey],
) -> None:
    slow = SlowPlacement(deployed, monkeypatch, result=result)
    east = _cluster("east")

    first = await slow.begun()
    deployed.informers["InferenceCluster"].remember(east)
    assert await slow.ended(first) == (0 if triggered else None), "it changed before it was watched"

    # The server of these tests answers without the spec.
    deployed.informers["ModelDeployment"]._put(_deployment(1))
    second = await slow.begun()
    assert not second.done()
    assert list(dict.fromkeys(deployed.interests.triggered_by(east, ""))) == triggered
    assert await slow.ended(second) is None


@pytest.mark.virtual_time
async def test_an_owner_waits_for_the_secret_that_it_names(
    plane: Any, client: Client, clusters: Clusters
) -> None:
    bench = Bench(client, clusters)
    source = {"repo": "a/b", "sizeGiB": 1, "authSecret": {"name": "token"}}
    bench.informers["ModelCache"].remember(_object(CACHE, {"source": "HuggingFace", "huggingFace": source}))
    await bench.reconciler.reconcile(CACHE)
    assert plane.writes == [], "nothing is said before the Secret has been looked at"
    await asyncio.sleep(1)
    await bench.reconciler.reconcile(CACHE)
    assert f"{resource_for(API_VERSION, 'ModelCache').build_path('n', 'weights')}/status" in plane.wrote(
        "PATCH"
    )
    await bench.named.close()


def _cluster(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "s"}}},
        "nodePools": [{"name": "pool", "className": "l4", "nodeCount": 1}],
    }
    device = {"name": "gpu", "driver": "d", "deviceClassName": "d", "capacity": {"memory": {"value": "24Gi"}}}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Available",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    item = _object(OwnerKey("InferenceCluster", "", name), spec, uid=name, **metadata)
    item["status"] = {
        "gateway": {"address": "192.0.2.1"},
        "gpuPools": [{"name": "pool", "nodes": 1, "devices": [device]}],
        "conditions": [ready],
    }
    return item


def _deployment(replicas: int) -> dict[str, Any]:
    selector = 'device.capacity["d"].memory.compareTo(quantity("1Gi")) >= 0'
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "selectors": [{"cel": selector}]}]},
        "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
    }
    return _object(DEPLOYMENT, {"replicas": replicas, "engines": [{"name": "main", "members": [member]}]})


async def test_a_deployment_with_all_it_asked_for_looks_up_only_for_its_own_clusters(
    client: Client, clusters: Clusters
) -> None:
    bench = Bench(client, clusters)
    fleet = [_cluster(name) for name in ("a", "b", "c")]
    for cluster in fleet:
        bench.informers["InferenceCluster"].remember(cluster)
    for replicas, woken in ((2, ["a", "b"]), (4, ["a", "b", "c"])):
        bench.informers["ModelDeployment"]._put(_deployment(replicas))
        await bench.reconciler.reconcile(DEPLOYMENT)
        found = [each["metadata"]["name"] for each in fleet if [*bench.interests.triggered_by(each, "")]]
        assert found == woken


async def test_objects_without_the_required_status_are_not_found(client: Client, clusters: Clusters) -> None:
    bench = Bench(client, clusters)
    new, young, serving = (_cluster(name) for name in ("new", "young", "serving"))
    del new["status"]
    young["status"] = {}
    for cluster in (new, young, serving):
        bench.informers["InferenceCluster"].remember(cluster)
    assert bench.copies.find(CLUSTERS) == (serving,)


async def test_what_was_written_is_told_at_once(plane: Any, client: Client, clusters: Clusters) -> None:
    bench = Bench(client, clusters)
    bench.informers["InferenceCluster"].remember(_cluster("a"))
    bench.informers["ModelDeployment"].remember(_deployment(1))
    await bench.reconciler.reconcile(DEPLOYMENT)
    path = resource_for(API_VERSION, "ModelDeployment").build_path("n", "model")
    [status] = [body["status"] for _, where, _, body in plane.writes if where == f"{path}/status"]
    [scheduled] = [each for each in status["conditions"] if each["type"] == "ReplicasScheduled"]
    assert (scheduled["status"], scheduled["message"]) == ("True", "1 of 1 replicas placed, on a")


async def test_a_service_is_composed_without_a_look_at_other_namespaces(
    client: Client, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(client, clusters)
    service = OwnerKey("ModelService", "n", "chat")
    bench.informers["ModelService"].remember(
        _object(service, {"endpoints": [{"selector": {"matchLabels": {"app": "m"}}}]})
    )
    for namespace in ("n", "other"):
        endpoint = OwnerKey("ModelEndpoint", namespace, namespace)
        bench.informers["ModelEndpoint"].remember(
            _object(endpoint, {"url": f"http://{namespace}.example/v1"}, labels={"app": "m"})
        )

    def every(_informer: Informer) -> Iterator[Any]:
        raise AssertionError("the endpoints of every namespace are read")

    monkeypatch.setattr(Informer, "__iter__", every)
    composed = bench.reconciler.compose(service)
    assert composed is not None
    assert isinstance(composed.composition, Composition)
    [route] = composed.composition.routes
    assert [backend.hosts for backend in route.backends] == [(("n.example", 80),)]


async def test_nothing_is_decided_before_the_releases_of_an_owner_have_been_read(
    plane: Any, client: Client, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(client, clusters)
    bench.informers["InferenceClass"].remember(_object(CLASS, {"devices": [{"name": "gpu", "driver": "d"}]}))
    monkeypatch.setattr(bench.releases, "loading", lambda _owner: True)
    assert await bench.reconciler.reconcile(CLASS) is None
    assert plane.writes == [], "a status that says what is installed would be wrong"
    monkeypatch.setattr(bench.releases, "loading", lambda _owner: False)
    await bench.reconciler.reconcile(CLASS)
    assert plane.writes

"""What a deleted namespace left on its clusters, found and cleaned, on API servers held in memory."""

import copy

import pytest

from modelplane.crossplane.function.companions import provider_config_name
from modelplane.install.waiting import Deadline, NotInTime
from modelplane.kube import errors
from modelplane.kube.client import ObjectList
from modelplane.operations.leftovers import OBJECTS, Cleaner
from modelplane.operations.pod_logs import ClusterUnreachable
from modelplane.user_error import UserError

WEST, EAST = provider_config_name("west"), provider_config_name("east")
FINALIZER = "finalizer.managedresource.crossplane.io"
TEAM = "ml-team"


class Server:
    """An API server with some objects; what is deleted goes at once unless it is held."""

    def __init__(self, *items, held=()):
        self.items = {self._key(item): copy.deepcopy(item) for item in items}
        self.held = set(held)
        self.deleted = []
        self.serves_it = True

    def _key(self, item):
        metadata = item["metadata"]
        return item["kind"], metadata.get("namespace"), metadata["name"]

    async def get(self, resource, name, namespace=None):
        return copy.deepcopy(self.items.get((resource.kind, namespace, name)))

    async def list(self, resource, namespace=None):
        found = [
            copy.deepcopy(item)
            for (kind, place, _), item in self.items.items()
            if kind == resource.kind and namespace in (None, place)
        ]
        return ObjectList(found, "1")

    async def is_served(self, _resource):
        if not self.serves_it:
            raise errors.ApiError(404, "", "cannot tell whether there is such a kind")
        return True

    async def delete(self, resource, name, namespace=None, *, uid, propagation):
        key = (resource.kind, namespace, name)
        assert self.items[key]["metadata"]["uid"] == uid
        self.deleted.append((*key, propagation))
        if name not in self.held:
            del self.items[key]

    async def patch(self, resource, name, body, namespace):
        metadata = self.items[resource.kind, namespace, name]["metadata"]
        assert metadata["resourceVersion"] == body["metadata"]["resourceVersion"]
        metadata["finalizers"] = body["metadata"]["finalizers"]


class Clusters:
    """The clients of some clusters."""

    def __init__(self, **servers):
        self.servers = servers

    async def get_client(self, name):
        if name not in self.servers:
            raise ClusterUnreachable(f'cluster "{name}" does not answer')
        return self.servers[name]


def namespace(*, deleted=True):
    mark = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    return {"kind": "Namespace", "metadata": {"name": TEAM, **mark}}


def cluster(name):
    return {"kind": "InferenceCluster", "metadata": {"name": name}}


def far(name, kind="Deployment", uid="far-uid"):
    version = {"Deployment": "apps/v1", "Service": "v1", "Namespace": "v1"}[kind]
    metadata = {"name": name, "uid": uid} | ({} if kind == "Namespace" else {"namespace": TEAM})
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def held(manifest, config, *, seen="", deleted=True, owner="modelplane.ai/v1", **spec):
    mark = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    wanted = {**manifest, "metadata": {k: v for k, v in manifest["metadata"].items() if k != "uid"}}
    item = {
        "apiVersion": OBJECTS.api_version,
        "kind": "Object",
        "metadata": {
            "name": f"o-{manifest['metadata']['name']}",
            "namespace": TEAM,
            "resourceVersion": "7",
            "finalizers": [FINALIZER, "test/other"],
            "ownerReferences": [{"apiVersion": owner, "kind": "ModelReplica", "name": "r", "uid": "u"}],
            **mark,
        },
        "spec": {"forProvider": {"manifest": wanted}, "providerConfigRef": {"name": config}, **spec},
    }
    if seen:
        item["status"] = {
            "atProvider": {"manifest": {**wanted, "metadata": {**wanted["metadata"], "uid": seen}}}
        }
    return item


def finalizers(server, name):
    return server.items["Object", TEAM, name]["metadata"]["finalizers"]


async def test_what_is_left_is_found_deleted_and_let_go():
    west = Server(far("engine"), far("engine", "Service", "service-uid"), far("other"))
    plane = Server(
        namespace(),
        cluster("west"),
        held(far("engine"), WEST, seen="far-uid"),
        held(far("gone"), WEST),
    )
    cleaner = Cleaner(plane, Clusters(west=west), TEAM)
    found = await cleaner.find()
    assert ([str(each) for each in found.there], found.doubts) == (['west: Deployment "ml-team/engine"'], ())
    assert west.deleted == []
    await cleaner.delete(found, Deadline(1))
    assert west.deleted == [("Deployment", TEAM, "engine", "Foreground")]
    assert await cleaner.release(found) == 2
    assert (finalizers(plane, "o-engine"), finalizers(plane, "o-gone")) == (["test/other"], ["test/other"])


async def test_a_namespace_that_is_in_use_is_left_alone():
    with pytest.raises(
        UserError, match=("is not being deleted: delete the namespace, or the ModelDeployments")
    ):
        await Cleaner(Server(namespace(deleted=False)), Clusters(), TEAM).find()


async def test_a_cluster_that_is_not_known_is_said():
    with pytest.raises(UserError, match="InferenceCluster wset does not exist"):
        await Cleaner(Server(namespace(), cluster("west")), Clusters(), TEAM).find(["wset"])


@pytest.mark.parametrize(
    "item",
    [
        pytest.param({"owner": "example.org/v1"}, id="of somebody else"),
        pytest.param({"deleted": False}, id="not being deleted"),
    ],
)
async def test_other_objects_are_left_alone(item):
    plane = Server(namespace(), cluster("west"), held(far("engine"), WEST, **item))
    found = await Cleaner(plane, Clusters(west=Server(far("engine"))), TEAM).find()
    assert (found.items, found.doubts) == ((), ())


async def test_what_an_object_may_not_delete_stays_there():
    plane = Server(
        namespace(),
        cluster("west"),
        held(far(TEAM, "Namespace"), WEST, managementPolicies=["Observe", "Create", "Update"]),
    )
    west = Server(far(TEAM, "Namespace"))
    cleaner = Cleaner(plane, Clusters(west=west), TEAM)
    found = await cleaner.find()
    assert found.there == ()
    await cleaner.delete(found, Deadline(1))
    assert (await cleaner.release(found), west.deleted) == (1, [])


@pytest.mark.parametrize(
    ("west", "item", "why"),
    [
        pytest.param(None, {}, 'cluster "west" does not answer', id="no answer"),
        pytest.param(
            Server(far("engine", uid="another")),
            {"seen": "far-uid"},
            'cluster "west" contains another object with that name',
            id="another of that name",
        ),
        pytest.param(
            Server(far("engine")),
            {"config": "lost-cluster-kubeconfig-00000"},
            'no InferenceCluster uses ClusterProviderConfig "lost-cluster-kubeconfig-00000"',
            id="a cluster that nobody knows",
        ),
    ],
)
async def test_in_doubt_an_object_stays_and_the_others_go(west, item, why):
    east = Server(far("fine"))
    plane = Server(
        namespace(),
        cluster("west"),
        cluster("east"),
        held(far("engine"), **{"config": WEST, **item}),
        held(far("fine"), EAST),
    )
    cleaner = Cleaner(plane, Clusters(east=east, **({"west": west} if west else {})), TEAM)
    found = await cleaner.find()
    assert found.doubts == (f'kept Object "o-engine": {why}',)
    await cleaner.delete(found, Deadline(1))
    assert await cleaner.release(found) == 1
    assert finalizers(plane, "o-engine") == [FINALIZER, "test/other"]
    assert east.items == {}


async def test_a_404_of_something_before_the_server_is_no_word_of_its_own():
    west = Server()
    west.serves_it = False
    plane = Server(namespace(), cluster("west"), held(far("engine"), WEST))
    found = await Cleaner(plane, Clusters(west=west), TEAM).find()
    assert found.items == ()
    assert "cannot tell whether there is such a kind" in found.doubts[0]


async def test_only_the_clusters_that_are_named_are_cleaned():
    plane = Server(namespace(), cluster("west"), cluster("east"), held(far("a"), WEST), held(far("b"), EAST))
    found = await Cleaner(plane, Clusters(west=Server(far("a")), east=Server(far("b"))), TEAM).find(["east"])
    assert [str(each) for each in found.items] == ['east: Deployment "ml-team/b"']


async def test_nothing_is_let_go_before_it_is_gone():
    plane = Server(namespace(), cluster("west"), held(far("engine"), WEST))
    cleaner = Cleaner(plane, Clusters(west=Server(far("engine"), held=["engine"])), TEAM)
    found = await cleaner.find()
    with pytest.raises(NotInTime, match='west: Deployment "ml-team/engine" still exists'):
        await cleaner.delete(found, Deadline(0))
    assert finalizers(plane, "o-engine") == [FINALIZER, "test/other"]

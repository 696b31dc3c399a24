"""Copies of Secrets and ConfigMaps on a cluster, where the identity may read them in some namespaces only."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from modelplane.api import labels
from modelplane.compose import copy_access
from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.clusters.connections import Clusters
from modelplane.kube import errors, resources

pytestmark = pytest.mark.virtual_time

LABEL = "the namespace is not Modelplane's: kubectl label namespace"


class Cluster:
    """A cluster whose API server authorizes the copies of each namespace by a binding there."""

    def __init__(self, scripted: Any) -> None:
        self.scripted = scripted
        self.bound: set[str] = set()
        self.unlabeled: set[str] = set()
        self.gone: set[str] = set()
        self.unbindable: dict[str, tuple[int, str]] = {}
        self.refused_copies = ""
        self.reviews_until_in_force = 0
        self.end_watches = asyncio.Event()
        self.asked: list[tuple[str, str]] = []
        """Requests about copies and bindings, by method and namespace."""

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path, method = request.url.path, request.method
        namespace = "".join(re.findall("/namespaces/([^/]+)/", path))
        scripted: httpx2.Response = await self.scripted(request)
        if path.endswith("/selfsubjectaccessreviews"):
            body = scripted.json()
            return httpx2.Response(200, json=body | {"status": {"allowed": self._allowed(body["spec"])}})
        if path.endswith(f"/rolebindings/{copy_access.ROLE}"):
            self.asked.append((f"{method} binding", namespace))
            return self._binding(method, namespace, scripted)
        if "/secrets" in path or "/configmaps" in path:
            self.asked.append((f"{method} {path.split('/namespaces/')[-1].split('/')[-2]}", namespace))
            if namespace not in self.bound and method != "DELETE":
                return _answer(403, f"forbidden in {namespace or 'all namespaces'}")
            if method == "PATCH" and self.refused_copies:
                return _answer(403, self.refused_copies)
            if "watch" in request.url.params:
                return httpx2.Response(200, stream=_Watch(self.end_watches))
        return scripted

    def _allowed(self, spec: dict[str, Any]) -> bool:
        asked = spec["resourceAttributes"]
        assert (asked["verb"], asked["group"]) == ("list", "")
        assert asked["resource"] in {"secrets", "configmaps"}
        self.reviews_until_in_force -= 1
        return asked["namespace"] in self.bound and self.reviews_until_in_force < 0

    def _binding(self, method: str, namespace: str, scripted: httpx2.Response) -> httpx2.Response:
        if namespace in self.gone:
            return _answer(404, f'namespaces "{namespace}" not found')
        if namespace in self.unbindable:
            return _answer(*self.unbindable[namespace])
        if method == "DELETE":
            self.bound.discard(namespace)
        elif namespace in self.unlabeled:
            return _answer(403, LABEL)
        else:
            self.bound.add(namespace)
        return scripted

    def watched(self, connection: Connection) -> set[tuple[str, str]]:
        return {
            (resource.kind, place)
            for resource, place in connection.watches._informers
            if resource in (resources.SECRETS, resources.CONFIG_MAPS)
        }


class _Watch(httpx2.AsyncByteStream):
    def __init__(self, end: asyncio.Event) -> None:
        self._end = end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await self._end.wait()
        self._end.clear()
        yield b""


def _answer(code: int, message: str) -> httpx2.Response:
    return httpx2.Response(code, json={"kind": "Status", "message": message})


@pytest.fixture
def cluster(east: Any) -> Cluster:
    return Cluster(east)


def _child(kind: str, name: str, namespace: str, api_version: str = "v1") -> dict[str, Any]:
    own = {labels.MANAGED_BY: "modelplane", labels.OWNER_UID: "u"}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata | {"resourceVersion": "5", "labels": own},
    }


def _namespace(name: str) -> dict[str, Any]:
    own = {labels.MANAGED_BY: "modelplane"}
    metadata = {"name": name, "uid": name, "resourceVersion": "1", "labels": own}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _secrets(namespace: str = "") -> Requirement:
    return Requirement("secrets", "v1", "Secret", namespace=namespace, cluster="east")


async def test_the_first_copy_in_a_namespace_comes_after_the_access_to_it_and_begins_its_watch(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    for namespace in ("a", "b"):
        for name in ("one", "two"):
            await connection.apply(_child("Secret", name, namespace), force=False)
    await asyncio.sleep(1)
    writes = [each for each in cluster.asked if "GET" not in each[0]]
    assert writes == [
        ("PATCH binding", "a"),
        ("PATCH secrets", "a"),
        ("PATCH secrets", "a"),
        ("PATCH binding", "b"),
        ("PATCH secrets", "b"),
        ("PATCH secrets", "b"),
    ]
    assert cluster.watched(connection) == {("Secret", "a"), ("Secret", "b")}


async def test_what_was_written_is_a_child_at_once_and_until_the_list_is_there(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    copy = _child("Secret", "one", "a")
    await connection.apply(copy, force=False)
    assert [each["metadata"]["name"] for each in connection.children.of("u")] == ["one"]
    assert clusters.find(_secrets("a")) == Unknown("its objects are still being read", loading=True)
    cluster.scripted.has([copy])
    await connection.watches.informer(resources.SECRETS, "a").wait_until_synced()
    for required in (_secrets("a"), _secrets()):
        found = clusters.find(required)
        assert not isinstance(found, Unknown)
        assert [each["metadata"]["name"] for each in found] == ["one"]
    assert [each["metadata"]["name"] for each in connection.watches.objects(resources.SECRETS)] == ["one"]
    assert clusters.find(_secrets("b")) == ()


async def test_who_may_read_without_a_binding_makes_none(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    cluster.bound.add("a")
    connection = await connected(clusters, "east", cluster)
    await connection.apply(_child("ConfigMap", "one", "a"), force=False)
    assert [each for each in cluster.asked if "GET" not in each[0]] == [("PATCH configmaps", "a")]


async def test_a_binding_that_is_not_in_force_yet_is_waited_for(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    cluster.reviews_until_in_force = 5
    await connection.apply(_child("Secret", "one", "a"), force=False)
    assert ("PATCH secrets", "a") in cluster.asked


async def test_a_binding_that_does_not_come_into_force_is_said_with_the_remedy(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    cluster.reviews_until_in_force = 10_000
    with pytest.raises(errors.Forbidden) as refused:
        await connection.apply(_child("Secret", "one", "a"), force=False)
    assert str(refused.value) == (
        'RoleBinding "modelplane-inference-cluster-copies" in namespace "a" does not allow the identity to '
        "list secrets: delete it if it exists, and apply the output of `modelplane install "
        "--inference-cluster` to the cluster"
    )
    assert ("PATCH secrets", "a") not in cluster.asked


async def test_at_the_start_copies_are_looked_for_where_modelplane_is_and_nowhere_else(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    cluster.scripted.has(
        [
            _child("Deployment", "engine", "used", "apps/v1"),
            _child("ConfigMap", "settings", "used"),
            _child("RoleBinding", copy_access.ROLE, "left", "rbac.authorization.k8s.io/v1"),
            _namespace("labeled"),
            _child("Secret", "foreign", "foreign"),
        ]
    )
    cluster.bound = {"used", "left"}
    connection = await connected(clusters, "east", cluster)
    assert cluster.watched(connection) == {("ConfigMap", "used")}
    assert [each["metadata"]["name"] for each in connection.children.of("u")] == ["engine", "settings"]
    read = {namespace for request, namespace in cluster.asked if request.startswith("GET")}
    assert read == {"used", "left", "labeled"}
    assert cluster.bound == {"used"}, "where no copies are, the access is given back"
    assert resources.ROLE_BINDINGS not in {kind for kind, _ in connection.watches._informers}


async def test_a_binding_that_is_not_in_force_at_the_start_stays(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    cluster.scripted.has([_child("RoleBinding", copy_access.ROLE, "a", "rbac.authorization.k8s.io/v1")])
    cluster.reviews_until_in_force = 10_000
    await connected(clusters, "east", cluster)
    assert cluster.bound == {"a"}
    found = clusters.find(_secrets("a"))
    assert isinstance(found, Unknown)
    assert "does not allow the identity to list secrets" in found.cause


async def test_without_copies_a_cluster_costs_four_watches(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    cluster.scripted.has([_namespace("labeled")])
    connection = await connected(clusters, "east", cluster)
    assert len(connection.watches._informers) == 4


async def test_a_namespace_whose_copies_may_not_be_read_is_unknown_until_they_may(
    clusters: Clusters, cluster: Cluster, connected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.scripted.has(
        [
            _child("Deployment", "engine", "a", "apps/v1"),
            _child("Secret", "one", "a"),
            _child("Secret", "two", "b"),
            _namespace("b"),
        ]
    )
    cluster.unlabeled = {"a"}
    with caplog.at_level("INFO"):
        connection = await connected(clusters, "east", cluster)
        await asyncio.sleep(600)
    assert connection.problem is None
    assert clusters.find(_secrets("a")) == clusters.find(_secrets()) == Unknown(LABEL)
    assert clusters.find(Requirement("c", "v1", "ConfigMap", namespace="a", cluster="east")) == Unknown(LABEL)
    assert isinstance(clusters.find(_secrets("b")), tuple)
    assert caplog.text.count(LABEL) == 2, "once for each kind"
    with pytest.raises(errors.Forbidden, match=LABEL):
        await connection.look_for("u", "a")
    cluster.unlabeled.clear()
    await asyncio.sleep(120)
    assert cluster.watched(connection) == {("Secret", "a"), ("Secret", "b")}
    assert isinstance(clusters.find(_secrets("a")), tuple)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param(422, "roleRef: cannot change roleRef", id="another binding has its name"),
        pytest.param(404, 'clusterroles "modelplane-inference-cluster-copies" not found', id="no role"),
    ],
)
async def test_a_namespace_that_cannot_be_bound_is_no_problem_of_the_others(
    clusters: Clusters, cluster: Cluster, connected: Any, code: int, message: str
) -> None:
    cluster.scripted.has([_namespace("a"), _namespace("b"), _child("Secret", "one", "b")])
    cluster.unbindable["a"] = code, message
    connection = await connected(clusters, "east", cluster)
    why = Unknown(
        f'RoleBinding "{copy_access.ROLE}" in namespace "a" cannot be made ({message}): delete it if it '
        "exists, and apply the output of `modelplane install --inference-cluster` to the cluster"
    )
    assert clusters.find(_secrets("a")) == why
    assert (connection.problem, cluster.watched(connection)) == (None, {("Secret", "b")})


async def test_access_that_was_taken_away_is_taken_again_with_the_next_copy(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    await connection.apply(_child("Secret", "one", "a"), force=False)
    cluster.bound.clear()
    await connection.apply(_child("Secret", "two", "a"), force=False)
    assert cluster.bound == {"a"}


async def test_a_copy_that_a_policy_refuses_is_refused_once(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    cluster.bound.add("a")
    cluster.refused_copies = "no token"
    with pytest.raises(errors.Forbidden, match="no token"):
        await connection.apply(_child("Secret", "one", "a"), force=False)
    assert cluster.asked.count(("PATCH secrets", "a")) == 1


async def test_access_that_was_taken_away_is_taken_again_by_the_watch(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    cluster.scripted.has([_namespace("a"), copy := _child("Secret", "one", "a")])
    connection = await connected(clusters, "east", cluster)
    informer = connection.watches.informer(resources.SECRETS, "a")
    await informer.wait_until_synced()
    cluster.bound.clear()
    cluster.unlabeled.add("a")
    cluster.end_watches.set()
    await asyncio.sleep(60)
    assert clusters.find(_secrets("a")) == Unknown(LABEL), "unknown, with the cause"
    assert [*informer] == [copy], "and what was known stays"
    cluster.unlabeled.clear()
    await asyncio.sleep(60)
    assert (cluster.bound, informer.problem) == ({"a"}, "")


async def test_an_owners_copies_are_looked_for_in_its_namespace_only(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    copies = [_child("Secret", "one", "a"), _child("Secret", "one", "b")]
    cluster.scripted.has([_namespace("a"), _namespace("b"), *copies])
    connection = await connected(clusters, "east", cluster)
    await asyncio.sleep(1)
    cluster.asked.clear()
    cluster.bound.clear()
    assert [each["metadata"]["namespace"] for each in await connection.look_for("u", "a")] == ["a"]
    assert {namespace for _, namespace in cluster.asked} == {"a"}
    assert cluster.bound == {"a"}, "somebody had deleted the binding"


async def test_an_owner_without_copies_needs_no_access(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    assert await connection.look_for("u", "a") == ()
    assert cluster.asked == []


async def test_access_is_given_back_with_the_last_copy_of_any_owner(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    await connection.apply(copy := _child("Secret", "one", "a"), force=False)
    informer = connection.watches.informer(resources.SECRETS, "a")
    informer._drop(copy)
    await connection.watches.give_back("a")
    assert cluster.bound == {"a"}, "not while the list is under way"
    cluster.scripted.has([copy])
    await informer.wait_until_synced()
    assert len(await connection.look_for("u", "a")) == 1
    cluster.scripted.has([])
    assert await connection.look_for("u", "a") == ()
    assert cluster.bound == {"a"}, "not while the watch knows of one"
    informer._drop(next(iter(informer)))
    assert await connection.look_for("u", "a") == ()
    assert (cluster.bound, cluster.watched(connection)) == (set(), set())
    await connection.apply(_child("Secret", "one", "a"), force=False)
    assert (cluster.bound, cluster.watched(connection)) == ({"a"}, {("Secret", "a")})


async def test_copies_are_gone_with_their_namespace_and_so_is_the_watch(
    clusters: Clusters, cluster: Cluster, connected: Any
) -> None:
    connection = await connected(clusters, "east", cluster)
    await connection.apply(_child("Secret", "one", "a"), force=False)
    # The list is not there yet, and neither is the namespace any more.
    cluster.bound.clear()
    cluster.gone.add("a")
    assert await connection.look_for("u", "a") == ()
    await asyncio.sleep(600)
    assert (cluster.watched(connection), connection.children.of("u")) == (set(), ())
    asked = len(cluster.asked)
    await asyncio.sleep(600)
    assert len(cluster.asked) == asked

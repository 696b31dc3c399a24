import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import yaml

from modelplane.api import labels
from modelplane.compose.composition import Requirement, Unknown
from modelplane.controllers.clusters import Clusters, Connection
from modelplane.kube import errors, resources

WHERE = 'Secret "s" in namespace "modelplane-system"'
PODS = Requirement("pods", "v1", "Pod", cluster="east")


def _kubeconfig(**user: str) -> bytes:
    # Port 1 refuses at once.
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": user}],
        }
    ).encode()


def _secret(content: bytes) -> dict[str, Any]:
    return {"data": {"kubeconfig": base64.b64encode(content).decode()}}


def _connect(clusters: Clusters, secret: dict[str, Any] | None) -> None:
    clusters.connect("east", secret, "kubeconfig", WHERE)


@pytest.fixture
async def told() -> list[str]:
    return []


@pytest.fixture
async def clusters(told: list[str]) -> AsyncIterator[Clusters]:
    known = Clusters(lambda _cluster, _item: None, told.append)
    yield known
    await known.close()


GOOD = _secret(_kubeconfig(token="one"))


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        pytest.param(None, f"there is no {WHERE}", id="no secret"),
        pytest.param({}, f'{WHERE} has no key "kubeconfig"', id="no key in it"),
        pytest.param({"data": {"kubeconfig": "%"}}, "is not base64", id="not base64"),
        pytest.param(_secret(b"token: 'unclosed"), "is not a kubeconfig", id="not YAML"),
        pytest.param(_secret(b"text"), "is not a kubeconfig", id="some text"),
        pytest.param(_secret(b"{}"), "cannot use the kubeconfig", id="nothing in it"),
        pytest.param(
            _secret(_kubeconfig(**{"client-certificate-data": "bm8=", "client-key-data": "bm8="})),
            "cannot use the kubeconfig",
            id="a certificate that is none",
        ),
    ],
)
async def test_a_secret_that_cannot_be_used_is_a_problem_of_that_cluster_only(
    clusters: Clusters, told: list[str], secret: dict[str, Any] | None, problem: str
) -> None:
    for _ in range(2):
        _connect(clusters, secret)
    assert problem in clusters.problem("east")
    assert told == ["east"], "told once"
    assert isinstance(found := clusters.find(PODS), Unknown)
    assert not found.loading, "nobody waits for it"


async def test_a_problem_does_not_quote_the_credentials(clusters: Clusters) -> None:
    _connect(clusters, _secret(b"users:\n- token: 'geheim"))
    assert "geheim" not in clusters.problem("east")


async def test_a_secret_that_becomes_unusable_cuts_nobody_off(
    clusters: Clusters, caplog: pytest.LogCaptureFixture
) -> None:
    _connect(clusters, GOOD)
    connection = clusters.get("east")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            for secret in (None, None, GOOD):
                _connect(clusters, secret)
    assert clusters.get("east") is connection
    assert caplog.text.count("cannot connect to cluster east: there is no Secret") == 2


async def test_another_identity_is_another_connection(clusters: Clusters) -> None:
    _connect(clusters, GOOD)
    before = clusters.get("east")
    _connect(clusters, _secret(_kubeconfig(token="two")))
    assert clusters.get("east") is not before


async def test_a_cluster_without_an_object_is_said_not_to_exist(clusters: Clusters) -> None:
    assert clusters.find(PODS) == Unknown('there is no InferenceCluster "east"')
    clusters.refuse("east", "a cluster of source EKS has no kubeconfig yet")
    assert clusters.find(PODS) == Unknown("a cluster of source EKS has no kubeconfig yet")
    clusters.disconnect("east")
    assert clusters.find(PODS) == Unknown('there is no InferenceCluster "east"')


async def test_a_cluster_that_is_being_read_is_not_an_empty_one(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    east.silent = True
    connection = await connected(clusters, "east", east, read=False)
    await asyncio.sleep(0.02)
    found = clusters.find(PODS)
    assert isinstance(found, Unknown)
    assert found.loading
    assert (connection.routable, connection.lost, told) == (False, "", [])


async def test_who_waits_for_a_cluster_is_told_once_when_it_has_been_read(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    await connected(clusters, "east", east)
    await asyncio.sleep(0.02)
    assert told == ["east"]
    assert clusters.find(PODS) == ()


async def test_dropping_a_cluster_ends_the_writes_to_it_with_an_answer(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    clusters.disconnect("east")
    await asyncio.sleep(0.02)
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}}
    with pytest.raises(errors.Unreachable):
        await connection.apply(manifest, force=True)


async def test_a_missing_namespace_is_made(clusters: Clusters, east: Any, connected: Any) -> None:
    connection = await connected(clusters, "east", east)
    path = "/api/v1/namespaces/n/services/s"
    east.refuse("PATCH", path, 404, 'namespaces "n" not found')
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}}
    with pytest.raises(errors.NotFound):
        await connection.apply(manifest, force=True)
    assert [(method, where) for method, where, _, _ in east.writes] == [
        ("PATCH", path),
        ("POST", "/api/v1/namespaces"),
        ("PATCH", path),
    ]


async def test_a_cluster_that_goes_away_is_reported(clusters: Clusters, east: Any, connected: Any) -> None:
    connection = await connected(clusters, "east", east)
    informer = connection.informer(resources.PODS)
    informer.problem, informer.problem_since = "refused", asyncio.get_running_loop().time()
    assert (connection.problem, connection.lost) == ("", ""), "a moment's silence is none"
    informer.problem_since -= 60
    assert (connection.problem, connection.lost) == ("refused", ""), "it may be restarting"
    informer.problem_since -= 300
    assert (connection.problem, connection.lost) == ("refused", "refused")
    assert clusters.find(PODS) == Unknown("refused")
    assert (clusters.lost("east"), clusters.lost("west")) == (
        "refused",
        'there is no InferenceCluster "west"',
    )


def _job(name: str) -> dict[str, Any]:
    own = {labels.MANAGED_BY: "modelplane", labels.OWNER_UID: "u"}
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "5", "labels": own}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}


def _watched(connection: Connection) -> set[str]:
    return {resource.kind for resource, _ in connection._informers}


async def test_a_rarer_kind_is_watched_where_there_are_children_of_it(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    east.has([_job("a")])
    connection = await connected(clusters, "east", east)
    assert _watched(connection) & {"Job", "Secret", "LeaderWorkerSet"} == {"Job"}
    assert [child["metadata"]["name"] for child in connection.children.of("u")] == ["a"]


async def test_the_first_child_of_a_rarer_kind_begins_its_watch_and_disturbs_nobody(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    connection = await connected(clusters, "east", east)
    await asyncio.sleep(0.02)
    told.clear()
    await connection.apply(_job("a"), force=False)
    assert connection.problem == ""
    assert [child["metadata"]["name"] for child in connection.children.of("u")] == ["a"]
    east.has([_job("a")])
    await connection.informer(resources.JOBS).wait_until_synced()
    await asyncio.sleep(0.02)
    assert told == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param(404, "the server could not find the requested resource", id="not installed"),
        pytest.param(403, "leaderworkersets is forbidden", id="not permitted"),
    ],
)
async def test_a_rarer_kind_that_cannot_be_had_leaves_the_cluster_usable(
    clusters: Clusters, east: Any, connected: Any, code: int, message: str
) -> None:
    group = "/apis/leaderworkerset.x-k8s.io/v1"
    east.refuse("GET", f"{group}/leaderworkersets", code, message)
    east.answers["GET", group] = httpx2.Response(200, json={"kind": "APIResourceList", "resources": []})
    connection = await connected(clusters, "east", east)
    assert clusters.find(PODS) == ()
    gangs = Requirement("gangs", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", cluster="east")
    while isinstance(found := clusters.find(gangs), Unknown) and found.loading:
        await asyncio.sleep(0.02)
    assert found == (() if code == 404 else Unknown(message))
    assert connection.problem == ""


async def test_a_cluster_that_cannot_say_what_it_holds_is_not_read_yet(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    east.refuse("GET", "/apis/batch/v1/jobs", 500, "etcd is away")
    connection = await connected(clusters, "east", east, read=False)
    await asyncio.sleep(0.1)
    assert connection.problem == "etcd is away"


async def test_who_asks_for_the_first_of_a_rarer_kind_is_told_when_it_has_been_read(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    await connected(clusters, "east", east)
    await asyncio.sleep(0.02)
    told.clear()
    jobs = Requirement("jobs", "batch/v1", "Job", cluster="east")
    assert isinstance(found := clusters.find(jobs), Unknown)
    assert found.loading
    while not told:
        await asyncio.sleep(0.02)
    assert clusters.find(jobs) == ()


async def test_the_pods_of_caches_are_another_copy_than_those_of_engines(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    own = Requirement("pods", "v1", "Pod", labels={labels.MODEL_CACHE: "weights"}, cluster="east")
    while isinstance(clusters.find(own), Unknown):
        await asyncio.sleep(0.02)
    assert {slot for resource, slot in connection._informers if resource == resources.PODS} == {
        "",
        labels.MODEL_CACHE,
    }


async def test_an_owner_is_found_by_uid_whatever_the_kind_of_what_is_left(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    east.has([_job("a")])
    assert [child["kind"] for child in await connection.look_for("u")] == ["Job"]


async def test_a_kind_that_may_not_be_read_holds_an_owner_only_where_it_is_known_to_have_some(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    east.refuse("GET", "/apis/batch/v1/jobs", 403, "jobs is forbidden")
    assert await connection.look_for("u") == ()
    await connection.apply(_job("a"), force=False)
    with pytest.raises(errors.Forbidden):
        await connection.look_for("u")

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
from modelplane.controllers.clusters import connections
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.fleet_resources import find_known
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client

pytestmark = pytest.mark.virtual_time

WHERE = 'Secret "s" in namespace "modelplane-system"'
PODS = Requirement("pods", "v1", "Pod", cluster="east")


def _kubeconfig(**user: str) -> bytes:
    # Port 1 refuses at once.
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
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
    clusters = Clusters(lambda _cluster, _item: None, told.append)
    yield clusters
    await clusters.close()


GOOD = _secret(_kubeconfig(token="one"))


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        pytest.param(None, f"there is no {WHERE}", id="no secret"),
        pytest.param({}, f'{WHERE} has no key "kubeconfig"', id="no key in it"),
        pytest.param({"data": {"kubeconfig": "%"}}, "is not base64", id="not base64"),
        pytest.param(_secret(b"token: 'unclosed"), "is not a kubeconfig", id="not YAML"),
        pytest.param(_secret(b"text"), "is not a kubeconfig", id="some text"),
        pytest.param(_secret(b"{}"), "has no current-context", id="nothing in it"),
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
    assert problem in (clusters.problem("east") or "")
    assert told == ["east"], "told once"
    assert isinstance(found := clusters.find(PODS), Unknown)
    assert not found.loading, "nobody waits for it"


async def test_a_problem_does_not_quote_the_credentials(clusters: Clusters) -> None:
    _connect(clusters, _secret(b"users:\n- token: 'geheim"))
    assert "geheim" not in (clusters.problem("east") or "geheim")


async def test_a_secret_that_becomes_unusable_cuts_nobody_off(
    clusters: Clusters, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    _connect(clusters, GOOD)
    connection = clusters.get("east")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            for secret in (None, None, GOOD):
                _connect(clusters, secret)
            assert clusters.kubeconfig_problem("east") is None
    assert clusters.get("east") is connection
    assert told == ["east"] * 4, "of each problem, and of its end"
    assert caplog.text.count("cannot connect to cluster east: there is no Secret") == 2


async def test_another_identity_is_another_connection(clusters: Clusters) -> None:
    _connect(clusters, GOOD)
    before = clusters.get("east")
    _connect(clusters, _secret(_kubeconfig(username="u", password="p")))
    assert clusters.get("east") is not before


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, east: Any) -> set[str]:
    """The tokens that the cluster accepts, in place of the connection of each kubeconfig."""
    accepted = {"one", "two"}

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.headers["authorization"].removeprefix("Bearer ") not in accepted:
            return httpx2.Response(401, json={"kind": "Status", "message": "Unauthorized"})
        response: httpx2.Response = await east(request)
        return response

    def connect(content: dict[str, Any], **_: object) -> Client:
        http = httpx2.AsyncClient(base_url="http://east", transport=httpx2.MockTransport(answer))
        client = Client(http, "modelplane", known=find_known)
        client.use_token(content["users"][0]["user"]["token"])
        return client

    monkeypatch.setattr(Client, "from_kubeconfig", connect)
    return accepted


async def test_another_token_of_the_same_identity_keeps_the_connection_and_its_copies(
    clusters: Clusters, taken: set[str]
) -> None:
    _connect(clusters, GOOD)
    await asyncio.sleep(1)
    before = clusters.get("east")
    assert clusters.find(PODS) == ()
    _connect(clusters, _secret(_kubeconfig(token="two")))
    taken.remove("one")
    assert clusters.get("east") is before
    assert clusters.find(PODS) == (), "it is not read again"
    await asyncio.sleep(1)
    assert before
    await before.client.get(resources.PODS, "p", "n")
    assert clusters.get("east") is before


async def test_a_token_that_the_cluster_does_not_accept_is_said_at_once(
    clusters: Clusters, taken: set[str]
) -> None:
    _connect(clusters, GOOD)
    await asyncio.sleep(1)
    _connect(clusters, _secret(_kubeconfig(token="three")))
    await asyncio.sleep(1)
    assert clusters.problem("east") == (
        "the API server does not accept the credential, which may have expired: store a new kubeconfig in "
        f"{WHERE}, with the commands that `modelplane install --inference-cluster` prints"
    )
    taken.add("four")
    _connect(clusters, _secret(_kubeconfig(token="four")))
    await asyncio.sleep(1)
    assert clusters.problem("east") is None, "the next one is used at once"


async def test_another_server_is_another_connection(clusters: Clusters, taken: set[str]) -> None:
    assert taken
    _connect(clusters, GOOD)
    await asyncio.sleep(1)
    before = clusters.get("east")
    _connect(clusters, _secret(_kubeconfig(token="two").replace(b"127.0.0.1", b"127.0.0.2")))
    assert clusters.get("east") is not before


async def test_a_cluster_without_an_object_is_said_not_to_exist(clusters: Clusters) -> None:
    assert clusters.find(PODS) == Unknown('InferenceCluster "east" does not exist')
    clusters.refuse("east", "a cluster of source EKS has no kubeconfig yet")
    assert clusters.find(PODS) == Unknown("a cluster of source EKS has no kubeconfig yet")
    clusters.disconnect("east")
    assert clusters.find(PODS) == Unknown('InferenceCluster "east" does not exist')


async def test_a_cluster_that_is_being_read_is_not_an_empty_one(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    east.silent = True
    connection = await connected(clusters, "east", east, read=False)
    await asyncio.sleep(10)
    found = clusters.find(PODS)
    assert isinstance(found, Unknown)
    assert found.loading
    assert (connection.watches.routable, connection.loss, told) == (False, None, [])


async def test_who_waits_for_a_cluster_is_told_once_when_it_has_been_read(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    await connected(clusters, "east", east)
    await asyncio.sleep(600)
    assert told == ["east"]
    assert clusters.find(PODS) == ()


async def test_dropping_a_cluster_ends_the_writes_to_it_with_an_answer(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    clusters.disconnect("east")
    await asyncio.sleep(1)
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
    informer = connection.watches.informer(resources.GATEWAYS)
    informer.problem, informer.problem_since = "refused", asyncio.get_running_loop().time()
    assert (connection.problem, connection.loss) == (None, None), "a moment's silence is none"
    informer.problem_since -= 60
    assert (connection.problem, connection.loss) == ("refused", None), "it may be restarting"
    informer.problem_since -= 300
    assert (connection.problem, connection.loss) == ("refused", "refused")
    found = clusters.find(PODS)
    assert isinstance(found, Unknown)
    assert found.cause == "refused"
    silent = timestamps.parse(timestamps.format_now()) - timestamps.parse(found.since)
    assert 360 <= silent.total_seconds() <= 370
    assert clusters.find_loss("east") == "refused"


@pytest.mark.parametrize("report", ["", "there is no Secret"])
async def test_a_cluster_without_a_connection_is_lost_after_minutes_not_at_once(
    clusters: Clusters, report: str
) -> None:
    """Absence of a credential is no loss: the cluster may be well. A new process knows no more."""
    if report:
        clusters.report("west", report)
    await asyncio.sleep(600)
    assert clusters.find_loss("west") is None, "nobody was waiting for it"
    clusters.start_waiting("west")
    await asyncio.sleep(300)
    clusters.start_waiting("west")
    assert clusters.find_loss("west") is None
    await asyncio.sleep(1)
    assert clusters.find_loss("west") == (report or 'InferenceCluster "west" does not exist')
    clusters.disconnect("west")
    clusters.start_waiting("west")
    assert clusters.find_loss("west") is None, "a new InferenceCluster of the name has its own minutes"


def _job(name: str) -> dict[str, Any]:
    own = {labels.MANAGED_BY: "modelplane", labels.OWNER_UID: "u"}
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": "5", "labels": own}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}


def _deployment(name: str) -> dict[str, Any]:
    return {**_job(name), "apiVersion": "apps/v1", "kind": "Deployment"}


def _watched(connection: Connection) -> set[str]:
    return {resource.kind for resource, _ in connection.watches._informers}


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
    await asyncio.sleep(1)
    told.clear()
    await connection.apply(_job("a"), force=False)
    assert connection.problem is None
    assert [child["metadata"]["name"] for child in connection.children.of("u")] == ["a"]
    east.has([_job("a")])
    await connection.watches.informer(resources.JOBS).wait_until_synced()
    await asyncio.sleep(600)
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
        await asyncio.sleep(0.1)
    assert found == (() if code == 404 else Unknown(message))
    assert connection.problem is None


async def test_a_cluster_that_cannot_say_what_it_holds_is_not_read_yet(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    east.refuse("GET", "/apis/batch/v1/jobs", 500, "etcd is away")
    connection = await connected(clusters, "east", east, read=False)
    await asyncio.sleep(600)
    assert (connection.problem, connection.watches.routable) == ("etcd is away", False)


async def test_of_a_kind_that_was_looked_for_in_vain_there_is_nothing(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    connection = await connected(clusters, "east", east)
    await asyncio.sleep(1)
    told.clear()
    assert clusters.find(Requirement("jobs", "batch/v1", "Job", cluster="east")) == ()
    await asyncio.sleep(600)
    assert (_watched(connection), told) == ({"Gateway", "CustomResourceDefinition"}, []), "nobody waits"


async def test_a_kind_that_may_be_read_after_all_is_read(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    east.has([_job("a")])
    east.refuse("GET", "/apis/batch/v1/jobs", 403, "jobs is forbidden")
    await connected(clusters, "east", east)
    jobs = Requirement("jobs", "batch/v1", "Job", cluster="east")
    assert clusters.find(jobs) == Unknown("jobs is forbidden")
    await asyncio.sleep(1)
    told.clear()
    await asyncio.sleep(600)
    assert told == [], "that it stays so is no news"
    east.answers.clear()
    async with asyncio.timeout(600):
        while not told:
            await asyncio.sleep(1)
    found = clusters.find(jobs)
    assert not isinstance(found, Unknown)
    assert [job["metadata"]["name"] for job in found] == ["a"]


async def test_what_is_written_at_the_same_time_is_known_whatever_is_answered_first(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    late = asyncio.Event()

    async def slowly(request: httpx2.Request) -> httpx2.Response:
        response: httpx2.Response = await east(request)
        if request.url.path.endswith("/first"):
            await late.wait()
        return response

    connection.client._http = httpx2.AsyncClient(
        base_url="http://server", transport=httpx2.MockTransport(slowly)
    )
    first, second = _job("first"), _job("second")
    writing = asyncio.create_task(connection.apply(first, force=False))
    await asyncio.sleep(1)
    await connection.apply(second, force=False)
    late.set()
    await writing
    known = {child["metadata"]["name"] for child in connection.children.of("u")}
    assert known == {"first", "second"}
    assert connection.watches.informer(resources.JOBS).synced


@pytest.mark.parametrize("how", ["found", "written"])
async def test_pods_are_watched_where_there_is_what_makes_them(
    clusters: Clusters, east: Any, connected: Any, how: str
) -> None:
    workloads = (_job("a"), _deployment("b"), _deployment("c"))
    if how == "found":
        east.has(workloads)
    connection = await connected(clusters, "east", east)
    if how == "written":
        for each in workloads:
            await connection.apply(each, force=False)
    slots = [slot for resource, slot in connection.watches._informers if resource == resources.PODS]
    assert sorted(slots) == sorted([labels.WORKLOAD, labels.MODEL_CACHE])


@pytest.mark.parametrize(("routes", "kinds"), [(False, {"Service"}), (True, {"Service", "EndpointSlice"})])
async def test_addresses_of_pods_are_watched_where_requests_go_there_from_here(
    east: Any, routes: bool, kinds: set[str]
) -> None:
    http = httpx2.AsyncClient(base_url="http://server", transport=httpx2.MockTransport(east))
    connection = Connection("east", Client(http, "tester"), lambda *_: None, lambda _: None, routes=routes)
    await connection.open()
    assert connection.watches.routable
    await connection.apply({**_job("s"), "apiVersion": "v1", "kind": "Service"}, force=False)
    assert _watched(connection) & {"Service", "EndpointSlice"} == kinds
    await connection.close()


async def test_a_kind_of_which_every_replica_is_made_has_to_be_readable(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    east.refuse("GET", "/apis/apps/v1/deployments", 403, "deployments is forbidden")
    connection = await connected(clusters, "east", east, read=False)
    await asyncio.sleep(1)
    assert clusters.find(PODS) == Unknown("deployments is forbidden")
    assert not connection.loading


async def test_who_needs_a_cluster_is_told_when_patience_with_it_ends_and_when_it_is_back(
    clusters: Clusters, east: Any, connected: Any, told: list[str]
) -> None:
    connection = await connected(clusters, "east", east)
    gateway = connection.watches.informer(resources.GATEWAYS)
    await asyncio.sleep(1)
    told.clear()
    gateway._suffer("refused")
    await asyncio.sleep(14)
    assert (told, connection.problem) == (["east"], None), "not yet"
    await asyncio.sleep(2)
    assert (told, connection.problem) == (["east", "east"], "refused")
    await gateway._list()
    assert (len(told), connection.problem) == (3, None)


async def test_a_fleet_is_opened_a_few_clusters_at_a_time_and_a_silent_one_keeps_nobody_waiting_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_OPENED_AT_A_TIME", 2)
    opened: list[str] = []

    async def open_(connection: Connection) -> None:
        opened.append(connection.name)
        await asyncio.Event().wait()

    monkeypatch.setattr(Connection, "open", open_)
    some = Clusters(lambda *_: None, lambda _: None)
    for number in range(5):
        some.connect(str(number), GOOD, "kubeconfig", WHERE)
    some.disconnect("3")
    await asyncio.sleep(0.5)
    assert opened == ["0", "1"]
    await asyncio.sleep(1)
    assert opened == ["0", "1", "2", "4"]
    await some.close()


async def test_the_gateway_of_a_cluster_may_be_a_child(clusters: Clusters, east: Any, connected: Any) -> None:
    metadata = {
        "name": "inference-gateway",
        "namespace": "modelplane-system",
        "uid": "g",
        "resourceVersion": "2000",
        "labels": {labels.OWNER_UID: "u"},
        "annotations": {labels.CHILD: "gateway"},
    }
    connection = await connected(clusters, "east", east)
    gateway = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": metadata}
    connection.watches.informer(resources.GATEWAYS).remember(gateway)
    assert connection.children.keyed("u") == {"gateway": gateway}


async def test_an_owner_is_found_by_uid_whatever_the_kind_of_what_is_left(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    east.has([_job("a")])
    assert [child["kind"] for child in await connection.look_for("u", "n")] == ["Job"]


async def test_a_kind_that_may_not_be_read_holds_an_owner_only_where_it_is_known_to_have_some(
    clusters: Clusters, east: Any, connected: Any
) -> None:
    connection = await connected(clusters, "east", east)
    east.refuse("GET", "/apis/batch/v1/jobs", 403, "jobs is forbidden")
    assert await connection.look_for("u", "n") == ()
    await connection.apply(_job("a"), force=False)
    with pytest.raises(errors.Forbidden):
        await connection.look_for("u", "n")

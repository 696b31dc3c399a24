import asyncio
import base64
import json
import logging
import math
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from modelplane.compose.cluster.cluster_facts import Credential
from modelplane.controllers.clusters import token_renewal as module
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.token_renewal import Credentials, pause_s, renewal_of, share_of
from modelplane.controllers.fleet_resources import find_known
from modelplane.install.installation_options import CREDENTIAL_LIFETIME
from modelplane.kube import timestamps
from modelplane.kube.client import Client
from modelplane.kube.kubeconfig_secret import Claims, Lifetime
from support.renewing import renewing
from support.tokens import SUBJECT, kubeconfig, token
from unit.conftest import Scripted

pytestmark = pytest.mark.virtual_time

DAY = 86_400
ISSUED, EXPIRES = 1_000_000, 1_000_000 + 30 * DAY
OLD = token(iat=ISSUED, exp=EXPIRES)
NEW = token(iat=ISSUED + 15 * DAY, exp=ISSUED + 45 * DAY)
SECRET = "/api/v1/namespaces/modelplane-system/secrets/east"
REQUEST = "/api/v1/namespaces/modelplane-system/serviceaccounts/modelplane-inference-cluster/token"
REMEDY = (
    'store a new kubeconfig in Secret "east" in namespace "modelplane-system", with the commands that '
    "`modelplane install --inference-cluster` prints"
)


class Plane(Scripted):
    """A control plane that keeps one Secret, and changes it where its version is named."""

    def __init__(self) -> None:
        super().__init__()
        self.secret: dict[str, Any] = {}

    def keep(self, content: bytes) -> None:
        metadata = {"name": "east", "namespace": "modelplane-system", "uid": "s", "resourceVersion": "2"}
        data = {"kubeconfig": base64.b64encode(content).decode(), "other": "b3RoZXI="}
        self.secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        origin = {"source": "Existing", "existing": {"secretRef": {"name": "east"}}}
        cluster = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east", "uid": "c", "resourceVersion": "1"},
            "spec": {"cluster": origin},
        }
        self.has([cluster, self.secret])

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().__call__(request)
        if (request.method, request.url.path) != ("PATCH", SECRET) or answer.is_error:
            return answer
        body = json.loads(request.content)
        if body["metadata"] != {"resourceVersion": self.secret["metadata"]["resourceVersion"]}:
            return httpx2.Response(409, json={"kind": "Status", "message": "it was changed"})
        metadata = self.secret["metadata"] | {"resourceVersion": "2000"}
        self.secret = self.secret | {"metadata": metadata, "data": self.secret["data"] | body["data"]}
        return httpx2.Response(200, json=self.secret)

    @property
    def kubeconfig(self) -> bytes:
        return base64.b64decode(self.secret["data"]["kubeconfig"])


class Cluster(Scripted):
    """An inference cluster that records the tokens that it was asked with."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.lists: list[str] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request.headers["authorization"].removeprefix("Bearer "))
        if request.method == "GET" and "watch" not in dict(request.url.params):
            self.lists.append(request.url.path)
        return await super().__call__(request)

    def grant(self, status: object) -> None:
        self.answers["POST", REQUEST] = httpx2.Response(200, json={"kind": "TokenRequest", "status": status})


class Clock:
    """The time of day."""

    now = float(ISSUED + 16 * DAY)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def user() -> dict[str, str]:
    """The credential that the cluster is registered with."""
    return {"token": OLD}


@pytest.fixture
def plane(user: dict[str, str]) -> Plane:
    server = Plane()
    server.keep(kubeconfig(**user))
    return server


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    server = Cluster()
    server.grant({"token": NEW})

    def connect(content: dict[str, Any], **_: object) -> Client:
        http = httpx2.AsyncClient(base_url="http://east", transport=httpx2.MockTransport(server))
        client = Client(http, "modelplane", known=find_known)
        client.use_token(content["users"][0]["user"].get("token", "none"))
        return client

    monkeypatch.setattr(Client, "from_kubeconfig", connect)
    return server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def renewer(
    client: Client, clusters: Clusters, clock: Clock, east: Cluster
) -> AsyncIterator[Credentials]:
    """The loop over a cluster that was read, not begun yet."""
    assert east
    async with renewing(client, clusters, clock, 30 * DAY) as loop:
        yield loop


@pytest.mark.parametrize(
    ("claims", "due"),
    [
        (Claims(SUBJECT, Lifetime(1000, 2000)), 1500),
        (Claims(SUBJECT, None), -math.inf),
        (Claims("system:serviceaccount:kube-system:modelplane-inference-cluster", None), math.inf),
        (Claims("system:serviceaccount:modelplane-system:other", Lifetime(0, 1)), math.inf),
        (None, math.inf),
    ],
)
def test_only_the_token_of_our_account_is_renewed(claims: Claims | None, due: float) -> None:
    assert renewal_of(claims, 0.5) == due


def test_clusters_are_renewed_at_different_times() -> None:
    shares = [share_of(f"cluster-{number}") for number in range(100)]
    assert shares == [share_of(f"cluster-{number}") for number in range(100)]
    assert min(shares) >= 0
    assert max(shares) < 1
    assert len({round(share, 1) for share in shares}) == 11


def test_attempts_are_made_less_and_less_often_and_often_enough_for_the_lifetime() -> None:
    assert [pause_s(failures, 30 * DAY) for failures in range(3)] == [10, 20, 40]
    assert pause_s(10_000, 30 * DAY) == 3600
    assert pause_s(10_000, 600) == 30
    assert pause_s(10_000, 1e-9) == 10


def test_the_installed_lifetime_is_the_default() -> None:
    assert f"{module.LIFETIME_S // 3600}h" == CREDENTIAL_LIFETIME


async def test_a_token_at_half_of_its_life_is_replaced_in_the_secret_and_then_in_the_connection(
    renewer: Credentials, plane: Plane, east: Cluster, clusters: Clusters
) -> None:
    connection, listed = clusters.get("east"), list(east.lists)
    assert clusters.credential("east") == Credential(timestamps.format_at(EXPIRES))
    await renewer.look()
    assert plane.kubeconfig == kubeconfig(token=OLD).replace(OLD.encode(), f'"{NEW}"'.encode())
    assert plane.secret["data"]["other"] == "b3RoZXI="
    assert clusters.get("east") is connection
    await asyncio.sleep(1)
    assert east.lists == [*listed, "/version"], "nothing is read again"
    assert set(east.seen) == {OLD, NEW}
    assert east.seen[-1] == NEW
    asked = [body for _, path, _, body in east.writes if path == REQUEST]
    assert [each["spec"] for each in asked] == [{"expirationSeconds": 30 * DAY}]
    assert clusters.credential("east") == Credential(timestamps.format_at(ISSUED + 45 * DAY))
    await renewer.look()
    assert len(plane.wrote("PATCH")) == 1


@pytest.mark.usefixtures("renewer")
async def test_a_credential_is_in_no_text_about_its_use(clusters: Clusters) -> None:
    text = repr(clusters.access("east"))
    assert "Claims" in text
    assert OLD.split(".")[1] not in text


@pytest.mark.parametrize(
    ("user", "now"),
    [
        pytest.param({"token": OLD}, ISSUED + 13 * DAY, id="before half of its life"),
        pytest.param({"token": token("other", iat=1, exp=2)}, EXPIRES, id="another account"),
        pytest.param({"token": "opaque"}, EXPIRES, id="of a cloud"),
        pytest.param({"username": "u", "password": "p"}, EXPIRES, id="a password"),
    ],
)
async def test_another_credential_is_left_alone(
    renewer: Credentials, plane: Plane, east: Cluster, clock: Clock, now: float
) -> None:
    clock.now = now
    await renewer.look()
    assert (east.wrote("POST"), plane.wrote("PATCH")) == ([], [])


@pytest.mark.parametrize("user", [{"token": token()}])
async def test_a_token_that_never_expires_is_replaced_at_once(
    renewer: Credentials, plane: Plane, clusters: Clusters
) -> None:
    assert clusters.credential("east") is None
    await renewer.look()
    assert NEW.encode() in plane.kubeconfig
    assert clusters.credential("east") == Credential(timestamps.format_at(ISSUED + 45 * DAY))


@pytest.mark.parametrize("user", [{"token": token("system:serviceaccount:a:b", iat=ISSUED, exp=EXPIRES)}])
async def test_a_token_that_is_not_renewed_is_a_condition_in_the_last_quarter_of_its_life(
    renewer: Credentials, clusters: Clusters, clock: Clock
) -> None:
    expires = timestamps.format_at(EXPIRES)
    await renewer.look()
    assert clusters.credential("east") == Credential(expires)
    clock.now = ISSUED + 23 * DAY
    await renewer.look()
    why = 'is not renewed, because it is not a token for ServiceAccount "modelplane-inference-cluster"'
    assert clusters.credential("east") == Credential(expires, f"{why}: {REMEDY}")


async def test_a_write_that_fails_leaves_the_old_token_in_use_and_is_tried_again(
    renewer: Credentials, plane: Plane, east: Cluster, clusters: Clusters, clock: Clock
) -> None:
    plane.refuse("PATCH", SECRET, 500, "etcd is full")
    before = plane.kubeconfig
    for _ in range(5):
        await renewer.look()
    assert len(plane.wrote("PATCH")) == 1, "not at once"
    assert plane.kubeconfig == before
    assert set(east.seen) == {OLD}
    assert clusters.credential("east") == Credential(timestamps.format_at(EXPIRES)), "there is time"
    del plane.answers["PATCH", SECRET]
    clock.now += 10
    await renewer.look()
    assert NEW.encode() in plane.kubeconfig


async def test_a_change_of_the_platform_team_wins(renewer: Credentials, plane: Plane, east: Cluster) -> None:
    plane.secret["metadata"]["resourceVersion"] = "3"
    before = plane.kubeconfig
    await renewer.look()
    assert plane.kubeconfig == before
    assert set(east.seen) == {OLD}


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {},
        {"token": None},
        {"token": "opaque"},
        {"token": token("system:serviceaccount:modelplane-system:other", iat=1, exp=10_000)},
        {"token": token()},
        {"token": token(iat=1, exp=600)},
        {"token": NEW.replace("c2ln", '"\\n    exec: {command: /bin/sh}')},
        {"token": NEW.replace("c2ln", "x" * 16_384)},
    ],
)
async def test_an_answer_without_a_token_of_the_account_changes_nothing(
    renewer: Credentials, plane: Plane, east: Cluster, status: object
) -> None:
    east.grant(status)
    await renewer.look()
    assert east.wrote("POST") == [REQUEST]
    assert plane.wrote("PATCH") == []


async def test_a_failure_is_logged_and_in_the_last_quarter_of_the_life_it_is_a_condition(
    renewer: Credentials, east: Cluster, clusters: Clusters, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    east.refuse("POST", REQUEST, 403, "serviceaccounts is forbidden")
    with caplog.at_level(logging.WARNING):
        await renewer.look()
    expires = timestamps.format_at(EXPIRES)
    said = f"cannot renew the credential of cluster east, valid until {expires}: serviceaccounts is forbidden"
    assert caplog.messages == [said]
    assert clusters.credential("east") == Credential(expires)
    clock.now = ISSUED + 23 * DAY
    await renewer.look()
    problem = f"cannot be renewed: serviceaccounts is forbidden: {REMEDY}"
    assert clusters.credential("east") == Credential(expires, problem)
    assert OLD not in caplog.text
    del east.answers["POST", REQUEST]
    east.grant({"token": NEW})
    clock.now += 3600
    await renewer.look()
    assert clusters.credential("east") == Credential(timestamps.format_at(ISSUED + 45 * DAY))


async def test_a_bug_with_one_cluster_does_not_end_the_loop(
    renewer: Credentials, monkeypatch: pytest.MonkeyPatch, plane: Plane
) -> None:
    monkeypatch.setattr(Client, "create_token", None)
    await renewer.look()
    assert plane.wrote("PATCH") == []

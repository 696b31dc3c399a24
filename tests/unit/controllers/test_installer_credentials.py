"""The token with which Helm installs charts is renewed as that of the fleet is, and by itself."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from modelplane.compose.cluster.cluster_facts import Credential
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.token_renewal import Credentials
from modelplane.controllers.fleet_resources import find_known
from modelplane.kube import timestamps
from modelplane.kube.client import Client
from support.renewing import renewing
from support.tokens import SUBJECT, kubeconfig, token
from unit.conftest import Scripted

pytestmark = pytest.mark.virtual_time

DAY = 86_400
ISSUED = 1_000_000
INSTALLER = "system:serviceaccount:modelplane-system:modelplane-installer"
OWN = token(iat=ISSUED + 10 * DAY, exp=ISSUED + 40 * DAY)
OLD = token(INSTALLER, iat=ISSUED, exp=ISSUED + 30 * DAY)
NEW = token(INSTALLER, iat=ISSUED + 16 * DAY, exp=ISSUED + 46 * DAY)
ACCOUNTS = "/api/v1/namespaces/modelplane-system/serviceaccounts"
REQUEST = f"{ACCOUNTS}/modelplane-installer/token"
SECRETS = "/api/v1/namespaces/modelplane-system/secrets"


def secret(name: str, content: bytes) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "modelplane-system", "uid": name, "resourceVersion": "2"}
    data = {"kubeconfig": base64.b64encode(content).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


class Plane(Scripted):
    """A control plane with one cluster and its two kubeconfigs, which keeps what is written to them."""

    def __init__(self, installer: bytes) -> None:
        super().__init__()
        self.secrets = {
            f"{SECRETS}/east": secret("east", kubeconfig(token=OWN)),
            f"{SECRETS}/east-installer": secret("east-installer", installer),
        }
        existing = {"secretRef": {"name": "east"}, "installerSecretRef": {"name": "east-installer"}}
        cluster = {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east", "uid": "c", "resourceVersion": "1"},
            "spec": {"cluster": {"source": "Existing", "existing": existing}},
        }
        self.has([cluster, *self.secrets.values()])

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().__call__(request)
        kept = self.secrets.get(request.url.path)
        if request.method != "PATCH" or kept is None or answer.is_error:
            return answer
        body = json.loads(request.content)
        if body["metadata"] != {"resourceVersion": kept["metadata"]["resourceVersion"]}:
            return httpx2.Response(409, json={"kind": "Status", "message": "it was changed"})
        metadata = kept["metadata"] | {"resourceVersion": "2000"}
        self.secrets[request.url.path] = kept | {"metadata": metadata, "data": body["data"]}
        return httpx2.Response(200, json=self.secrets[request.url.path])

    def kubeconfig(self, name: str) -> bytes:
        return base64.b64decode(self.secrets[f"{SECRETS}/{name}"]["data"]["kubeconfig"])


class Cluster(Scripted):
    """An inference cluster that records with which token it was asked for one."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str]] = []
        self.answers["POST", REQUEST] = httpx2.Response(
            200, json={"kind": "TokenRequest", "status": {"token": NEW}}
        )

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path.startswith(ACCOUNTS) and request.method == "POST":
            self.asked.append((request.url.path, request.headers["authorization"].removeprefix("Bearer ")))
        return await super().__call__(request)


@pytest.fixture
def installer() -> bytes:
    """The kubeconfig in the Secret of the installer."""
    return kubeconfig(token=OLD)


@pytest.fixture
def plane(installer: bytes) -> Plane:
    return Plane(installer)


@pytest.fixture
def east(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    server = Cluster()

    def connect(content: dict[str, Any], **_: object) -> Client:
        http = httpx2.AsyncClient(base_url="http://east", transport=httpx2.MockTransport(server))
        client = Client(http, "modelplane", known=find_known)
        client.use_token(content["users"][0]["user"]["token"])
        return client

    monkeypatch.setattr(Client, "from_kubeconfig", connect)
    return server


class Clock:
    """The time of day."""

    now = float(ISSUED + 16 * DAY)

    def __call__(self) -> float:
        return self.now


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


async def test_it_is_replaced_at_half_of_its_life_with_itself_and_in_its_own_secret(
    renewer: Credentials, plane: Plane, east: Cluster, clusters: Clusters
) -> None:
    await renewer.look()
    assert east.asked == [(REQUEST, OLD)], "the identity that serves models gets no token of another account"
    assert plane.kubeconfig("east-installer") == kubeconfig(token=OLD).replace(
        OLD.encode(), f'"{NEW}"'.encode()
    )
    assert plane.kubeconfig("east") == kubeconfig(token=OWN)
    assert clusters.credential("east") == Credential(timestamps.format_at(ISSUED + 40 * DAY))
    await renewer.look()
    assert len(plane.wrote("PATCH")) == 1


async def test_a_failure_is_a_condition_in_the_last_quarter_of_its_life(
    renewer: Credentials, east: Cluster, clusters: Clusters, clock: Clock
) -> None:
    east.refuse("POST", REQUEST, 401, "Unauthorized")
    await renewer.look()
    own = timestamps.format_at(ISSUED + 40 * DAY)
    assert clusters.credential("east") == Credential(own), "there is time"
    clock.now = ISSUED + 23 * DAY
    await renewer.look()
    assert clusters.credential("east") == Credential(
        own,
        installer="the credential that installs charts expires at "
        f"{timestamps.format_at(ISSUED + 30 * DAY)} and "
        "cannot be renewed: the API server does not accept the credential, which may have expired: store a "
        'new kubeconfig in Secret "east-installer" in namespace "modelplane-system", with the commands '
        "that `modelplane install --inference-cluster --installer` prints",
    )


@pytest.mark.parametrize(
    "installer",
    [
        pytest.param(kubeconfig(token=token(SUBJECT, iat=1, exp=2)), id="the identity that serves models"),
        pytest.param(
            kubeconfig(token=token("system:serviceaccount:a:b", iat=1, exp=2)), id="another account"
        ),
        pytest.param(kubeconfig(token="opaque"), id="of a cloud"),
        pytest.param(kubeconfig(exec="/bin/sh"), id="not accepted"),
        pytest.param(b"[", id="not a kubeconfig"),
    ],
)
async def test_another_credential_is_left_alone(renewer: Credentials, plane: Plane, east: Cluster) -> None:
    await renewer.look()
    assert (east.asked, plane.wrote("PATCH")) == ([], [])

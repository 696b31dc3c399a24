"""Kubeconfigs: every InferenceCluster is connected to, by its own credential or by that of its cloud."""

import asyncio
import base64
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from modelplane.api.clouds.cluster_origin import IdentityType
from modelplane.api.clouds.eks_cluster import EKSCluster
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.cluster.cluster_facts import Credential
from modelplane.controllers.clusters.cloud_identities import Credential as Key, Token
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.controllers.clusters.token_renewal import renewal_of
from modelplane.controllers.fleet_resources import resource_for, resource_of_kind
from modelplane.controllers.runnable import run_all
from modelplane.kube import timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from support.tokens import token
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


def _with_token(token: str) -> bytes:
    return GOOD.replace(b"user: {}", f"user: {{token: {token}}}".encode())


def _provisioned(name: str, version: int, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "modelplane-system", "uid": name, "resourceVersion": str(version)}
    return {
        "apiVersion": "infrastructure.modelplane.ai/v1alpha1",
        "kind": "EKSCluster",
        "metadata": metadata,
        "status": status,
    }


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
def provisioned(client: Client) -> Informer:
    """The copies of the EKSClusters."""
    return Informer(client, resource_of_kind(EKSCluster))


class Google:
    """Stands for the exchange of a key for a token: ``valid`` for an hour, another one each time."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.clusters: list[str] = []
        self.problem = ""

    def __call__(self, credential: Key) -> Token:
        content = credential.content
        self.keys.append(content)
        self.clusters.append(credential.cluster)
        if self.problem:
            raise ValueError(self.problem)
        return Token(f"{content.decode()}-{len(self.keys)}", time.time() + 3600)


@pytest.fixture
def exchange() -> Google:
    return Google()


@pytest.fixture
def others(client: Client, provisioned: Informer) -> dict[str, Informer]:
    """The copies of the clouds' kinds."""
    return {recipe.kind: Informer(client, resource_of_kind(recipe.type)) for recipe in RECIPES.values()} | {
        "EKSCluster": provisioned
    }


@pytest.fixture
def kubeconfigs(
    client: Client,
    registered: Informer,
    others: dict[str, Informer],
    clusters: Clusters,
    exchange: Google,
) -> Kubeconfigs:
    return Kubeconfigs(client, registered, others, clusters, dict.fromkeys(IdentityType, exchange))


@pytest.fixture
async def secrets(
    registered: Informer, others: dict[str, Informer], kubeconfigs: Kubeconfigs, clusters: Clusters
) -> AsyncIterator[Informer]:
    """The Secrets that the running ``Kubeconfigs`` follows."""
    informers = (registered, *others.values())
    task = asyncio.create_task(run_all((kubeconfigs, kubeconfigs.identities), informers))
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
            _cluster("cloud", source="EKS", eks={"region": "r"}),
            _cluster("odd", source="Moon"),
            _cluster("west", source="Vultr", vultr={"region": "r"}),
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
        "west": "a cluster of source Vultr has no kubeconfig yet",
    }


async def test_nothing_is_connected_to_before_the_start(
    registered: Informer, kubeconfigs: Kubeconfigs, clusters: Clusters
) -> None:
    """The copies of ten thousand clusters arrive at once, and the lease must be renewed meanwhile."""
    [secrets] = kubeconfigs.informers
    secrets.begin_empty(1)
    secrets.remember(_secret("east", GOOD))
    registered.remember(_cluster("east", **_existing("east")))
    assert _connected(clusters) == []
    await kubeconfigs.start()
    assert _connected(clusters) == ["east"]
    await kubeconfigs.close()


async def test_a_cluster_follows_only_the_secret_that_it_names_now(
    clusters: Clusters, secrets: Informer, registered: Informer
) -> None:
    secrets.remember(_secret("later", GOOD, 2000))
    registered.remember(_cluster("east", 2000, **_existing("later")))
    before = clusters.get("east")
    secrets.remember(_secret("east", GOOD.replace(b":1", b":2"), 2001))
    assert clusters.get("east") is before
    secrets.remember(_secret("later", GOOD.replace(b":1", b":3"), 2002))
    assert clusters.get("east") is not before


async def test_a_secret_that_comes_later_connects_the_clusters_that_name_it(
    clusters: Clusters, secrets: Informer
) -> None:
    secrets.remember(_secret("later", GOOD, 2000))
    assert _connected(clusters) == ["east", "later"]


LISTED = [{"type": "Kubeconfig", "name": "cloud-kubeconfig", "key": "kubeconfig"}]


async def test_a_token_that_a_provider_renews_is_used_by_the_same_connection(
    clusters: Clusters, secrets: Informer, provisioned: Informer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "problem", "")
    provisioned.remember(_provisioned("cloud", 2000, secrets=LISTED))
    secrets.remember(_secret("cloud-kubeconfig", _with_token("first"), 2000))
    before = clusters.get("cloud")
    assert before is not None
    secrets.remember(_secret("cloud-kubeconfig", _with_token("second"), 2001))
    assert clusters.get("cloud") is before
    auth = before.client._http.auth
    assert auth is not None
    sent = next(auth.auth_flow(httpx2.Request("GET", "https://127.0.0.1:1/")))
    assert sent.headers["Authorization"] == "Bearer second"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda text: text.replace(b':1"', b':2"'), id="another server"),
        pytest.param(lambda text: text.replace(b"token: first", b"username: u"), id="another credential"),
    ],
)
async def test_any_other_change_of_its_kubeconfig_connects_anew(
    clusters: Clusters, secrets: Informer, provisioned: Informer, changed: Callable[[bytes], bytes]
) -> None:
    provisioned.remember(_provisioned("cloud", 2000, secrets=LISTED))
    secrets.remember(_secret("cloud-kubeconfig", _with_token("first"), 2000))
    before = clusters.get("cloud")
    secrets.remember(_secret("cloud-kubeconfig", changed(_with_token("first")), 2001))
    assert clusters.get("cloud") not in (None, before)


async def test_the_token_of_a_provisioned_cluster_is_neither_renewed_nor_said_to_expire(
    clusters: Clusters, secrets: Informer, provisioned: Informer
) -> None:
    # Even a token like ours: the provider writes the Secret, and would write over another.
    content = _with_token(token(iat=1, exp=601))
    provisioned.remember(_provisioned("cloud", 2000, secrets=LISTED))
    secrets.remember(_secret("cloud-kubeconfig", content, 2000))
    secrets.remember(_secret("later", content, 2000))
    accesses = clusters.access("cloud"), clusters.access("later")
    assert [access and renewal_of(access.claims, 0) for access in accesses] == [math.inf, 271]
    assert (clusters.credential("cloud"), clusters.credential("later")) == (
        None,
        Credential(timestamps.format_at(601)),
    )


async def test_the_cluster_of_a_cloud_is_connected_to_by_the_secret_that_it_lists(
    clusters: Clusters, secrets: Informer, provisioned: Informer
) -> None:
    secrets.remember(_secret("cloud-kubeconfig", GOOD, 2000))
    assert clusters.problem("cloud") == "a cluster of source EKS has no kubeconfig yet"
    provisioned.remember(_provisioned("cloud", 2001, secrets=LISTED))
    before = clusters.get("cloud")
    assert before is not None
    provisioned.remember(_provisioned("cloud", 2002, secrets=[]))
    assert clusters.get("cloud") is before


def _listed(type_: str) -> list[dict[str, str]]:
    return [
        {"type": "Kubeconfig", "name": "cloud-kubeconfig", "key": "kubeconfig"},
        {"type": type_, "name": "key", "key": "kubeconfig"},
    ]


async def test_an_identity_in_another_namespace_is_not_read(
    clusters: Clusters, secrets: Informer, provisioned: Informer
) -> None:
    secrets.remember(_secret("cloud-kubeconfig", GOOD, 2000))
    listed = _listed("NebiusServiceAccountCredentials")
    listed[1]["namespace"] = "crossplane-system"
    provisioned.remember(_provisioned("cloud", 2001, secrets=listed))
    assert clusters.get("cloud") is None
    assert clusters.problem("cloud") == (
        'Secret "cloud-kubeconfig" in namespace "modelplane-system" contains a kubeconfig for use with a '
        'Nebius credential in Secret "key" in namespace "crossplane-system", but the controllers read '
        'Secrets only in namespace "modelplane-system": use a Secret in that namespace in the provider '
        "configuration"
    )
    secrets.remember(_secret("cloud-kubeconfig", _with_token("own"), 2002))
    assert clusters.get("cloud") is not None


ARN = "arn:aws:eks:eu-west-1:111122223333:cluster/east"


async def test_a_token_of_aws_is_for_the_cluster_that_the_kubeconfig_names(
    clusters: Clusters, secrets: Informer, provisioned: Informer, exchange: Google
) -> None:
    kubeconfig = GOOD.replace(b"cluster: c,", f'cluster: "{ARN}",'.encode())
    kubeconfig = kubeconfig.replace(b"clusters: [{name: c", f'clusters: [{{name: "{ARN}"'.encode())
    secrets.remember(_secret("cloud-kubeconfig", kubeconfig, 2000))
    secrets.remember(_secret("key", b"key", 2001))
    provisioned.remember(_provisioned("cloud", 2002, secrets=_listed("AWSWebIdentityCredentials")))
    await asyncio.sleep(3)
    access = clusters.access("cloud")
    assert access is not None
    assert access.token == "key-1"
    assert exchange.clusters == [ARN]


GOOGLE = _listed("GoogleApplicationCredentials")


async def test_a_kubeconfig_without_a_credential_is_used_with_the_token_of_its_identity(
    clusters: Clusters, secrets: Informer, provisioned: Informer, exchange: Google
) -> None:
    secrets.remember(_secret("cloud-kubeconfig", GOOD, 2000))
    provisioned.remember(_provisioned("cloud", 2001, secrets=GOOGLE))
    assert clusters.problem("cloud") == (
        'there is no Secret "key" in namespace "modelplane-system": create it with a Google credential'
    )
    exchange.problem = "it has been revoked"
    secrets.remember(_secret("key", b"first", 2002))
    await asyncio.sleep(3)
    assert clusters.problem("cloud") == (
        'the credential in Secret "key" in namespace "modelplane-system" cannot be used: it has been revoked'
    )
    exchange.problem = ""
    secrets.remember(_secret("key", b"second", 2003))
    await asyncio.sleep(3)
    access = clusters.access("cloud")
    assert access is not None
    assert access.token == "second-2"
    assert clusters.credential("cloud") is None, "it is renewed in time"
    secrets.remember(_secret("cloud-kubeconfig", _with_token("own"), 2004))
    access = clusters.access("cloud")
    assert access is not None
    assert access.token == "own"


async def test_another_credential_is_exchanged_at_once_and_the_connection_stays(
    clusters: Clusters,
    secrets: Informer,
    provisioned: Informer,
    exchange: Google,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Connection, "problem", "")
    secrets.remember(_secret("cloud-kubeconfig", GOOD, 2000))
    secrets.remember(_secret("key", b"first", 2001))
    provisioned.remember(_provisioned("cloud", 2002, secrets=GOOGLE))
    await asyncio.sleep(3)
    before = clusters.get("cloud")
    assert before is not None
    secrets.remember(_secret("key", b"second", 2003))
    assert clusters.get("cloud") is before, "the earlier token is valid until the next is there"
    await asyncio.sleep(3)
    access = clusters.access("cloud")
    assert clusters.get("cloud") is before
    assert access is not None
    assert access.token == "second-2"
    assert exchange.keys == [b"first", b"second"]


@pytest.mark.usefixtures("secrets")
async def test_an_origin_that_cannot_be_read_any_more_leaves_the_connection(
    clusters: Clusters, registered: Informer
) -> None:
    before = clusters.get("east")
    registered.remember(_cluster("east", 2000, source="Moon"))
    assert clusters.get("east") is before


@pytest.mark.usefixtures("secrets")
async def test_a_cluster_that_names_no_kubeconfig_any_more_is_disconnected(
    clusters: Clusters, registered: Informer
) -> None:
    registered.remember(_cluster("east", 2000, source="Existing"))
    assert _connected(clusters) == []

"""The credential of a cluster is renewed before it expires, by itself only, and nothing is lost by that."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.cluster.cluster_facts import Credential
from modelplane.compose.cluster.cluster_kubeconfig import INSTALLER
from modelplane.controllers import fleet_resources
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.kubeconfigs import Kubeconfigs
from modelplane.controllers.clusters.token_renewal import Credentials
from modelplane.controllers.runnable import run_all
from modelplane.install import cluster_requirements
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.kubeconfig_secret import Lifetime, decode_claims
from modelplane.kube.resources import Object
from modelplane.local.kubernetes.control_plane import Pki
from support.attacked import Attacked, attacked
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.patience import eventually
from support.service_accounts import kubeconfig, kubectl
from support.tokens import signed

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

SYSTEM = "modelplane-system"
NAME = "test-kubeconfig"


class Registered:
    """A fleet whose cluster is registered with the identity that is printed for clusters."""

    def __init__(self, fleet: Attacked, folder: Path) -> None:
        self.fleet = fleet
        self._folder = folder

    async def put(self, token: str) -> None:
        """Write a kubeconfig with a token into the Secret."""
        path = kubeconfig(self.fleet.control_plane, INFERENCE_CLUSTER, self._folder / "kubeconfig", token)
        data = {"kubeconfig": base64.b64encode(path.read_bytes()).decode()}
        await self.fleet.client.patch(resources.SECRETS, NAME, {"data": data}, SYSTEM)

    async def secret(self) -> Object:
        """Return the Secret of the kubeconfig."""
        return await self.fleet.client.get(resources.SECRETS, NAME, SYSTEM) or {}

    async def token(self) -> str:
        """Return the token in the Secret."""
        content = yaml.safe_load(base64.b64decode((await self.secret())["data"]["kubeconfig"]))
        return str(content["users"][0]["user"]["token"])

    @asynccontextmanager
    async def connected(self, clock: Any) -> AsyncIterator[tuple[Clusters, Credentials]]:
        """Connect to the cluster as the controllers do, under their identity."""
        path = str(self.fleet.kubeconfig)
        async with Client.from_kubeconfig(path, known=fleet_resources.find_known) as client:
            clusters = Clusters(lambda _cluster, _item: None, lambda _cluster: None)
            registered = Informer(client, fleet_resources.INFERENCE_CLUSTERS)
            clouds = (fleet_resources.resource_of_kind(recipe.type) for recipe in RECIPES.values())
            provisioned = {each.kind: Informer(client, each) for each in clouds}
            kubeconfigs = Kubeconfigs(client, registered, provisioned, clusters, {})
            task = asyncio.create_task(run_all((kubeconfigs,), (registered,)))

            async def is_read() -> bool:
                return not clusters.problem("test")

            try:
                await eventually(is_read)
                yield clusters, Credentials(client, kubeconfigs, clusters, 600, clock)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def registered(own_control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Registered]:
    async with attacked(own_control_plane) as fleet:
        for manifest in cluster_requirements.build_manifests():
            await fleet.client.apply(manifest)
        found = Registered(fleet, tmp_path)
        arguments = ("create", "token", INFERENCE_CLUSTER, "-n", SYSTEM, "--duration=10m")
        await found.put(kubectl(own_control_plane, *arguments).strip())
        yield found


def connection_of(clusters: Clusters) -> Connection:
    connection = clusters.get("test")
    assert connection
    return connection


def token_in_use(clusters: Clusters) -> str:
    access = clusters.access("test")
    assert access
    return access.token


def lifetime_of(token: str) -> Lifetime:
    claims = decode_claims(token)
    assert claims
    assert claims.lifetime
    return claims.lifetime


def half_of_ten_minutes_later() -> float:
    return time.time() + 335


async def test_a_token_is_renewed_and_the_copies_of_the_cluster_stay(
    registered: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await registered.token()
    async with registered.connected(half_of_ten_minutes_later) as (clusters, credentials):
        connection = connection_of(clusters)
        listed: list[str] = []
        usual = Client.list

        async def counted(client: Client, resource: Any, *arguments: Any, **options: Any) -> Any:
            if client is connection.client:
                listed.append(resource.plural)
            return await usual(client, resource, *arguments, **options)

        monkeypatch.setattr(Client, "list", counted)
        await credentials.look()
        after = await registered.token()
        assert after != before
        assert token_in_use(clusters) == after
        granted = lifetime_of(after)
        assert granted.expires - granted.issued == 600
        assert clusters.credential("test") == Credential(timestamps.format_at(granted.expires))
        await asyncio.sleep(1)
        assert clusters.get("test") is connection
        assert (clusters.problem("test"), listed) == (None, [])
        await connection.client.list(resources.NAMESPACES)


async def test_a_concurrent_change_of_the_secret_wins_and_the_old_token_stays_in_use(
    registered: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await registered.token()
    request = Client.create_token

    async def slow(client: Client, *arguments: Any) -> str:
        token = await request(client, *arguments)
        change = {"metadata": {"annotations": {"changed": "meanwhile"}}}
        await registered.fleet.client.patch(resources.SECRETS, NAME, change, SYSTEM)
        return token

    async with registered.connected(half_of_ten_minutes_later) as (clusters, credentials):
        monkeypatch.setattr(Client, "create_token", slow)
        await credentials.look()
        assert await registered.token() == before
        assert token_in_use(clusters) == before
        assert clusters.problem("test") is None


async def test_the_installers_token_is_renewed_with_itself_and_only_the_installer_gets_one(
    registered: Registered, tmp_path: Path
) -> None:
    fleet = registered.fleet
    for manifest in cluster_requirements.build_manifests(installer=True):
        await fleet.client.apply(manifest)
    path = tmp_path / "installer"
    token = kubectl(fleet.control_plane, "create", "token", INSTALLER, "-n", SYSTEM, "--duration=10m").strip()
    content = kubeconfig(fleet.control_plane, INSTALLER, path, token).read_bytes()
    await fleet.client.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": INSTALLER, "namespace": SYSTEM},
            "data": {"kubeconfig": base64.b64encode(content).decode()},
        }
    )
    named = {"spec": {"cluster": {"existing": {"installerSecretRef": {"name": INSTALLER}}}}}
    await fleet.client.patch(fleet_resources.INFERENCE_CLUSTERS, "test", named)
    async with registered.connected(half_of_ten_minutes_later) as (clusters, credentials):
        serving = await registered.token()
        await credentials.look()
        secret = await fleet.client.get(resources.SECRETS, INSTALLER, SYSTEM) or {}
        renewed = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))["users"][0]["user"]["token"]
        claims = decode_claims(renewed)
        assert claims
        assert (renewed != token, claims.subject) == (True, f"system:serviceaccount:{SYSTEM}:{INSTALLER}")
        assert await registered.token() != serving
        connection = connection_of(clusters)
        with pytest.raises(errors.Forbidden, match='cannot create resource "serviceaccounts/token"'):
            await connection.client.create_token(INSTALLER, SYSTEM, 600)


@pytest.mark.parametrize(
    ("account", "namespace"),
    [("default", SYSTEM), ("modelplane-controller", SYSTEM), (INFERENCE_CLUSTER, "default")],
)
async def test_the_identity_gets_no_token_of_another_account(
    registered: Registered, account: str, namespace: str
) -> None:
    async with registered.connected(time.time) as (clusters, _):
        connection = connection_of(clusters)
        with pytest.raises(errors.Forbidden, match='cannot create resource "serviceaccounts/token"'):
            await connection.client.create_token(account, namespace, 600)


async def test_an_expired_token_is_a_condition_and_the_replicas_stay(registered: Registered) -> None:
    fleet = registered.fleet
    account = await fleet.client.get(resources.SERVICE_ACCOUNTS, INFERENCE_CLUSTER, SYSTEM)
    assert account
    key = Pki(fleet.control_plane.home.pki).service_accounts

    def token(begun_s: float, left_s: float) -> str:
        return signed(key, account["metadata"]["uid"], time.time() - begun_s, time.time() + left_s)

    cluster = (fleet_resources.INFERENCE_CLUSTERS, "test", "ClusterReady")
    label = {"metadata": {"name": "kept", "labels": {"modelplane.ai/managed-by": "modelplane"}}}
    await fleet.client.apply({"apiVersion": "v1", "kind": "Namespace", **label})
    status = {"addresses": [{"type": "IPAddress", "value": "10.0.0.1"}]}
    gateway = ("inference-gateway", {"status": status}, SYSTEM)
    await fleet.client.patch(resources.GATEWAYS, *gateway, subresource="status")
    await registered.put(token(60, 36_000))
    async with running_controllers(fleet.control_plane):
        await fleet.deploy("kept", "kept")
        await fleet.until_placed("kept", "kept")
        before = await fleet.workloads("kept")
        await registered.put(token(3600, -60))
        said = await fleet.until_said(*cluster, "may have expired", status="False")
        assert said["reason"] == "Unreachable"
        assert said["message"].endswith(
            f'store a new kubeconfig in Secret "{NAME}" in namespace "{SYSTEM}", with the commands that '
            "`modelplane install --inference-cluster` prints"
        )
        assert await fleet.workloads("kept") == before
        # One that the controllers renew by themselves.
        valid = token(3600, 3000)
        await registered.put(valid)
        await fleet.until_said(*cluster, "the API server answers", status="True")

        async def is_renewed() -> bool:
            return await registered.token() != valid

        await eventually(is_renewed)
        assert await fleet.workloads("kept") == before
        granted = lifetime_of(await registered.token())
        assert granted.expires - granted.issued == 30 * 24 * 3600

        async def is_announced() -> bool:
            item = await fleet.client.get(fleet_resources.INFERENCE_CLUSTERS, "test")
            assert item
            return bool(
                item["status"]["credential"]["expirationTime"] == timestamps.format_at(granted.expires)
            )

        await eventually(is_announced)

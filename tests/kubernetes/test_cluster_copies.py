"""Copies of Secrets and ConfigMaps on a cluster, written with the identity that the cluster gives a fleet."""

import base64
import copy
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from modelplane.compose import copy_access
from modelplane.install import cluster_requirements
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.kube import resources
from modelplane.kube.resources import Object, Resource
from modelplane.local.home import Home
from support.attacked import Attacked, attacked
from support.controllers import running_controllers
from support.fleets import ControlPlane, control_plane_of
from support.patience import eventually
from support.service_accounts import kubeconfig

pytestmark = [
    pytest.mark.kubernetes,
    # Controllers that stop while they connect leave a connection to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

COPIED = (resources.SECRETS, resources.CONFIG_MAPS)
OURS = "modelplane.ai/managed-by=modelplane"


@pytest.fixture(scope="module")
def gpu(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane_of(Home(tmp_path_factory.mktemp("gpu")), kubernetes_binary) as running:
        yield running


@pytest.fixture
async def fleet(own_control_plane: ControlPlane, gpu: ControlPlane) -> AsyncIterator[Attacked]:
    async with attacked(own_control_plane, gpu) as prepared:
        address = {"status": {"addresses": [{"type": "IPAddress", "value": "10.0.0.1"}]}}
        await prepared.cluster.patch(
            resources.GATEWAYS, "inference-gateway", address, "modelplane-system", subresource="status"
        )
        yield prepared


async def register(fleet: Attacked, gpu: ControlPlane, manifests: list[Object], folder: Path) -> None:
    """Give the fleet the identity on the cluster that manifests describe."""
    for manifest in manifests:
        await fleet.cluster.apply(manifest)
    access = kubeconfig(gpu, INFERENCE_CLUSTER, folder / "gpu.kubeconfig").read_bytes()
    data = {"kubeconfig": base64.b64encode(access).decode()}
    metadata = {"name": "test-kubeconfig", "namespace": "modelplane-system"}
    await fleet.client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


async def deploy(fleet: Attacked, team: str, value: str, *named: Resource) -> None:
    """Apply a deployment that names a Secret and a ConfigMap, or one of them; and the originals."""
    references = {resources.SECRETS: "secretKeyRef", resources.CONFIG_MAPS: "configMapKeyRef"}
    env = [
        {"name": each.kind.upper(), "valueFrom": {references[each]: {"name": "original", "key": "key"}}}
        for each in named or COPIED
    ]
    await fleet.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
    await write(fleet, team, value)
    await fleet.deploy("model", team, env=env)


async def write(fleet: Attacked, team: str, value: str) -> None:
    metadata = {"name": "original", "namespace": team}
    data = {"key": base64.b64encode(value.encode()).decode()}
    await fleet.client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    await fleet.client.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}
    )


async def copies(fleet: Attacked, team: str) -> dict[str, set[str]]:
    """Return the values of the copies on the cluster, by kind."""
    found: dict[str, set[str]] = {}
    for resource in COPIED:
        for item in (await fleet.cluster.list(resource, team, labels=OURS)).items:
            value = item["data"]["key"]
            decoded = base64.b64decode(value).decode() if resource == resources.SECRETS else value
            found.setdefault(resource.kind, set()).add(decoded)
    return found


async def until(fleet: Attacked, team: str, expected: Mapping[str, str]) -> None:
    """Wait until the newest copies have values, and no others exist of a kind that is not expected."""
    found: dict[str, set[str]] = {}

    async def there() -> bool:
        nonlocal found
        found = await copies(fleet, team)
        return found.keys() == expected.keys() and all(
            value in found[kind] for kind, value in expected.items()
        )

    try:
        await eventually(there)
    except TimeoutError:
        raise AssertionError(found) from None


def both(value: str) -> dict[str, str]:
    return {resource.kind: value for resource in COPIED}


async def bound(fleet: Attacked) -> set[str]:
    """Return the namespaces whose copies the identity may read."""
    found = await fleet.cluster.list(resources.ROLE_BINDINGS, labels=OURS)
    return {
        each["metadata"]["namespace"] for each in found.items if each["metadata"]["name"] == copy_access.ROLE
    }


async def delete(fleet: Attacked, *teams: str) -> None:
    """Delete the deployments of teams, and wait until no copy is left."""
    kind = Resource("modelplane.ai", "v1alpha1", "ModelDeployment", "modeldeployments")
    for team in teams:
        await fleet.client.delete(kind, "model", team)
    for team in teams:
        await until(fleet, team, {})


async def test_copies_follow_their_originals_for_as_long_as_they_are_named(
    fleet: Attacked, gpu: ControlPlane, tmp_path: Path
) -> None:
    await register(fleet, gpu, cluster_requirements.build_manifests(), tmp_path)
    await fleet.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "empty", "labels": {"modelplane.ai/managed-by": "modelplane"}},
        }
    )
    async with running_controllers(fleet.control_plane):
        for team in ("a", "b"):
            await deploy(fleet, team, "first")
        for team in ("a", "b"):
            await until(fleet, team, both("first"))
        assert await bound(fleet) == {"a", "b"}
        await write(fleet, "a", "second")
        await until(fleet, "a", both("second"))
        for resource in COPIED:
            for item in (await fleet.cluster.list(resource, "b", labels=OURS)).items:
                await fleet.cluster.delete(resource, item["metadata"]["name"], "b")
        await until(fleet, "b", both("first"))
        # Someone takes the access away.
        await fleet.cluster.delete(resources.ROLE_BINDINGS, copy_access.ROLE, "b")
        await write(fleet, "b", "second")
        await until(fleet, "b", both("second"))
    await write(fleet, "a", "third")
    await deploy(fleet, "b", "second", resources.CONFIG_MAPS)
    await fleet.cluster.delete(resources.ROLE_BINDINGS, copy_access.ROLE, "b")
    async with running_controllers(fleet.control_plane):
        await until(fleet, "a", both("third"))
        await until(fleet, "b", {"ConfigMap": "second"})
        assert await bound(fleet) == {"a", "b"}
        await delete(fleet, "a", "b")

        async def given_back() -> bool:
            return not await bound(fleet)

        await eventually(given_back)


def of_an_earlier_version() -> list[Object]:
    """Return the manifests that let the identity read all copies, and bind no ClusterRole."""
    earlier = copy.deepcopy(cluster_requirements.build_manifests())
    everything = ["list", "watch", "create", "patch", "delete"]
    for manifest in earlier:
        if manifest["kind"] == "ClusterRole":
            manifest["rules"] = [rule for rule in manifest["rules"] if "bind" not in rule["verbs"]]
            manifest["rules"].append(
                {"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": everything}
            )
        for validation in manifest.get("spec", {}).get("validations", ()):
            if "roleRef" in validation["expression"]:
                validation["expression"] = validation["expression"].split(" || (")[0]
    return [each for each in earlier if each["metadata"]["name"] != copy_access.ROLE]


async def test_the_identity_of_an_earlier_version_works_and_is_replaced_while_it_works(
    fleet: Attacked, gpu: ControlPlane, tmp_path: Path
) -> None:
    await fleet.cluster.delete(resources.CLUSTER_ROLES, copy_access.ROLE)
    await register(fleet, gpu, of_an_earlier_version(), tmp_path)
    async with running_controllers(fleet.control_plane):
        await deploy(fleet, "c", "first")
        await until(fleet, "c", both("first"))
        assert await bound(fleet) == set()
        for manifest in cluster_requirements.build_manifests():
            await fleet.cluster.apply(manifest)
        await write(fleet, "c", "second")
        await until(fleet, "c", both("second"))
        await deploy(fleet, "d", "first")
        await until(fleet, "d", both("first"))

        async def is_bound() -> bool:
            return await bound(fleet) >= {"c", "d"}

        await eventually(is_bound)
        await delete(fleet, "c", "d")

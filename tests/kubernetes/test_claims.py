"""PersistentVolumeClaims of a local cluster: folders that Kubernetes binds, and that go with their claims."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.pods import pods
from modelplane.kubelet.volumes import provisioning, volumes
from modelplane.local.kubernetes import cluster_objects
from support.fleets import ControlPlane
from support.node_agent import Agent, is_running, pod, python
from support.patience import eventually

pytestmark = pytest.mark.kubernetes

VOLUMES, CLAIMS = resources.PERSISTENT_VOLUMES, resources.PERSISTENT_VOLUME_CLAIMS
SLEEP = "import time; time.sleep(1000)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(1000)"


@pytest.fixture(scope="module")
def control_plane(own_control_plane: ControlPlane) -> ControlPlane:
    """One of its own: a node that these tests leave behind is nobody else's."""
    return own_control_plane


@pytest.fixture
async def agent(control_plane: Any, client: Client) -> AsyncIterator[Agent]:
    started = Agent(control_plane.home, control_plane.binary, client)
    for manifest in (*cluster_objects.build_cluster_roles(), *provisioning.build_storage_classes()):
        await client.apply(manifest)
    await started.start()
    try:
        yield started
    finally:
        for resource in (resources.PODS, CLAIMS):
            for item in (await client.list(resource, "default")).items:
                await client.delete(resource, item["metadata"]["name"], "default", grace_period_s=0)
        await eventually(lambda: _no_volume(client))
        started.end()
        pods.stop_all(control_plane.home.agent, 2)
        assert not any(volumes.get_claim_folders(started.directory).glob("*"))


async def _no_volume(client: Client) -> bool:
    return not (await client.list(VOLUMES)).items


def claim(name: str, **spec: Any) -> Object:
    wanted = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": wanted | spec,
    }


def using(name: str, claimed: str, source: str) -> Object:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claimed}}
    container = python(source, volumeMounts=[{"name": "v", "mountPath": "/claimed"}])
    return pod(name, container, volumes=[volume])


async def bound(agent: Agent, name: str) -> Object:
    """Return the volume of a claim, once it has one."""
    found: list[Object | None] = [None]

    async def is_bound() -> bool:
        found[0] = await agent.client.get(CLAIMS, name, "default")
        return found[0] is not None and found[0]["status"].get("phase") == "Bound"

    await eventually(is_bound)
    assert found[0] is not None
    volume = await agent.client.get(VOLUMES, found[0]["spec"]["volumeName"])
    assert volume is not None
    return volume


def folder(volume: Object) -> Path:
    return Path(volume["spec"]["local"]["path"])


async def _absent(client: Client, name: str) -> bool:
    return await client.get(VOLUMES, name) is None


async def test_a_claim_is_bound_without_a_pod_and_leaves_nothing(agent: Agent) -> None:
    await agent.create(claim("plain"))
    volume = await bound(agent, "plain")
    assert volume["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["capacity"] == {"storage": "1Gi"}
    assert volume["spec"]["storageClassName"] == "modelplane-local", "it is the default"
    assert folder(volume).parent == volumes.get_claim_folders(agent.directory)
    await agent.client.delete(CLAIMS, "plain", "default")
    await eventually(lambda: _absent(agent.client, volume["metadata"]["name"]))


async def test_pods_share_a_claim_whose_data_outlives_them(agent: Agent) -> None:
    await agent.create(claim("shared"))
    await agent.create(using("writer", "shared", "open('/claimed/x', 'w').write('kept');" + SLEEP))
    volume = await bound(agent, "shared")
    await eventually(lambda: _exists(folder(volume) / "x"))
    await agent.create(using("reader", "shared", "assert open('/claimed/x').read() == 'kept';" + SLEEP))
    assert is_running(await agent.pod("reader", is_running))
    for name in ("writer", "reader"):
        await agent.client.delete(resources.PODS, name, "default")
        await agent.gone(name)
    assert (folder(volume) / "x").read_text() == "kept"
    (folder(volume) / "closed").mkdir(mode=0o500)
    await agent.client.delete(CLAIMS, "shared", "default")
    await eventually(lambda: _absent(agent.client, volume["metadata"]["name"]))
    assert not folder(volume).exists()


async def _exists(path: Path) -> bool:
    return path.exists()  # noqa: ASYNC240 - on this machine


async def test_the_folder_stays_while_anything_runs_that_uses_it(agent: Agent) -> None:
    """A pod that is deleted by force is gone from the API before its process is."""
    await agent.create(claim("used"))
    await agent.create(using("stubborn", "used", STUBBORN))
    found = await agent.pod("stubborn", is_running)
    attempt, volume = agent.attempt(found), await bound(agent, "used")
    await eventually(lambda: _says(attempt.log, "up"))
    engine = attempt.engine
    assert engine is not None
    await agent.client.delete(CLAIMS, "used", "default")
    agent.end(signal.SIGKILL)
    await agent.client.delete(resources.PODS, "stubborn", "default", grace_period_s=0)
    await eventually(lambda: _is_released(agent.client, volume["metadata"]["name"]))
    assert folder(volume).exists()
    await agent.start()
    while True:
        there = folder(volume).exists()
        if not engine.alive:  # between the two looks it may have ended
            break
        assert there
        await asyncio.sleep(0.02)
    await eventually(lambda: _absent(agent.client, volume["metadata"]["name"]))
    assert not folder(volume).exists()


async def _says(log: Path, words: str) -> bool:
    return words in log.read_text()  # noqa: ASYNC240 - a small file


async def _is_released(client: Client, name: str) -> bool:
    found = await client.get(VOLUMES, name)
    return found is not None and found["status"].get("phase") == "Released"


async def test_a_claim_can_ask_for_more(agent: Agent) -> None:
    await agent.create(claim("growing"))
    volume = await bound(agent, "growing")
    more = {"resources": {"requests": {"storage": "5Gi"}}}
    await agent.client.patch(CLAIMS, "growing", {"spec": more}, "default")

    async def has_more() -> bool:
        found = await agent.client.get(CLAIMS, "growing", "default")
        made = await agent.client.get(VOLUMES, volume["metadata"]["name"])
        assert found is not None
        assert made is not None
        return [found["status"]["capacity"], made["spec"]["capacity"]] == [{"storage": "5Gi"}] * 2

    await eventually(has_more)


@pytest.mark.parametrize(
    ("name", "spec", "note"),
    [
        pytest.param(
            "block",
            {"volumeMode": "Block"},
            "a folder is not a block device: omit volumeMode",
            id="a block device",
        ),
        pytest.param(
            "elsewhere",
            {"storageClassName": "mine"},
            'StorageClass "mine" uses provisioner "modelplane.ai/local-folder", which supports only '
            'StorageClass "modelplane-local": create the claim with that storageClassName',
            id="another StorageClass",
        ),
    ],
)
async def test_a_claim_that_cannot_be_served_has_an_event(
    agent: Agent, name: str, spec: Object, note: str
) -> None:
    [own] = provisioning.build_storage_classes()
    await agent.client.apply(own | {"metadata": {"name": "mine"}})
    await agent.create(claim(name, **spec))

    async def is_told() -> bool:
        events = (await agent.client.list(resources.EVENTS, "default")).items
        return any(
            (event["regarding"]["name"], event["reason"], event["note"]) == (name, "ProvisioningFailed", note)
            for event in events
        )

    await eventually(is_told)
    found = await agent.client.get(CLAIMS, name, "default")
    assert found is not None
    assert found["status"]["phase"] == "Pending"


async def test_a_volume_that_is_to_be_kept_keeps_its_data(agent: Agent) -> None:
    await agent.create(claim("kept"))
    await agent.create(using("writer", "kept", "open('/claimed/x', 'w').write('kept');" + SLEEP))
    volume = await bound(agent, "kept")
    await eventually(lambda: _exists(folder(volume) / "x"))
    name = volume["metadata"]["name"]
    await agent.client.patch(VOLUMES, name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    await agent.client.delete(resources.PODS, "writer", "default")
    await agent.gone("writer")
    await agent.client.delete(CLAIMS, "kept", "default")
    await eventually(lambda: _is_released(agent.client, name))
    await agent.client.delete(VOLUMES, name)
    await eventually(lambda: _absent(agent.client, name))
    assert (folder(volume) / "x").read_text() == "kept"
    (folder(volume) / "x").unlink()
    folder(volume).rmdir()


@pytest.mark.parametrize("seed", range(2))
async def test_no_kill_of_the_agent_orphans_anything(agent: Agent, seed: int) -> None:
    """Claims are made, used and deleted while the agent is killed; the fixture looks for remains."""
    for number in range(4):
        await agent.create(claim(f"claim-{number}"))
        await agent.create(using(f"user-{number}", f"claim-{number}", "open('/claimed/x', 'w');" + SLEEP))
        await asyncio.sleep(0.05 * (seed + number))
        agent.end(signal.SIGKILL)
        await agent.start()
    for number in range(4):
        assert is_running(await agent.pod(f"user-{number}", is_running))
    for number in range(4):
        await agent.client.delete(CLAIMS, f"claim-{number}", "default")
        await agent.client.delete(resources.PODS, f"user-{number}", "default")
        await asyncio.sleep(0.1 * (seed + number))
        agent.end(signal.SIGKILL)
        await agent.start()
    for number in range(4):
        await agent.gone(f"user-{number}")
    await eventually(lambda: _no_volume(agent.client))


async def test_the_nodes_identity_can_do_no_more_with_claims_than_it_needs(agent: Agent) -> None:
    await agent.create(claim("others"))
    async with Client.from_kubeconfig(str(agent.home.agent_kubeconfig)) as identity:
        for work in (
            identity.patch(CLAIMS, "others", {"metadata": {"labels": {"x": "y"}}}, "default"),
            identity.delete(CLAIMS, "others", "default"),
            identity.create(claim("own")),
        ):
            with pytest.raises(errors.Forbidden):
                await work

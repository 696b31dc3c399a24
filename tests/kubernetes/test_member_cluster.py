"""What the controllers see of a cluster while they run: what can be done there, and whether it answers.

The cluster is the control plane itself, reached over a relay. When this begins, nothing is installed on it.
"""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from modelplane.api.schema.crd import crd
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.readiness import condition_of
from modelplane.controllers import fleet_resources
from modelplane.kube import resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local.kubernetes import cluster_objects
from modelplane.local.kubernetes.cluster_objects import wait_until_established
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.patience import PATIENCE_S
from support.relays import Manner, Relay
from support.third_party_crds import definitions

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.filterwarnings("ignore:unclosed (transport|<socket):ResourceWarning"),
]

NAME = "member"
REPORTED_AFTER_S = 15
"""Time without an answer after which a cluster is called unreachable."""


@dataclass
class Member:
    """The cluster, and the way to it."""

    client: Client
    relay: Relay

    async def cluster(self) -> Object:
        found = await self.client.get(fleet_resources.INFERENCE_CLUSTERS, NAME)
        assert found is not None
        return found

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the cluster's status is as it is to be; return it."""
        began = time.monotonic()
        while True:
            found = await self.cluster()
            status: dict[str, Any] = found.get("status", {})
            if holds(status):
                return status
            assert time.monotonic() - began < PATIENCE_S, status
            await asyncio.sleep(0.05)


@pytest.fixture
async def member(own_control_plane: ControlPlane) -> AsyncIterator[Member]:
    config = yaml.safe_load(own_control_plane.home.controller_kubeconfig.read_text())
    upstream = urlsplit(config["clusters"][0]["cluster"]["server"]).port
    assert upstream is not None
    async with (
        Client.from_kubeconfig(str(own_control_plane.kubeconfig), known=fleet_resources.find_known) as client,
        Relay(upstream, 0.0) as relay,
    ):
        kinds = [crd(kind) for kind in COMPOSED]
        await create_missing(client, kinds)
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{relay.port}"
        for manifest in (*cluster_objects.build_manifests(), *_registered(yaml.safe_dump(config))):
            await client.apply(manifest)
        async with running_controllers(own_control_plane):
            yield Member(client, relay)
        await client.delete(fleet_resources.INFERENCE_CLUSTERS, NAME)


def _registered(kubeconfig: str) -> list[Object]:
    api_version = "modelplane.ai/v1alpha1"
    device = {"name": "gpu", "driver": "test.example", "deviceClassName": "test.example"}
    return [
        {
            "apiVersion": api_version,
            "kind": "InferenceClass",
            "metadata": {"name": NAME},
            "spec": {"devices": [device]},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": NAME, "namespace": "modelplane-system"},
            "data": {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()},
        },
        {
            "apiVersion": api_version,
            "kind": "InferenceCluster",
            "metadata": {"name": NAME},
            "spec": {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": NAME}}},
                "servingStack": {"profile": "None"},
                "nodePools": [{"name": "pool", "className": NAME, "nodeCount": 1}],
            },
        },
    ]


async def test_what_is_installed_and_removed_is_seen_while_the_controllers_run(member: Member) -> None:
    status = await member.until(lambda status: "capabilities" in status)
    absent = dict.fromkeys(("leaderWorkerSet", "inferencePool", "llmInferenceService"), False)
    assert status["capabilities"] == {"dra": True, **absent}
    assert condition_of({"status": status}, "BackendReady")["reason"] == "Installing"
    for manifest in cluster_objects.load_gateway_api():
        await member.client.apply(manifest)
    await wait_until_established(
        member.client, [each["metadata"]["name"] for each in cluster_objects.load_gateway_api()]
    )
    for manifest in cluster_objects.build_gateway(8081):
        await member.client.apply(manifest)
    address = {"status": {"addresses": [{"type": "IPAddress", "value": "127.0.0.1"}]}}
    await member.client.patch(
        resources.GATEWAYS, "inference-gateway", address, "modelplane-system", subresource="status"
    )
    await member.until(lambda status: "gateway" in status)
    pool, *_ = definitions("gateway-api-inference-extension")
    for capability, definition in (
        ("leaderWorkerSet", definitions("lws")[0]),
        ("inferencePool", pool),
    ):
        await member.client.apply(definition)
        await member.until(lambda status, key=capability: status["capabilities"][key])
        name = definition["metadata"]["name"]
        await member.client.delete(resources.CUSTOM_RESOURCE_DEFINITIONS, name)
        await member.until(lambda status, key=capability: not status["capabilities"][key])


async def test_a_cluster_that_stops_answering_says_since_when(member: Member) -> None:
    await member.until(lambda status: "capabilities" in status)
    stopped = timestamps.parse(timestamps.format_now())
    await member.relay.behave(Manner.REFUSES)
    status = await member.until(lambda status: "unreachableSince" in status)
    since = status["unreachableSince"]
    assert stopped <= timestamps.parse(since) <= timestamps.parse(timestamps.format_ago(REPORTED_AFTER_S))
    said = condition_of({"status": status}, "ClusterReady")
    assert (said["reason"], said["message"].split(": ", 1)[0]) == (
        "Unreachable",
        f"unreachable since {since}",
    )

    async def rests() -> bool:
        version = (await member.cluster())["metadata"]["resourceVersion"]
        await asyncio.sleep(5)
        return bool((await member.cluster())["metadata"]["resourceVersion"] == version)

    # What else there is to say of it may follow, but nothing is said again and again.
    async with asyncio.timeout(PATIENCE_S):
        while not await rests():
            pass
    await member.relay.behave(Manner.PASSES)
    await member.until(
        lambda status: (
            "unreachableSince" not in status
            and condition_of({"status": status}, "ClusterReady")["status"] == "True"
        )
    )

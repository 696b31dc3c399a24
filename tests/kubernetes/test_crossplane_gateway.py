"""The gateway under Crossplane: a real Envoy, with what the process beside Crossplane publishes.

The two processes have the accounts and the permissions of the prerequisites. Crossplane itself is not there:
its function is asked directly, with the objects of the control plane.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from kubernetes.test_gateway import PRIVATE, SYSTEM, TEAM, Bench, Commands, Pod, _object, engine
from modelplane.api.meta import GROUP
from modelplane.controllers import fleet_resources
from modelplane.crossplane.function.runner import Runner
from modelplane.crossplane.function.structs import RunFunctionRequest
from modelplane.gateway import configuration_state
from modelplane.install import crossplane_gateway
from modelplane.install.installation_options import GATEWAY, Options
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from support.certificates import authority, server_pair
from support.fleets import ControlPlane
from support.kinds import install
from support.patience import PATIENCE_S, eventually
from support.service_accounts import kubeconfig

pytestmark = pytest.mark.kubernetes

KEY = "mp_" + "k" * 40
SPEC: Object = {"backend": "Envoy", "allowedDestinations": ["127.0.0.1"]}
"""The engines are on loopback, which a gateway in a cluster refuses."""
OPTIONS = Options(gateway_service_type="ClusterIP", network_policy=False)


async def _owned_by_crossplane(client: Client, *, owned: bool = True) -> None:
    for each in (await client.list(resources.CUSTOM_RESOURCE_DEFINITIONS)).items:
        name = each["metadata"]["name"]
        if name.partition(".")[2] == GROUP:
            owner = {
                "apiVersion": "apiextensions.crossplane.io/v2",
                "kind": "CompositeResourceDefinition",
                "name": name,
                "uid": "00000000-0000-0000-0000-000000000000",
                "controller": True,
            }
            patch = {"metadata": {"ownerReferences": [owner] if owned else None}}
            await client.patch(resources.CUSTOM_RESOURCE_DEFINITIONS, name, patch)


@pytest.fixture
async def bench(own_control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Bench]:
    """A control plane whose kinds are Crossplane's, with the gateway's objects and the publisher."""
    plane = own_control_plane
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            Client.from_kubeconfig(str(plane.kubeconfig), known=fleet_resources.find_known)
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())
        commands = Commands(tmp_path)
        stack.push_async_callback(commands.close)
        await install(client)
        await _owned_by_crossplane(client)
        for name in (SYSTEM, PRIVATE, TEAM):
            await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        composed = crossplane_gateway.build_children(OPTIONS).values()
        for each in (*crossplane_gateway.build_permissions(), *composed):
            await client.apply(each)
        await client.apply(_object("InferenceGateway", "default") | {"spec": SPEC})
        running = Bench(plane, client, commands, session, tmp_path)
        running.controller = await publisher(plane, commands, tmp_path)
        yield running
        await client.delete(fleet_resources.INFERENCE_GATEWAYS, "default")


async def publisher(plane: ControlPlane, commands: Commands, folder: Path) -> Any:
    account = kubeconfig(plane, crossplane_gateway.PUBLISHER, folder / "publisher.kubeconfig")
    arguments = ("--only", "gateway", "--leader-elect", "--gateway-service", GATEWAY)
    return await commands.start("controller", *arguments, "--kubeconfig", str(account))


async def pod(bench: Bench, folder: Path, session: aiohttp.ClientSession) -> Pod:
    account = kubeconfig(bench.plane, GATEWAY, folder / "gateway.kubeconfig")
    found = Pod(bench._commands, account, folder / "pod", session)
    await found.start()
    return found


async def reported(client: Client, **expected: object) -> None:
    """Wait until the state of the configuration is reported so."""

    async def said() -> bool:
        found = await client.get(resources.CONFIG_MAPS, configuration_state.NAME, SYSTEM)
        known = configuration_state.read(found) if found else None
        return known is not None and all(getattr(known, name) == value for name, value in expected.items())

    await eventually(said)


async def answered(client: Client) -> dict[str, tuple[str, str]]:
    """Return the conditions with which the function answers for the InferenceGateway."""
    request = fnv1.RunFunctionRequest()
    owner = await client.get(fleet_resources.INFERENCE_GATEWAYS, "default")
    assert owner is not None
    request.observed.composite.resource.update(owner)
    available = {"conditions": [{"type": "Available", "status": "True"}]}
    for key, manifest in crossplane_gateway.build_children(OPTIONS).items():
        seen = manifest | ({"status": available} if manifest["kind"] == "Deployment" else {})
        request.observed.resources[key].resource.update(seen)
    runner = Runner(options=OPTIONS)
    for _ in range(3):
        response = runner.run(RunFunctionRequest.FromString(request.SerializeToString()))
        for key, wanted in response.requirements.resources.items():
            request.required_resources[key].SetInParent()
            known = fleet_resources.find_known(wanted.api_version, wanted.kind)
            found = known and await client.get(known, wanted.match_name, wanted.namespace or None)
            if found and not request.required_resources[key].items:
                request.required_resources[key].items.add().resource.update(found)
    assert not [each.message for each in response.results if each.severity == fnv1.SEVERITY_FATAL]
    return {each.type: (each.reason, each.message) for each in response.conditions}


async def test_envoy_serves_what_is_published_beside_crossplane(bench: Bench, tmp_path: Path) -> None:
    client = bench.client
    async with engine("a") as port, aiohttp.ClientSession() as session:
        await bench.service("chat", port)
        envoy = await pod(bench, tmp_path, session)
        await envoy.serves("/team/chat/v1/models", "a")
        await reported(client, asks_for_keys=False, without_module="", problem="")
        said = await answered(client)
        assert said["ControllerReady"][1].startswith("Envoy accepts requests at modelplane-gateway.")
        # A key that is asked for, and one that is valid.
        await client.apply(
            _object("InferenceGateway", "default")
            | {"spec": SPEC | {"authentication": "APIKey", "keyGrants": [{"namespace": TEAM}]}}
        )
        digest = hashlib.sha256(KEY.encode()).hexdigest()
        await client.apply(_object("ModelKey", "ci", TEAM) | {"spec": {"hashes": [{"sha256": digest}]}})

        async def asks() -> bool:
            with_key = await envoy.get("/team/chat/v1/models", KEY)
            return with_key == (200, "a") and (await envoy.get("/team/chat/v1/models"))[0] == 401

        await eventually(asks)
        await reported(client, asks_for_keys=True)
        assert (await answered(client))["Authenticated"][0] == "InForce"
    written = await client.get(fleet_resources.MODEL_SERVICES, "chat", TEAM)
    assert written is not None
    assert "status" not in written, "the process beside Crossplane writes no status"


async def test_certificates_are_published_and_their_problem_is_reported(bench: Bench, tmp_path: Path) -> None:
    tls = {"certificateRefs": [{"name": "front"}]}
    await bench.client.apply(_object("InferenceGateway", "default") | {"spec": SPEC | {"tls": tls}})
    await reported(bench.client, has_tls=True)
    said = await answered(bench.client)
    assert said["Secured"][0] == "InvalidCertificate"
    assert "front" in said["ControllerReady"][1]
    authority(tmp_path)
    chain, key = server_pair(tmp_path, "models.example")
    data = {"tls.crt": chain, "tls.key": key}
    await bench.client.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "front", "namespace": SYSTEM},
            "data": {name: base64.b64encode(pem.encode()).decode() for name, pem in data.items()},
        }
    )
    await reported(bench.client, has_tls=True, problem="", tls_problem="")
    assert (await answered(bench.client))["Secured"][0] == "InForce"
    # Envoy serves until nothing needs it any more, and goes on with TLS.
    other = {"backend": "GatewayAPI", "tls": tls, "authentication": "APIKey"}
    await bench.client.apply(_object("InferenceGateway", "default") | {"spec": other})
    await reported(bench.client, asks_for_keys=True, has_tls=True)


async def test_nothing_is_published_unless_crossplane_owns_the_kinds(bench: Bench, tmp_path: Path) -> None:
    await reported(bench.client, problem="")
    await _owned_by_crossplane(bench.client, owned=False)
    try:
        assert await asyncio.wait_for(bench.controller.process.wait(), PATIENCE_S) == 3
        another = await publisher(bench.plane, bench._commands, tmp_path)
        assert await asyncio.wait_for(another.process.wait(), PATIENCE_S) == 3
    finally:
        await _owned_by_crossplane(bench.client)

"""``modelplane cluster register``: from a kubeconfig to a model that serves, in one command.

The cluster is a second control plane of this machine. Beside its own node it has two that are simulated, with
eight GPUs each, as NVIDIA's DRA driver would publish them.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import yaml

from modelplane.controllers import fleet_resources
from modelplane.gateway import tokens
from modelplane.install import cluster_requirements
from modelplane.install.identity_permissions import (
    BIND_COPIES,
    INFERENCE_CLUSTER,
    OWN_TOKEN,
    list_cluster_rules,
    list_copy_rules,
)
from modelplane.install.roles import Role, build_account
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.local_devices import CPU_DRIVER
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_objects, cluster_registration
from support.fleets import Fleet
from support.patience import eventually

pytestmark = pytest.mark.kubernetes

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-first-answer"
CLUSTER = "local-1"
SYSTEM = "modelplane-system"
ON_CLUSTER = (
    resources.CLUSTER_ROLES,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.NAMESPACES,
    resources.NODES,
    resources.ROLES,
    resources.ROLE_BINDINGS,
    resources.SECRETS,
    resources.SERVICE_ACCOUNTS,
    resources.VALIDATING_ADMISSION_POLICIES,
    resources.VALIDATING_ADMISSION_POLICY_BINDINGS,
)
ON_CONTROL_PLANE = (
    resources.SECRETS,
    fleet_resources.INFERENCE_CLASSES,
    fleet_resources.INFERENCE_CLUSTERS,
)


@pytest.fixture(scope="module")
def fleet(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet without a cluster, and a control plane beside it that could be one."""
    started = Fleet(Home(tmp_path_factory.mktemp("register")), kubernetes_binary)
    started.modelplane("up", "--clusters", "1", "--no-register")
    try:
        asyncio.run(_prepare(started))
        yield started
    finally:
        started.modelplane("down", "--purge")


async def _prepare(fleet: Fleet) -> None:
    """Do what a cluster's gateway and the driver of its GPUs do."""
    async with Client.from_kubeconfig(str(fleet.kubeconfig), context=CLUSTER) as client:
        # This machine's Envoy is the gateway of the cluster, and reports by the fleet's identity there.
        rules = cluster_objects.OWN_GATEWAY
        for manifest in Role("ClusterRole", "own-gateway", rules, {}).bound_to(
            build_account(INFERENCE_CLUSTER)
        ):
            await client.apply(manifest)
        address = {"status": {"addresses": [{"type": "IPAddress", "value": "127.0.0.1"}]}}
        await client.patch(resources.GATEWAYS, "inference-gateway", address, SYSTEM, subresource="status")
        for manifest in (_device_class(), *(each for name in ("gpu-a", "gpu-b") for each in _gpu_node(name))):
            await client.apply(manifest)
    async with Client.from_kubeconfig(str(fleet.kubeconfig), context="modelplane") as client:

        async def has_keys() -> bool:
            return await client.get(resources.SECRETS, tokens.SECRET, SYSTEM) is not None

        # The controllers write a Secret of their own, once, a moment after they are ready.
        await eventually(has_keys)


def _device_class() -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {
            "selectors": [
                {
                    "cel": {
                        "expression": "device.driver == 'gpu.nvidia.com' && "
                        "device.attributes['gpu.nvidia.com'].type == 'gpu'"
                    }
                }
            ]
        },
    }


def _gpu_node(name: str) -> Iterator[Object]:
    yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
    }
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-gpus"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {**attributes, "uuid": {"string": f"GPU-{name}-{index}"}},
                    "capacity": {"memory": {"value": "81559Mi"}},
                }
                for index in range(8)
            ],
        },
    }


def _model() -> Iterator[Object]:
    """Yield the manifests of a model for the only node that can run it, which has no GPU."""
    for path in sorted(EXAMPLE.glob("*.yaml")):
        manifest: Object = yaml.safe_load(path.read_text())
        if manifest["kind"] == "ModelDeployment":
            [member] = manifest["spec"]["engines"][0]["members"]
            [request] = member["nodeSelector"]["devices"]
            request["selectors"] = [{"cel": f'device.driver == "{CPU_DRIVER}"'}]
        yield manifest


def _register(fleet: Fleet, *options: str, name: str = "gpu-1", check: bool = True) -> str:
    where = (
        f"--cluster-kubeconfig={fleet.kubeconfig}",
        f"--cluster-context={CLUSTER}",
        f"--home={fleet.home.root}",
    )
    return fleet.modelplane("cluster", "register", name, *where, *options, check=check)


def _state(fleet: Fleet) -> dict[str, str]:
    """Return the content of every object that a registration could write."""
    return asyncio.run(_content(fleet))


async def _content(fleet: Fleet) -> dict[str, str]:
    found: dict[str, str] = {}
    for context, kinds in ((CLUSTER, ON_CLUSTER), ("modelplane", ON_CONTROL_PLANE)):
        async with Client.from_kubeconfig(str(fleet.kubeconfig), context=context) as client:
            for kind in kinds:
                for item in (await client.list(kind)).items:
                    metadata = item["metadata"]
                    parts = [metadata.get("labels"), metadata.get("annotations"), metadata.get("finalizers")]
                    # A kubelet reports in the status and the annotations of its Node.
                    if kind is resources.NODES:
                        parts = parts[:1]
                    else:
                        parts += [item.get(part) for part in ("spec", "rules", "subjects", "data")]
                    name = f"{context} {kind.kind} {metadata.get('namespace', '')}/{metadata['name']}"
                    found[name] = json.dumps(parts)
    return found


def test_a_dry_run_shows_every_object_and_permission_and_writes_nothing(fleet: Fleet) -> None:
    before = _state(fleet)
    printed = _register(fleet)
    assert _state(fleet) == before
    shown = [each for each in yaml.safe_load_all(printed) if each]
    assert shown[:-6] == cluster_requirements.build_manifests()
    assert [(each["kind"], each["metadata"]["name"]) for each in shown[-6:]] == [
        ("Node", "gpu-a"),
        ("Node", "gpu-b"),
        ("Secret", "gpu-1-kubeconfig"),
        ("InferenceClass", "h100-8x"),
        ("InferenceClass", shown[-2]["metadata"]["name"]),
        ("InferenceCluster", "gpu-1"),
    ]
    rules = (*list_cluster_rules(), *list_copy_rules(), BIND_COPIES, *OWN_TOKEN)
    assert [each.why for each in rules if each.why not in printed] == []


def test_one_command_leads_from_a_kubeconfig_to_an_answer(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(yaml.safe_dump_all([cluster_registration.GATEWAY, *_model()]))
    fleet.kubectl("apply", "-f", str(tmp_path / "model.yaml"))
    assert 'Registered cluster "gpu-1"' in _register(fleet, "--apply")
    ready = ("--for=condition=Ready", "md/gemma", "ms/first-answer", "-n", "ml-team", "--timeout=180s")
    fleet.kubectl("wait", *ready)
    service = json.loads(fleet.kubectl("get", "ms", "first-answer", "-n", "ml-team", "-o", "json"))
    base = f"{service['status']['address']}/v1"
    with openai.OpenAI(base_url=base, api_key="none", max_retries=5, timeout=60) as client:
        answer = client.chat.completions.create(
            model="gemma", messages=[{"role": "user", "content": "The capital of France is"}], max_tokens=12
        )
    assert answer.choices[0].message.content
    before = _state(fleet)
    assert 'Cluster "gpu-1" is already registered: nothing changed' in _register(fleet, "--apply")
    refused = _register(fleet, "--apply", name="gpu-2", check=False)
    assert 'already registered as InferenceCluster "gpu-1"' in refused
    assert _state(fleet) == before


def test_an_interrupted_registration_is_completed_by_the_next_run(fleet: Fleet) -> None:
    before = _state(fleet)
    fleet.kubectl("label", "node", "gpu-b", "modelplane.ai/pool-", "--context", CLUSTER)
    fleet.kubectl("delete", "serviceaccount", INFERENCE_CLUSTER, "-n", SYSTEM, "--context", CLUSTER)
    said = _register(fleet, "--apply")
    assert "node labels: 1 changed" in said
    assert f"credential of {INFERENCE_CLUSTER}: 1 changed" in said
    after = _state(fleet)
    secret = f"modelplane Secret {SYSTEM}/gpu-1-kubeconfig"
    assert before.pop(secret) != after.pop(secret)
    assert after == before

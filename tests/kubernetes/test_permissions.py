"""The roles of an installation against what its identities really ask API servers for.

The controllers and the companion of the gateway run under the installed accounts, with a control plane
and a cluster that are two API servers, through everything that they do. Both servers write an audit log.
What one refused is a rule that is missing; what was granted and never asked for is one too many.
"""

import asyncio
import base64
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.meta import GATEWAY_NAMESPACE, SYSTEM_NAMESPACE
from modelplane.api.model_key import ModelKey
from modelplane.compose.readiness import condition_of, is_true
from modelplane.compose.workload_kinds import OF_STACKS, Place, rows
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import of_row
from modelplane.install import cluster_requirements, identity_permissions, roles
from modelplane.install.identity_permissions import INFERENCE_CLUSTER
from modelplane.install.installation_options import CONTROLLER, GATEWAY, Options
from modelplane.install.manifests import build_manifests
from modelplane.install.roles import Rule
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from modelplane.local import setup
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_objects
from modelplane.local.kubernetes.control_plane import Pki
from modelplane.local.supervision import lifecycle
from modelplane.local.supervision.processes import CONTROL_PLANE
from modelplane.proxy import envoy_bootstrap
from support.audit import Asked, asked, audited
from support.fleets import ControlPlane
from support.patience import PATIENCE_S
from support.service_accounts import kubeconfig
from support.third_party_crds import definitions
from support.tokens import endless

pytestmark = pytest.mark.kubernetes

TEAM = "ml-team"
TOPOLOGIES = Path(__file__).parents[2] / "examples" / "topologies"
# Both have a class of the same name: the second one's devices include those of the first one's.
EXAMPLES = ("prefill-decode", "two-node-gang")
CHILDREN = tuple(of_row(row) for row in rows(Place.CLUSTERS) if row not in OF_STACKS)
"""Every kind that controllers write to a cluster without a serving stack."""


@dataclass(frozen=True, slots=True)
class Server:
    """An API server with an audit log."""

    plane: ControlPlane
    log: Path


@contextmanager
def server(binary: Path, folder: Path) -> Iterator[Server]:
    folder.mkdir()
    program, log = audited(binary, folder)
    home = Home(folder / "home")
    setup.make_home(home)
    setup.set_up(home)
    lifecycle.start(home, program, CONTROL_PLANE)
    try:
        asyncio.run(lifecycle.wait_until_running(home, CONTROL_PLANE, PATIENCE_S, lambda _record: None))
        yield Server(ControlPlane(home, binary), log)
    finally:
        lifecycle.stop(home)


@pytest.fixture(scope="module")
def everything_asked(
    kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Asked, ...]]:
    """What the identities asked for while everything happened that can."""
    folder = tmp_path_factory.mktemp("permissions")
    with (
        server(kubernetes_binary, folder / "fleet") as fleet,
        server(kubernetes_binary, folder / "gpu") as gpu,
    ):
        asyncio.run(_happen(fleet.plane, gpu.plane, folder))
        yield (*asked(fleet.log), *asked(gpu.log))


async def _happen(fleet: ControlPlane, gpu: ControlPlane, folder: Path) -> None:
    async with (
        Client.from_kubeconfig(
            str(fleet.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
        ) as control,
        Client.from_kubeconfig(
            str(gpu.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
        ) as cluster,
    ):
        for manifest in build_manifests(Options()):
            await control.apply(manifest)
        foreign = cluster_objects.load_gateway_api()
        foreign += [
            each
            for origin in ("gateway-api-inference-extension", "kserve", "lws")
            for each in definitions(origin)
        ]
        for manifest in [*foreign, *cluster_requirements.build_manifests()]:
            await cluster.apply(manifest)
        await cluster_objects.wait_until_established(cluster, [each["metadata"]["name"] for each in foreign])
        await _gateway(cluster)
        with ExitStack() as stack:
            files = folder / "envoy"
            envoy_bootstrap.prepare(files, ())
            _start(stack, fleet, folder, "gateway", GATEWAY, f"--dir={files}", "--drain-seconds=0")
            async with _kubelet(cluster):
                token = await _endless_token(gpu, cluster)
                path = kubeconfig(gpu, INFERENCE_CLUSTER, folder / "gpu.kubeconfig", token)
                access = path.read_bytes()
                with ExitStack() as first:
                    _start_controllers(first, fleet, folder)
                    await _serve(control, cluster, base64.b64encode(access).decode())
                # One that starts where there is something already has to find it.
                _start_controllers(stack, fleet, folder)
                await _delete(control, cluster)


async def _endless_token(gpu: ControlPlane, cluster: Client) -> str:
    """Return a token of the identity as version 0.2.0 had it, which controllers replace at once."""
    account = await cluster.get(resources.SERVICE_ACCOUNTS, INFERENCE_CLUSTER, SYSTEM_NAMESPACE)
    assert account
    token = endless(Pki(gpu.home.pki).service_accounts, account["metadata"]["uid"], "endless")
    secret = _object("v1", "Secret", "endless", SYSTEM_NAMESPACE)
    secret["metadata"]["annotations"] = {"kubernetes.io/service-account.name": INFERENCE_CLUSTER}
    # This control plane has no controller that would write the token into the Secret.
    more = {"type": "kubernetes.io/service-account-token", "stringData": {"token": token}}
    await cluster.create(secret | more)
    return token


def _start_controllers(stack: ExitStack, fleet: ControlPlane, folder: Path) -> None:
    options = ("--leader-elect", f"--gateway-service={GATEWAY}")
    _start(stack, fleet, folder, "controller", CONTROLLER, *options)


def _start(
    stack: ExitStack, plane: ControlPlane, folder: Path, command: str, account: str, *arguments: str
) -> None:
    """Run a command of ours as an account until the end of the story."""
    path = kubeconfig(plane, account, folder / f"{account}.kubeconfig")
    argv = [sys.executable, "-m", "modelplane.cli.main", command, f"--kubeconfig={path}", *arguments]
    output = stack.enter_context((folder / f"{command}.log").open("a"))
    process = stack.enter_context(subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT))
    stack.callback(process.terminate)


async def _gateway(cluster: Client) -> None:
    """Give the cluster a gateway, as somebody's implementation would."""
    spec = {"gatewayClassName": "else", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}
    manifest = _object("gateway.networking.k8s.io/v1", "Gateway", "inference-gateway", SYSTEM_NAMESPACE)
    await cluster.apply(manifest | {"spec": spec})
    status = {"addresses": [{"type": "IPAddress", "value": "10.0.0.1"}]}
    await cluster.patch(
        resources.GATEWAYS, "inference-gateway", {"status": status}, SYSTEM_NAMESPACE, subresource="status"
    )


@asynccontextmanager
async def _kubelet(cluster: Client) -> AsyncIterator[None]:
    """Bind every volume and run every pod, to its end where a Job's."""

    async def report(resource: Resource, item: Object, status: Object) -> None:
        if item.get("status", {}).get("phase") != status["phase"]:
            name = item["metadata"]["name"]
            body = {"status": status}
            await cluster.patch(resource, name, body, TEAM, kind="strategic", subresource="status")

    async def run() -> None:
        while True:
            with suppress(Exception):
                for claim in (await cluster.list(resources.PERSISTENT_VOLUME_CLAIMS, TEAM)).items:
                    await report(resources.PERSISTENT_VOLUME_CLAIMS, claim, {"phase": "Bound"})
                for pod in (await cluster.list(resources.PODS, TEAM)).items:
                    ends = "job-name" in pod["metadata"]["labels"]
                    ready = {"type": "Ready", "status": "False" if ends else "True"}
                    phase = "Succeeded" if ends else "Running"
                    await report(resources.PODS, pod, {"phase": phase, "conditions": [ready]})
            await asyncio.sleep(0.2)

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _serve(control: Client, cluster: Client, access: str) -> None:
    """Register the cluster, and have models on it that need every kind of child."""
    await control.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    for name, data in (("token", "HF_TOKEN"), ("settings", "KEY")):
        await control.create(_object("v1", "Secret", name, TEAM) | {"stringData": {data: "value"}})
    await control.create(_object("v1", "ConfigMap", "settings", TEAM) | {"data": {"KEY": "value"}})
    gateway = _object("modelplane.ai/v1alpha1", "InferenceGateway", "default")
    await control.apply(gateway | {"spec": {"backend": "Envoy"}})
    files = [path for example in EXAMPLES for path in sorted((TOPOLOGIES / example).glob("*.yaml"))]
    examples = [manifest for path in files for manifest in yaml.safe_load_all(path.read_text())]
    for manifest in examples:
        if manifest["kind"] == "InferenceCluster":
            secret = manifest["spec"]["cluster"]["existing"]["secretRef"]["name"]
            await control.apply(
                _object("v1", "Secret", secret, SYSTEM_NAMESPACE) | {"data": {"kubeconfig": access}}
            )
        if manifest["kind"] == "ModelCache":
            manifest["spec"]["huggingFace"]["authSecret"] = {"name": "token"}
        await control.apply(manifest)
    await control.apply(_settings(replicas=2))
    await control.apply(_run_by_kserve())
    await control.apply(
        _object("modelplane.ai/v1alpha1", "ModelKey", "ci", TEAM)
        | {"spec": {"hashes": [{"sha256": "ab" * 32}]}}
    )
    scaled = {
        "deploymentRef": {"name": "settings"},
        "maxReplicas": 2,
        "targets": {"requestsPerReplica": 10},
        "paused": True,
    }
    about = _object("modelplane.ai/v1alpha1", "InferenceAutoscaler", "settings", TEAM)
    await control.apply(about | {"spec": scaled})
    limits = {"namespaces": ["batch"], "classes": [{"className": "h100", "nominalQuota": 8}]}
    await control.apply(_object("modelplane.ai/v1alpha1", "DeviceQuota", "others") | {"spec": limits})

    seen: set[str] = set()

    async def unrenewed() -> list[str]:
        found = (await control.list(resources.SECRETS, SYSTEM_NAMESPACE)).items
        return [each["metadata"]["name"] for each in found if each["data"].get("kubeconfig") == access]

    async def missing() -> list[str]:
        # A Job is there for as long as it works.
        seen.update([kind.kind for kind in CHILDREN if await _children(cluster, kind)])
        deployment = await control.get(fleet_resources.MODEL_DEPLOYMENTS, "settings", TEAM)
        unseen = [kind.kind for kind in CHILDREN if kind.kind not in seen] + await unrenewed()
        key = await control.get(fleet_resources.resource_of_kind(ModelKey), "ci", TEAM)
        unseen += [] if condition_of(key or {}, "Accepted") else ["the conditions of a key"]
        scaler = await control.get(fleet_resources.resource_of_kind(InferenceAutoscaler), "settings", TEAM)
        unseen += [] if condition_of(scaler or {}, "ScalingActive") else ["the conditions of an autoscaler"]
        quota = await control.get(fleet_resources.DEVICE_QUOTAS, "others")
        unseen += [] if condition_of(quota or {}, "Accepted") else ["the conditions of a quota"]
        return unseen + ([] if is_true(deployment or {}, "Ready") else ["a deployment that serves"])

    await _until_nothing(missing)
    await control.apply(_settings(replicas=1))

    async def too_many() -> list[str]:
        of_it = "modelplane.ai/deployment=settings"
        names = [
            each["metadata"]["name"]
            for each in (await control.list(fleet_resources.MODEL_REPLICAS, TEAM, labels=of_it)).items
        ]
        return names[1:]

    await _until_nothing(too_many)


def _settings(replicas: int) -> Object:
    """Return a deployment whose engine names what only its team's namespace has."""
    source = {"name": "settings", "key": "KEY"}
    engine = {
        "name": "engine",
        "image": "engine:1",
        "env": [
            {"name": "SECRET", "valueFrom": {"secretKeyRef": source}},
            {"name": "SETTING", "valueFrom": {"configMapKeyRef": source}},
        ],
    }
    selector = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA H100 80GB HBM3"'
    member = {
        "nodeSelector": {"devices": [{"name": "gpu", "count": 1, "selectors": [{"cel": selector}]}]},
        "template": {"spec": {"containers": [engine]}},
    }
    spec = {
        "replicas": replicas,
        # The other cluster's nodes are for the other models.
        "clusterSelector": {"matchLabels": {"modelplane.ai/tier": "production"}},
        "engines": [{"name": "engine", "members": [member]}],
    }
    return _object("modelplane.ai/v1alpha1", "ModelDeployment", "settings", TEAM) | {"spec": spec}


def _run_by_kserve() -> Object:
    """Return a replica that KServe runs, on a cluster of an example."""
    engine = {"name": "engine", "image": "vllm/vllm-openai:v0.23.0", "args": ["--model=m"]}
    member = {
        "nodePoolName": "medium-models",
        "deviceRequests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}],
        "template": {"spec": {"containers": [engine]}},
    }
    spec = {
        "clusterName": "prod-coreweave-us-east",
        "backend": "KServe",
        "engines": [{"name": "engine", "members": [member]}],
    }
    return _object("modelplane.ai/v1alpha1", "ModelReplica", "by-kserve", TEAM) | {"spec": spec}


async def _delete(control: Client, cluster: Client) -> None:
    """Delete everything, and wait until nothing of it is left anywhere."""
    for kinds in (
        (
            *(fleet_resources.MODEL_SERVICES, fleet_resources.MODEL_DEPLOYMENTS),
            *(fleet_resources.MODEL_REPLICAS, fleet_resources.MODEL_CACHES),
        ),
        (fleet_resources.INFERENCE_CLUSTERS, fleet_resources.INFERENCE_CLASSES),
    ):
        for kind in kinds:
            for item in (await control.list(kind)).items:
                metadata = item["metadata"]
                await control.delete(kind, metadata["name"], metadata.get("namespace"))

        async def left(kinds: tuple[Resource, ...] = kinds) -> list[str]:
            return [each["metadata"]["name"] for kind in kinds for each in (await control.list(kind)).items]

        await _until_nothing(left)
    assert [kind.kind for kind in CHILDREN if await _children(cluster, kind)] == []


async def _children(cluster: Client, kind: Resource) -> tuple[Object, ...]:
    return (await cluster.list(kind, TEAM, labels="modelplane.ai/managed-by=modelplane")).items


async def _until_nothing(look: Callable[[], Awaitable[list[str]]], timeout_s: float = PATIENCE_S) -> None:
    """Wait until nothing is missing, or left."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    found = ["everything"]
    while found:
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.2)
        # A server says 429 of a kind that it has just been given.
        with suppress(errors.ApiError):
            found = await look()


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **where}}


def test_nothing_that_was_asked_for_is_refused(everything_asked: tuple[Asked, ...]) -> None:
    refused = {each for each in everything_asked if each.code == 403}
    # The access to copies is given back with the last of them, while a list of others may be on its way.
    copied = {plural for rule in identity_permissions.list_copy_rules() for plural in rule.resources}
    given_back = {
        each
        for each in refused
        if (each.account, each.namespace, each.verb) == (INFERENCE_CLUSTER, TEAM, "list")
        and each.resource in copied
        and replace(each, code=200) in everything_asked
    }
    assert sorted(refused - given_back) == []


EVERYWHERE = "everywhere"
GRANTED = [
    *((CONTROLLER, EVERYWHERE, rule) for rule in identity_permissions.list_control_plane_rules()),
    *((CONTROLLER, TEAM, rule) for rule in identity_permissions.TEAMS),
    *((CONTROLLER, SYSTEM_NAMESPACE, rule) for rule in identity_permissions.SYSTEM),
    *((GATEWAY, SYSTEM_NAMESPACE, rule) for rule in roles.COMPANION),
    *((GATEWAY, GATEWAY_NAMESPACE, rule) for rule in roles.COMPANION_PRIVATE),
    *((CONTROLLER, GATEWAY_NAMESPACE, rule) for rule in roles.PUBLISHER),
    *((INFERENCE_CLUSTER, EVERYWHERE, rule) for rule in identity_permissions.list_cluster_rules()),
    *((INFERENCE_CLUSTER, SYSTEM_NAMESPACE, rule) for rule in identity_permissions.OWN_TOKEN),
    (INFERENCE_CLUSTER, EVERYWHERE, identity_permissions.BIND_COPIES),
    *((INFERENCE_CLUSTER, TEAM, rule) for rule in identity_permissions.list_copy_rules()),
]
"""Who may do what, and in which namespace that was to be seen."""


@pytest.mark.parametrize(
    ("account", "where", "rule"),
    [
        pytest.param(*each, id=f"{each[0]}: {', '.join((*each[2].verbs, *each[2].resources))}")
        for each in GRANTED
        if not each[2].unseen
    ],
)
def test_nothing_is_granted_that_is_not_asked_for(
    everything_asked: tuple[Asked, ...], account: str, where: str, rule: Rule
) -> None:
    seen = {
        (each.resource, each.verb)
        for each in everything_asked
        if (each.account, each.group) == (account, rule.group)
        and where in (EVERYWHERE, each.namespace)
        and (not rule.names or each.name in rule.names)
    }
    granted = {(resource, verb) for resource in rule.resources for verb in rule.verbs}
    assert sorted(granted - seen) == []

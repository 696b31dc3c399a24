"""An installation on a real cluster, from its manifests to its end.

The machine's agent cannot run the installation's own pods, so their processes run beside the test, each
under the account that its pod would have. Everything else is as the manifests say.
"""

import asyncio
import json
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest
import yaml

from modelplane import __version__
from modelplane.compose.kinds import COMPOSED
from modelplane.controllers import fleet_resources
from modelplane.gateway.envoy.envoy_files import render_files
from modelplane.gateway.gateway_api.http_routes import build_workload_routes
from modelplane.gateway.route_table import Listener, Table
from modelplane.host import addresses
from modelplane.install.cluster_requirements import build_instructions
from modelplane.install.installation_options import CONTROLLER, GATEWAY
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kubelet.local_devices import discover
from modelplane.local import settings, setup
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_objects, cluster_registration
from modelplane.local.supervision import lifecycle
from modelplane.local.supervision.processes import CONTROL_PLANE
from modelplane.proxy import envoy_directory as envoy_files
from support.fleets import ControlPlane
from support.patience import PATIENCE_S
from support.service_accounts import kubeconfig
from support.shells import Shell, shell

INSTALL = "modelplane install --image registry.example/modelplane:1"

pytestmark = pytest.mark.kubernetes

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-first-answer"
EVERY_FIELD = EXAMPLE.parent / "every-field"
SYSTEM = ("-n", "modelplane-system")
EVERYTHING = "crd,ns,clusterrole,clusterrolebinding,role,rolebinding,sa,networkpolicy,svc,pdb,deploy"

CLUSTER_GATEWAY = "127.0.0.3"
"""Address of the cluster's gateway, another than that of the fleet's."""


@pytest.fixture(scope="module")
def cluster(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A machine with a control plane, a node and a gateway, and nothing of an installation."""
    folder = tmp_path_factory.mktemp("cluster")
    home = Home(folder / "home")
    setup.make_home(home)
    setup.set_up(home)
    running = (*CONTROL_PLANE, "agent", "envoy")
    lifecycle.start(home, kubernetes_binary, running)
    try:
        asyncio.run(lifecycle.wait_until_running(home, running, PATIENCE_S, lambda _record: None))
        yield shell(ControlPlane(home, kubernetes_binary), folder, "CONTROL", "GPU")
    finally:
        lifecycle.stop(home)


@pytest.fixture(scope="module")
def installed(cluster: Shell) -> str:
    """What kubectl said to the manifests."""
    return cluster.run(f"{INSTALL} | kubectl apply --validate=strict -f -")


@pytest.fixture(scope="module")
def fleet(cluster: Shell, installed: str) -> Iterator[int]:  # noqa: ARG001 - what was done, not said
    """The fleet of that one cluster, and the port of the gateway; the processes run until the end."""
    # The lines for a shell, as a reader takes them from the comments.
    steps = [line[4:] for line in build_instructions().splitlines() if line.startswith("#   ")]
    cluster.run("\n".join(steps))
    asyncio.run(_platform(cluster))
    [port] = _free_ports(1)
    with _controller(cluster), _gateway(cluster, port):
        cluster.run("kubectl wait --for=condition=Ready ic/local ig/default --timeout=180s")
        yield port


@contextmanager
def _controller(cluster: Shell) -> Iterator[None]:
    with _process(cluster, "controller", CONTROLLER, "--leader-elect", f"--gateway-service={GATEWAY}"):
        yield


@contextmanager
def _gateway(cluster: Shell, port: int) -> Iterator[None]:
    """Run both containers of a pod of the gateway."""
    common = (f"--dir={cluster.folder / 'gateway'}", "--address=127.0.0.1", f"--port={port}")
    with (
        _process(cluster, "envoy", "", *common),
        _process(cluster, "gateway", GATEWAY, *common, "--drain-seconds=0"),
    ):
        yield


@contextmanager
def _process(cluster: Shell, command: str, account: str, *arguments: str) -> Iterator[None]:
    """Run a command of ours, as an account where one is named."""
    if account:
        path = kubeconfig(cluster.plane, account, cluster.folder / f"{account}.kubeconfig")
        arguments = (*arguments, f"--kubeconfig={path}")
    with (
        (cluster.folder / f"{command}.log").open("w") as output,
        subprocess.Popen(
            [cluster.folder / "modelplane", command, *arguments], stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


async def _platform(cluster: Shell) -> None:
    """Do what a platform team, a cloud and a gateway's implementation do."""
    devices = discover()
    local = settings.load(cluster.plane.home).ports
    async with Client.from_kubeconfig(
        str(cluster.plane.kubeconfig), known=fleet_resources.find_known
    ) as client:
        kinds = cluster_objects.load_gateway_api()
        for kind in kinds:
            await client.apply(kind)
        await cluster_objects.wait_until_established(client, [kind["metadata"]["name"] for kind in kinds])
        own = (
            *cluster_objects.build_device_classes(devices),
            *cluster_objects.build_gateway(local.workload_gateway),
        )
        for manifest in own:
            await client.apply(manifest)
        at_home = {"addresses": [{"type": "IPAddress", "value": CLUSTER_GATEWAY}]}
        name, namespace = "inference-gateway", "modelplane-system"
        await client.patch(resources.GATEWAYS, name, {"status": at_home}, namespace, subresource="status")
        ingress = {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}
        await client.patch(resources.SERVICES, GATEWAY, {"status": ingress}, namespace, subresource="status")
        for manifest in (
            *cluster_registration.describe_hardware("local", devices),
            cluster_registration.GATEWAY,
        ):
            if manifest["kind"] == "InferenceCluster":
                manifest["spec"]["cluster"]["existing"]["secretRef"]["name"] = "gpu-1-kubeconfig"
            await client.apply(manifest)
        allowed = {"spec": {"allowedDestinations": [f"{CLUSTER_GATEWAY}/32"]}}
        await client.patch(fleet_resources.INFERENCE_GATEWAYS, "default", allowed)


async def _open_the_way(cluster: Shell) -> None:
    """Have the cluster's gateway serve its routes, as its implementation would."""
    kinds = (resources.HTTP_ROUTES, resources.SERVICES, resources.ENDPOINT_SLICES)
    async with Client.from_kubeconfig(
        str(cluster.plane.kubeconfig), known=fleet_resources.find_known
    ) as client:
        found = [(await client.list(kind)).items for kind in kinds]
    port = settings.load(cluster.plane.home).ports.workload_gateway
    routes = build_workload_routes(*found, addresses.find_bound)
    envoy_files.write(
        cluster.plane.home.envoy,
        render_files(Table((Listener("cluster-local", CLUSTER_GATEWAY, port, routes),))),
    )


def test_the_manifests_are_applied_as_they_are_written(cluster: Shell, installed: str) -> None:
    written = list(yaml.safe_load_all(cluster.run(INSTALL)))
    assert [line.rpartition(" ")[2] for line in installed.splitlines()] == ["created"] * len(written)
    before = _versions(cluster)
    cluster.run(f"{INSTALL} | kubectl apply --validate=strict -f -")
    assert _versions(cluster) == before


@pytest.mark.usefixtures("installed")
def test_what_runs_meets_the_restricted_pod_security_standard(cluster: Shell) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    said = cluster.run(f"kubectl label --dry-run=server --overwrite ns modelplane-system {label} 2>&1")
    assert said == "namespace/modelplane-system labeled (server dry run)\n"


def test_the_first_answer_comes_through_the_gateway(cluster: Shell, fleet: int) -> None:
    cluster.run(f"kubectl apply -f {EXAMPLE}")
    # The cluster is registered with itself, so the team's namespace is not one that the fleet makes.
    cluster.run("kubectl label namespace ml-team modelplane.ai/managed-by=modelplane")
    cluster.run("kubectl wait --for=condition=Ready md/gemma ms/first-answer -n ml-team --timeout=180s")
    address = cluster.get("ms", "first-answer", "-n", "ml-team")["status"]["address"]
    assert address == "http://127.0.0.1/ml-team/first-answer"
    asyncio.run(_open_the_way(cluster))
    here = address.replace("127.0.0.1", f"127.0.0.1:{fleet}")
    deadline = time.monotonic() + PATIENCE_S
    with openai.OpenAI(base_url=f"{here}/v1", api_key="none", max_retries=0, timeout=60) as client:
        while True:
            try:
                answer = client.chat.completions.create(
                    model="gemma",
                    messages=[{"role": "user", "content": "The capital of France is"}],
                    max_tokens=12,
                )
            except openai.OpenAIError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                break
    assert (answer.choices[0].message.content or "").strip()


def _versions(cluster: Shell) -> dict[str, str]:
    """Return the version of every object of the installation; a status is somebody else's."""
    return {
        f"{item['kind']} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}": str(
            item["metadata"].get("generation", item["metadata"]["resourceVersion"])
        )
        for item in cluster.get(EVERYTHING, "-A", "-l", "app.kubernetes.io/part-of=modelplane")["items"]
    }


APPLY = f"{INSTALL} --apply --timeout 5s"


@pytest.mark.usefixtures("fleet")
def test_an_installation_is_not_overwritten_unless_that_is_said(cluster: Shell) -> None:
    before = _versions(cluster)
    said = cluster.run(APPLY, check=False)
    assert said == (
        f"Error: Modelplane {__version__} is already installed: to upgrade to {__version__}, use --upgrade\n"
    )
    assert _versions(cluster) == before


@pytest.mark.usefixtures("fleet")
def test_an_upgrade_says_what_it_waits_for_and_a_second_one_changes_nothing(cluster: Shell) -> None:
    said = cluster.run(f"{APPLY} --upgrade", check=False)
    assert 'Deployment "modelplane-gateway": 0 of 2 replicas are available' in said
    before = _versions(cluster)
    again = cluster.run(f"{APPLY} --upgrade", check=False)
    steps = [line.split("  ")[1].strip() for line in again.splitlines() if line.startswith("  ")]
    assert steps == [
        f"CRDs: {len(COMPOSED)} unchanged",
        f"everything else: {len(before) - len(COMPOSED)} unchanged",
    ]
    assert _versions(cluster) == before


@pytest.mark.usefixtures("fleet")
def test_a_newer_version_is_not_downgraded(cluster: Shell) -> None:
    _relabel(cluster, "99.0.0")
    said = cluster.run(f"{APPLY} --upgrade", check=False)
    assert said == (
        f"Error: the installed Modelplane 99.0.0 is newer than this command, {__version__}: use the "
        "newer version\n"
    )


@pytest.mark.usefixtures("fleet")
def test_an_upgrade_removes_what_only_the_version_before_had(cluster: Shell) -> None:
    _relabel(cluster, "0.0.1")
    labels = "app.kubernetes.io/part-of=modelplane app.kubernetes.io/version=0.0.1"
    cluster.run(
        f"kubectl create sa old {shlex.join(SYSTEM)}; kubectl label sa old {shlex.join(SYSTEM)} {labels}"
    )
    tried = cluster.run(f"{INSTALL} --apply --upgrade --dry-run")
    assert f"CRDs: {len(COMPOSED)} unchanged" in tried
    assert "everything else: 1 changed" in tried
    assert "removed ServiceAccount modelplane-system/old, of version 0.0.1" in tried
    assert cluster.get("sa", "old", *SYSTEM), "a trial removes nothing"
    cluster.run(f"{APPLY} --upgrade", check=False)
    assert "NotFound" in cluster.run(f"kubectl get sa old {shlex.join(SYSTEM)}", check=False)
    assert (
        cluster.get("deploy", CONTROLLER, *SYSTEM)["metadata"]["labels"]["app.kubernetes.io/version"]
        == __version__
    )


def _relabel(cluster: Shell, version: str) -> None:
    label = f"app.kubernetes.io/version={version}"
    cluster.run(f"kubectl label --overwrite deploy {CONTROLLER} {shlex.join(SYSTEM)} {label}")


@pytest.mark.usefixtures("fleet")
def test_an_object_that_would_not_fit_keeps_the_kinds_as_they_are(cluster: Shell) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
    patch = json.dumps([{"op": "replace", "path": path, "value": anything}])
    cluster.run(f"kubectl patch crd inferenceclasses.modelplane.ai --type=json -p {shlex.quote(patch)}")
    odd = {"apiVersion": "modelplane.ai/v1alpha1", "kind": "InferenceClass", "metadata": {"name": "odd"}}
    text = shlex.quote(json.dumps({**odd, "spec": {"colour": "green"}}))
    deadline = time.monotonic() + PATIENCE_S
    while not cluster.run(f"echo {text} | kubectl apply --validate=false -f - || true"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    said = cluster.run(f"{APPLY} --upgrade", check=False)
    assert said.startswith(f"Error: objects are not valid in version {__version__}: change these first\n")
    assert '  InferenceClass "odd": spec.colour: unknown field' in said
    cluster.run("kubectl delete icl odd")
    upgraded = cluster.run(f"{APPLY} --upgrade", check=False)
    assert f"CRDs: 1 changed, {len(COMPOSED) - 1} unchanged" in upgraded


@pytest.mark.usefixtures("fleet")
def test_nothing_is_uninstalled_while_there_are_models(cluster: Shell) -> None:
    before = _versions(cluster)
    said = cluster.run("modelplane uninstall", check=False)
    assert said.startswith(
        'Error: models exist: ModelDeployment "ml-team/gemma", ModelReplica "ml-team/gemma-'
    )
    assert said.endswith(": delete them first, or use --delete-models\n")
    assert _versions(cluster) == before


@pytest.mark.usefixtures("fleet")
def test_uninstalling_with_the_models_leaves_only_what_others_made(cluster: Shell) -> None:
    said = cluster.run("modelplane uninstall --delete-models --timeout 3m")
    assert "models: 3 deleted" in said
    assert f"CRDs: {len(COMPOSED)} deleted" in said
    [kept] = [line for line in said.splitlines() if "Kept namespace modelplane-system, because of" in line]
    assert 'Secret "modelplane-system/gpu-1-kubeconfig"' in kept
    assert "modelplane-gateway-keys" not in kept, "the controllers' own"
    assert cluster.run("kubectl get deploy,svc,httproute,resourceclaimtemplate -n ml-team -o name") == ""
    [again] = cluster.run("modelplane uninstall").splitlines()
    assert again.rstrip("0123456789. s") == kept.rstrip("0123456789. s"), "a second run looks anew"


@pytest.mark.usefixtures("fleet")
def test_uninstalling_without_the_models_deletes_no_object_that_a_person_wrote(cluster: Shell) -> None:
    written = [EVERY_FIELD / f"{name}.yaml" for name in ("device-quota", "inference-autoscaler", "model-key")]
    cluster.run(f"{INSTALL} | kubectl apply --server-side -f -")
    cluster.run("kubectl apply " + shlex.join(f"--filename={path}" for path in written))
    said = cluster.run("modelplane uninstall")
    [kept] = [line for line in said.splitlines() if "Kept the CRDs, because of" in line]
    for name in ('DeviceQuota "ml-team"', 'InferenceAutoscaler "ml-team/qwen3-8b"', 'ModelKey "ml-team/ci"'):
        assert name in kept
    left = cluster.run("kubectl get devicequotas,inferenceautoscalers,modelkeys -A -o name").split()
    assert len(left) == len(written)
    said = cluster.run("modelplane uninstall --delete-models")
    assert f"fleet objects: {len(written)} deleted" in said
    assert f"CRDs: {len(COMPOSED)} deleted" in said


def test_what_crossplane_owns_is_left_to_it(cluster: Shell) -> None:
    name = "modelservices.modelplane.ai"
    reference = {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "name": name,
        "uid": "6d1b0e6c-5a4b-4b53-9a44-0d1d3b6a1f5e",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    patch = shlex.quote(json.dumps({"metadata": {"ownerReferences": [reference]}}))
    definition = Path(__file__).parents[2] / "package" / "crds" / "modelplane.ai_modelservices.yaml"
    cluster.run(f"kubectl apply -f {definition}; kubectl patch crd {name} --type=merge -p {patch}")
    said = cluster.run(f"{INSTALL} --apply", check=False)
    assert said == (
        f"Error: the controllers must not run: Crossplane owns CustomResourceDefinition {name}: "
        "see docs/how-to/move-to-crossplane.md\n"
    )

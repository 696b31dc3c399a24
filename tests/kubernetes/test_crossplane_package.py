"""The packages against what will take them: an API server with Crossplane's kinds, and an empty machine.

The objects are applied as dry runs with strict validation, and so is what the page of the installation shows.
The function's image is unpacked into an empty folder and started there.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import tarfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from modelplane.api.schema.decode import decode
from modelplane.controllers import fleet_resources
from modelplane.crossplane.package.building import build
from modelplane.crossplane.package.metadata import Registry
from modelplane.crossplane.package.oci_layout import open_image
from modelplane.crossplane.package.package_contents import configuration, function
from modelplane.crossplane.package.package_installation import build_installation
from modelplane.crossplane.package.prerequisites import build_prerequisites
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Object, Resource
from modelplane.local.kubernetes.cluster_objects import wait_until_established
from support.packages import VERSION
from support.patience import PATIENCE_S
from support.third_party_crds import definitions
from support.transcripts import FENCE

pytestmark = pytest.mark.kubernetes

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "crossplane.md"
_, *PACKAGED = configuration(Registry(), VERSION).documents
SHOWN = [
    document
    for block in FENCE.finditer(PAGE.read_text())
    if block["language"] == "yaml"
    for document in yaml.safe_load_all(textwrap.dedent(block["text"]))
]

POLICIES = tuple(
    Resource("admissionregistration.k8s.io", "v1", kind, plural, namespaced=False)
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
)


def _name(document: Object) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


@pytest.fixture(scope="module")
def kubeconfig(control_plane) -> Iterator[str]:
    """The kubeconfig of a control plane that serves Crossplane's kinds and Gateway API's."""
    found = [each for origin in ("crossplane", "gateway-api") for each in definitions(origin)]
    names = [each["metadata"]["name"] for each in found]

    async def install() -> None:
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
        ) as client:
            for each in found:
                await client.apply(each)
            await wait_until_established(client, names)

    async def remove() -> None:
        async with Client.from_kubeconfig(
            str(control_plane.kubeconfig), known=fleet_resources.find_known, timeout_s=PATIENCE_S
        ) as client:
            for name in names:
                await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
            # The next module may install them again: it must not find what is about to go.
            async with asyncio.timeout(PATIENCE_S):
                for name in names:
                    while await client.get(CUSTOM_RESOURCE_DEFINITIONS, name):
                        await asyncio.sleep(0.05)

    with pytest.MonkeyPatch.context() as patch:
        served = [resource for each in found for resource in _served(each)]
        for resource in (*served, *POLICIES):
            patch.setitem(resources._BY_KIND, (resource.api_version, resource.kind), resource)
        asyncio.run(install())
        yield str(control_plane.kubeconfig)
        asyncio.run(remove())


def _served(definition: Object) -> Iterator[Resource]:
    spec = definition["spec"]
    for version in spec["versions"]:
        names, namespaced = spec["names"], spec["scope"] == "Namespaced"
        yield Resource(spec["group"], version["name"], names["kind"], names["plural"], namespaced)


async def _accepted(kubeconfig: str, document: Object) -> Object:
    async with Client.from_kubeconfig(
        kubeconfig, known=fleet_resources.find_known, timeout_s=PATIENCE_S
    ) as client:
        return await client.apply(document, dry_run=True)


@pytest.mark.parametrize("document", PACKAGED, ids=_name)
async def test_an_object_of_the_configuration_is_accepted_and_nothing_of_it_is_dropped(kubeconfig, document):
    accepted = await _accepted(kubeconfig, document)
    assert {field: accepted["spec"][field] for field in document["spec"]} == document["spec"]


@pytest.mark.parametrize("document", build_prerequisites(), ids=_name)
async def test_a_prerequisite_is_accepted_and_nothing_of_it_is_dropped(kubeconfig, document):
    if "namespace" in document["metadata"]:  # which a dry run does not make
        document = {**document, "metadata": {**document["metadata"], "namespace": "default"}}
    accepted = await _accepted(kubeconfig, document)
    assert accepted.get("rules") == document.get("rules")


@pytest.mark.parametrize("document", build_installation(), ids=_name)
async def test_what_installs_the_packages_is_accepted(kubeconfig, document):
    accepted = await _accepted(kubeconfig, document)
    assert accepted["spec"].get("package") == document["spec"].get("package")


@pytest.mark.parametrize("document", SHOWN, ids=_name)
async def test_what_the_page_of_the_installation_shows_is_accepted(kubeconfig, document):
    if document["apiVersion"].startswith("modelplane.ai/"):
        decode(document)
        return
    if "namespace" in document["metadata"]:
        document["metadata"]["namespace"] = "default"
    await _accepted(kubeconfig, document)


def _unpacked(package: Path, root: Path) -> tuple[list[str], dict[str, str]]:
    """Unpack an image into a folder; return how it is started, and its environment."""
    with open_image(package) as stored:
        stored.verify()
        for number in range(len(stored.image.layers)):
            with stored.tar(number) as layer, tarfile.open(fileobj=layer, mode="r|") as archive:
                archive.extractall(root, filter="tar")
        config = stored.image.config
    (root / "dev").mkdir()
    return config["Entrypoint"], dict(each.split("=", 1) for each in config["Env"])


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """How to start the function's image in a folder that has nothing else."""
    unshare, chroot = shutil.which("unshare"), shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")
    allowed = (
        unshare and subprocess.run([unshare, "-rm", "true"], check=False, capture_output=True).returncode == 0
    )
    if not allowed or chroot is None:
        pytest.skip("a root folder of one's own is not allowed here: unshare --user --mount fails")
    folder = tmp_path_factory.mktemp("image")
    package = build(function(), Registry(), VERSION, folder).path
    entrypoint, environment = _unpacked(package, folder / "root")
    mount = f"mount --rbind /dev {folder / 'root' / 'dev'}"

    def command(*arguments: str) -> dict[str, Any]:
        program = " ".join([*entrypoint, *arguments])
        script = f"{mount} && exec {chroot} {folder / 'root'} {program}"
        return {"args": [unshare, "-rm", "/bin/sh", "-c", script], "env": environment | {"PATH": os.defpath}}

    yield command
    shutil.rmtree(folder)


def test_the_image_of_the_function_runs_where_nothing_else_is(inside):
    done = subprocess.run(**inside("--version"), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("modelplane, version ")


def test_the_function_of_the_image_says_that_it_serves(inside):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    running = subprocess.Popen(
        **inside("function", "--insecure", "--address", address), stderr=subprocess.PIPE
    )
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    finally:
        running.terminate()
        _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, errors

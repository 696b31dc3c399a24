"""The control plane is a real one, and keeps to itself."""

import os
import subprocess
import sys
from http import HTTPStatus

import psutil
import pytest
import yaml

from modelplane.controllers import fleet_resources
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.local.kubernetes.control_plane import NODE
from modelplane.local.supervision import locks
from modelplane.local.supervision.processes import CONTROL_PLANE
from support.patience import eventually

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def control_plane(own_control_plane):
    """A control plane with nothing of Modelplane on it, whatever other modules have run before."""
    return own_control_plane


def pod_template(image="example.invalid/none"):
    return {
        "metadata": {"labels": {"app": "some"}},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "some", "image": image}],
        },
    }


def deployment(namespace):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "some", "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "some"}},
            "template": pod_template(),
        },
    }


def node(name):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"modelplane.ai/pool": "local"}},
    }


@pytest.fixture
async def agent(control_plane):
    async with Client.from_kubeconfig(str(control_plane.home.agent_kubeconfig)) as connected:
        yield connected


@pytest.fixture
async def namespace(client):
    created = await client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "control-plane-"}}
    )
    yield created["metadata"]["name"]
    await client.delete(resources.NAMESPACES, created["metadata"]["name"])


@pytest.fixture
async def ready_node(client, agent):
    """The Node of this machine as an agent makes it, ready for pods."""
    await agent.create(node(NODE))
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    status = {"status": {"conditions": [ready], "capacity": capacity, "allocatable": capacity}}
    await agent.patch(resources.NODES, NODE, status, kind="strategic", subresource="status")
    yield NODE
    await client.delete(resources.NODES, NODE)


async def test_a_deployment_becomes_pods_that_are_bound_to_the_node(client, namespace, ready_node):
    await client.create(deployment(namespace))

    async def bound():
        pods = (await client.list(resources.PODS, namespace)).items
        return [pod["spec"].get("nodeName") for pod in pods] == [ready_node] * 2

    assert await eventually(bound)


async def test_what_a_deleted_object_owned_is_collected(client, namespace):
    await client.create(deployment(namespace))
    replica_sets = resources.Resource("apps", "v1", "ReplicaSet", "replicasets")

    async def some():
        return (await client.list(replica_sets, namespace)).items

    async def none():
        return not await some()

    await eventually(some)
    await client.delete(resources.DEPLOYMENTS, "some", namespace)
    assert await eventually(none)


async def test_the_agents_identity_is_its_own_node_and_no_other(agent):
    with pytest.raises(errors.Forbidden):
        await agent.create(node("another"))
    with pytest.raises(errors.Forbidden):
        await agent.list(resources.SECRETS)


async def test_a_stranger_learns_no_more_than_whether_the_server_is_ready(control_plane):
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {}} for user in config["users"]]
    async with Client.from_kubeconfig(config) as stranger:
        assert await stranger.get_raw("/readyz") == b"ok"
        with pytest.raises(errors.Forbidden):
            await stranger.list(resources.NAMESPACES)


VISITORS = resources.Resource("visitors.example.com", "v1", "Visitor", "visitors")


def definition_of_a_visitor():
    """Return the definition of a kind that only this test has: the control plane is that of many."""
    names = {"kind": VISITORS.kind, "plural": VISITORS.plural, "singular": "visitor"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{VISITORS.plural}.{VISITORS.group}"},
        "spec": {"group": VISITORS.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def test_a_kind_that_goes_leaves_the_others_their_connection_to_etcd(control_plane):
    name = definition_of_a_visitor()["metadata"]["name"]
    async with Client.from_kubeconfig(
        str(control_plane.kubeconfig), known=fleet_resources.find_known
    ) as client:

        async def served():
            try:
                return await client.list(VISITORS)
            except errors.NotFound:
                return None
            except errors.ApiError as error:
                if error.code != HTTPStatus.TOO_MANY_REQUESTS:  # what is stored of it is not open yet
                    raise
                return None

        async def gone():
            return await client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, name) is None

        # What is stored of a kind has a client of etcd to itself, which is closed with it.
        for _ in range(2):
            await client.create(definition_of_a_visitor())
            assert await eventually(served)
            await client.delete(resources.CUSTOM_RESOURCE_DEFINITIONS, name)
            assert await eventually(gone)
        assert (await client.list(resources.NAMESPACES)).items


def test_the_resources_of_the_api_server_share_a_connection_to_etcd(control_plane):
    etcd = psutil.Process(locks.find_holder(control_plane.home.lock("etcd")))
    connected = [each for each in etcd.net_connections("unix") if each.laddr.endswith("localhost:1")]
    assert 1 < len(connected) < 10, "there are seventy resources"


async def test_the_metrics_of_the_whole_process_are_in_one_place(control_plane):
    async with Client.from_kubeconfig(
        str(control_plane.kubeconfig), known=fleet_resources.find_known
    ) as client:
        lines = (await client.get_raw("/metrics")).decode().splitlines()
    names = {line.partition("{")[0].partition(" ")[0] for line in lines}
    wanted = {
        "apiserver_request_total",
        "scheduler_pending_pods",
        "garbagecollector_controller_resources_sync_error_total",
    }
    assert wanted - names == set()


def test_everything_listens_on_loopback_and_etcd_on_no_port_at_all(control_plane):
    listening = {}
    for name in CONTROL_PLANE:
        process = psutil.Process(locks.find_holder(control_plane.home.lock(name)))
        sockets = process.net_connections("inet")
        listening[name] = {each.laddr.ip for each in sockets if each.status == psutil.CONN_LISTEN}
    assert listening == {
        "etcd": set(),
        "control-plane": {"127.0.0.1"},
    }


def test_nobody_else_can_read_any_file_of_the_home(control_plane):
    assert [path for path in control_plane.home.root.rglob("*") if path.lstat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("version",), "Server Version: v1.35.4", id="a command that asks the server"),
        pytest.param(("get", "namespaces", "-o", "name"), "namespace/kube-system", id="options of kubectl"),
        pytest.param(("--help",), "kubectl controls the Kubernetes cluster manager", id="help is kubectl's"),
    ],
)
def test_kubectl_speaks_to_the_control_plane_of_the_home(control_plane, arguments, expected):
    done = subprocess.run(
        [sys.executable, "-m", "modelplane.cli.main", "kubectl", *arguments],
        env=os.environ | {"MODELPLANE_HOME": str(control_plane.home.root), "KUBECONFIG": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, expected in done.stdout) == (0, True), done.stderr


def test_an_unknown_program_of_the_binary_is_wrong_usage(control_plane):
    done = subprocess.run([control_plane.binary, "fly"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        (
            "programs: control-plane, etcd, helm, kube-apiserver, kube-controller-manager, kube-scheduler, "
            "kubectl"
        ),
    )

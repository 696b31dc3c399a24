"""This machine as a Node, and the Lease that says it is alive (Kubernetes, "Nodes", "Leases").

The Lease is the heartbeat; the Node is written when it is missing or differs. Nothing is written when the
agent ends: its pods keep running, and the Lease expires.
"""

import asyncio
import logging
import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelplane import __version__
from modelplane.api import labels
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet import local_devices
from modelplane.kubelet.local_devices import format_mebibytes

LEASE_NAMESPACE = "kube-node-lease"
ADDRESS = "127.0.0.1"
"""The one address of the Node; the API server dials it for logs."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of a Node."""

    name: str
    pool: str
    port: int
    """Port of the log server."""
    share: local_devices.Share = local_devices.WHOLE
    """Its part of the machine."""


def build_node(settings: NodeSettings) -> Object:
    """Return the Node without its status."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": settings.name,
            "labels": {
                "kubernetes.io/arch": local_devices.get_architecture(),
                "kubernetes.io/hostname": settings.name,
                "kubernetes.io/os": "linux",
                labels.POOL: settings.pool,
            },
        },
    }


def build_status(settings: NodeSettings, now: str, former: Mapping[str, Any]) -> Object:
    """Return the Node's status; a condition that is known to hold keeps its time of transition."""
    room = {
        "cpu": f"{local_devices.count_cores() * 1000 // settings.share.parts}m",
        "memory": format_mebibytes(local_devices.measure_memory() // settings.share.parts),
        "pods": "110",
    }
    before = {condition["type"]: condition for condition in former.get("conditions", ())}
    conditions = [
        _condition("Ready", "True", "AgentReady", "the node agent runs", now, before),
        *(
            _condition(kind, "False", "NotMeasured", "the node agent does not watch for this", now, before)
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
        ),
    ]
    return {
        "addresses": [{"type": "InternalIP", "address": ADDRESS}],
        "capacity": room,
        "allocatable": room,
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": settings.port}},
        "nodeInfo": {
            "architecture": local_devices.get_architecture(),
            "bootID": _first_line("/proc/sys/kernel/random/boot_id"),
            "containerRuntimeVersion": f"process://{__version__}",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": f"modelplane-{__version__}",
            "machineID": _first_line("/etc/machine-id"),
            "operatingSystem": "linux",
            "osImage": platform.platform(terse=True),
            "systemUUID": "",
        },
    }


async def register(client: Client, settings: NodeSettings) -> Object:
    """Create the Node or bring it up to date; return it as the server has it."""
    desired = build_node(settings)
    node = await client.get(resources.NODES, settings.name)
    if node is None:
        node = await client.create(desired)
    elif not desired["metadata"]["labels"].items() <= node["metadata"].get("labels", {}).items():
        labels_of_ours = {"metadata": {"labels": desired["metadata"]["labels"]}}
        node = await client.patch(resources.NODES, settings.name, labels_of_ours)
    body = {"status": build_status(settings, timestamps.format_now(), node.get("status", {}))}
    return await client.patch(resources.NODES, settings.name, body, kind="strategic", subresource="status")


async def keep_alive(
    client: Client, settings: NodeSettings, register_all: Callable[[], Awaitable[Object]]
) -> None:
    """Renew the Lease every ten seconds until cancelled.

    Calls ``register_all``, which returns the Node, at first and whenever the Node was deleted or no
    longer says what this machine says of itself: the controllers call a node lost that was silent
    for a while, as in a machine that slept, and leave it to the node to say that it is back.
    """
    problem = ""
    while True:
        try:
            node = await client.get(resources.NODES, settings.name)
            if node is None or not is_registered(node, settings):
                node = await register_all()
            await _renew(client, settings.name, node["metadata"]["uid"])
        except errors.KubernetesError as error:
            if str(error) != problem:
                problem = str(error)
                _log.warning('cannot keep node "%s" alive: %s', settings.name, problem)
            await asyncio.sleep(0.5)
        else:
            if problem:
                problem = ""
                _log.info('node "%s" is alive again', settings.name)
            await asyncio.sleep(10.0)


def is_registered(node: Mapping[str, Any], settings: NodeSettings) -> bool:
    """Return True if a Node has the labels, the port and the readiness that ``register`` sets."""
    desired, reported = build_node(settings)["metadata"]["labels"], node["metadata"].get("labels", {})
    status = node.get("status", {})
    ready = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}.get(
        "Ready"
    )
    endpoint = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {})
    return ready == "True" and endpoint.get("Port") == settings.port and desired.items() <= reported.items()


async def _renew(client: Client, name: str, uid: str) -> None:
    spec = {
        "holderIdentity": name,
        "leaseDurationSeconds": 40,
        "renewTime": timestamps.format_now_micro(),
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    changed = {"metadata": {"ownerReferences": [owner]}, "spec": spec}
    try:
        await client.patch(resources.LEASES, name, changed, LEASE_NAMESPACE)
    except errors.NotFound:
        metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        await client.create(lease)


def _condition(
    kind: str, value: str, reason: str, message: str, now: str, before: Mapping[str, Any]
) -> Object:
    former = before.get(kind, {})
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": former.get("lastTransitionTime", now) if former.get("status") == value else now,
    }


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""

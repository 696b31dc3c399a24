"""Registration of this machine's clusters with a fresh local fleet: everything that ``up`` applies.

The kinds, the identities' permissions, and each cluster of this machine published as hardware: an
InferenceClass of the devices found here and an InferenceCluster that offers them, with the
InferenceGateway in front of all. Everything is applied, so doing it again changes nothing; what a user
changed in the classes, the clusters or the gateway stays.
"""

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modelplane.api import labels
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.meta import SYSTEM_NAMESPACE, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_service import ModelService
from modelplane.api.schema.crd import crd
from modelplane.compose.kinds import COMPOSED
from modelplane.compose.readiness import is_true
from modelplane.controllers import fleet_resources
from modelplane.controllers.fleet_resources import resource_of
from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.local_devices import CPU_DRIVER, DiscoveredDevice, Share, discover
from modelplane.kubelet.volumes.provisioning import STORAGE_CLASS
from modelplane.local.home import Home
from modelplane.local.kubernetes import cluster_objects
from modelplane.local.kubernetes.cluster_objects import (
    apply_in_order,
    apply_together,
    gather_all,
    wait_until_established,
)
from modelplane.local.kubernetes.control_plane import ControlPlane, list_clusters, list_control_planes
from modelplane.local.settings import LocalSettings
from modelplane.local.supervision.processes import POOL

_READY_S = 60.0

_CREATED_FIRST = {kind_name(ModelDeployment), kind_name(ModelService)}
"""Kinds that a user creates first: an API server holds up creates for two seconds after it serves a kind."""

Report = Callable[[str], None]

GATEWAY: Object = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": kind_name(InferenceGateway),
    "metadata": {"name": "default"},
    "spec": {"backend": "Envoy"},
}


async def install(client: Client, home: Home, settings: LocalSettings, report: Report) -> None:
    """Make the control planes of a home a fleet, and return when it is ready for a model.

    ``client`` is of the fleet's own control plane; the API servers of the others must answer too.
    """
    serving = list_clusters(list_control_planes(home, settings))
    devices = {
        plane.node: discover(Share(max(plane.place, 1), len(serving), settings.cpu_devices))
        for plane in serving
    }
    report("Installing the CRDs")
    await gather_all([_install_kinds(client), *(_prepare(plane, devices[plane.node]) for plane in serving)])
    report("Registering this machine")
    secrets = (build_kubeconfig_secret(plane.node, plane.home.controller_kubeconfig) for plane in serving)
    await apply_together(client, secrets)
    names = [plane.node for plane in serving] if settings.register else []
    if names:
        await _create_missing(
            client,
            [GATEWAY, *(manifest for name in names for manifest in describe_hardware(name, devices[name]))],
        )
    report("Waiting until the fleet is ready")
    await _until_ready(client, names, serving)


async def _install_kinds(client: Client) -> None:
    # Only kinds that the controllers compose: objects of others would have no effect.
    first = [crd(kind) for kind in COMPOSED if kind.name in _CREATED_FIRST]
    others = [crd(kind) for kind in COMPOSED if kind.name not in _CREATED_FIRST]
    # The identities first: the controllers wait for their permissions, then for the kinds.
    await gather_all([apply_in_order(client, cluster_objects.build_fleet_roles()), _install(client, first)])
    await _install(client, others)


async def _install(client: Client, kinds: Sequence[Object]) -> None:
    await apply_together(client, kinds)
    await wait_until_established(client, [kind["metadata"]["name"] for kind in kinds])


async def _prepare(plane: ControlPlane, devices: Iterable[DiscoveredDevice]) -> None:
    async with Client.from_kubeconfig(str(plane.home.kubeconfig), known=fleet_resources.find_known) as client:
        await cluster_objects.install_cluster(client, plane.ports.workload_gateway, devices)


def build_kubeconfig_secret(cluster: str, kubeconfig: Path) -> Object:
    """Return the Secret by which the controllers reach a cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{cluster}-kubeconfig", "namespace": SYSTEM_NAMESPACE},
        "data": {"kubeconfig": base64.b64encode(kubeconfig.read_bytes()).decode()},
    }


def describe_hardware(cluster: str, devices: tuple[DiscoveredDevice, ...]) -> list[Object]:
    """Return the objects that are created once for a cluster; the platform team owns them then.

    Pods share a node whose processors are several devices.
    """
    shares = {"accounting": "Devices"} if sum(device.driver == CPU_DRIVER for device in devices) > 1 else {}
    return [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": kind_name(InferenceClass),
            "metadata": {"name": cluster},
            "spec": {"description": "This machine", "devices": group_devices(devices)},
        },
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": kind_name(InferenceCluster),
            "metadata": {"name": cluster, "labels": {labels.REGION: cluster}},
            "spec": {
                "cluster": {
                    "source": "Existing",
                    "existing": {
                        "secretRef": {"name": f"{cluster}-kubeconfig", "key": "kubeconfig"},
                        "cache": {"storageClassName": STORAGE_CLASS},
                    },
                },
                "servingStack": {"profile": "None"},
                "nodePools": [{"name": POOL, "className": cluster, "nodeCount": 1, **shares}],
            },
        },
    ]


async def _create_missing(client: Client, manifests: Iterable[Mapping[str, Any]]) -> None:
    async def create(manifest: Mapping[str, Any]) -> None:
        if await client.get(resource_of(manifest), manifest["metadata"]["name"]) is None:
            # Applied: a plain create of a kind that has just been installed is held up for two
            # seconds, so that every API server of a cluster knows the kind by then.
            await client.apply(manifest)

    await gather_all(create(manifest) for manifest in manifests)


def group_devices(devices: tuple[DiscoveredDevice, ...]) -> list[Object]:
    """Return the devices of a class, one entry for each run of devices that are alike."""
    counted: list[tuple[DiscoveredDevice, int]] = []
    for device in devices:
        for place, (alike, count) in enumerate(counted):
            if alike.drop_identity() == device.drop_identity():
                counted[place] = (alike, count + 1)
                break
        else:
            counted.append((device, 1))
    names = [alike.driver.split(".")[0] for alike, _ in counted]
    return [
        {
            "name": name if names.count(name) == 1 else f"{name}-{place}",
            "driver": alike.driver,
            "deviceClassName": alike.driver,
            "count": count,
            "attributes": alike.drop_identity().attributes,
            "capacity": {key: {"value": value} for key, value in alike.drop_identity().capacity.items()},
        }
        for place, (name, (alike, count)) in enumerate(zip(names, counted, strict=True))
    ]


async def _until_ready(client: Client, names: Iterable[str], serving: Sequence[ControlPlane]) -> None:
    needed = [(fleet_resources.INFERENCE_GATEWAYS, "default")]
    needed += [(fleet_resources.INFERENCE_CLUSTERS, name) for name in names]
    waiting = "nothing"
    try:
        async with asyncio.timeout(_READY_S):
            for resource, name in needed:
                # Do not wait for an object that was deleted.
                while (item := await client.get(resource, name)) is not None and not is_true(item, "Ready"):
                    waiting = f"{resource.kind} {name}"
                    await asyncio.sleep(0.1)
            # An API server writes its roles last, by which others than an administrator act.
            waiting = "the API server"
            while not await _is_complete(client):
                await asyncio.sleep(0.1)
            for plane in serving:
                waiting = f"Node {plane.node}"
                async with Client.from_kubeconfig(str(plane.home.kubeconfig)) as member:
                    while not (
                        await _is_complete(member)
                        and any(is_true(node, "Ready") for node in (await member.list(resources.NODES)).items)
                    ):
                        await asyncio.sleep(0.1)
    except TimeoutError:
        raise errors.Unreachable(
            f"{waiting} is not ready after {_READY_S:.0f} s: see `modelplane status`"
        ) from None


async def _is_complete(client: Client) -> bool:
    try:
        await client.get_raw("/readyz")
    except errors.ApiError:
        return False
    return True

"""A control plane and its inference cluster, which may be the same, for tests of attacks on them.

No node exists here: what counts is what is written.
"""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelplane.api.kinds import KINDS
from modelplane.api.schema.crd import crd
from modelplane.compose.readiness import condition_of
from modelplane.controllers import fleet_resources
from modelplane.kube import resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object, Resource
from modelplane.local.kubernetes import cluster_objects
from modelplane.proxy.proxies import GatewayDirectory
from support.controllers import running_controllers
from support.fleets import ControlPlane
from support.kinds import create_missing
from support.patience import eventually

API = "modelplane.ai/v1alpha1"


@dataclass(frozen=True, slots=True)
class Attacked:
    """An administrator's hands on the control plane, and what an attacker would see of it."""

    control_plane: ControlPlane
    client: Client
    cluster: Client
    """The administrator's client of the inference cluster."""

    @property
    def kubeconfig(self) -> Path:
        """The controllers' own."""
        return self.control_plane.home.controller_kubeconfig

    def controllers(self) -> AbstractAsyncContextManager[None]:
        """Run the controllers, with a gateway that no Envoy reads."""
        home = self.control_plane.home
        proxy = GatewayDirectory(home.envoy, "127.0.0.1:8080", lambda _directory, _files: False)
        return running_controllers(self.control_plane, proxy)

    async def deploy(self, name: str, namespace: str, **container: Any) -> None:
        """Apply a deployment of one replica, and its namespace if it is missing."""
        if await self.client.get(resources.NAMESPACES, namespace) is None:
            await self.client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
        engine = {"name": "engine", "image": "engine:1", **container}
        devices = [{"name": "gpu", "selectors": [{"cel": "true"}]}]
        member = {"nodeSelector": {"devices": devices}, "template": {"spec": {"containers": [engine]}}}
        spec = {"replicas": 1, "engines": [{"name": "engine", "members": [member]}]}
        await self.client.apply(
            {
                "apiVersion": API,
                "kind": "ModelDeployment",
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec,
            }
        )

    async def until_placed(self, name: str, namespace: str) -> None:
        """Wait until a deployment's workload is written."""

        async def written() -> bool:
            found = await self.cluster.list(resources.DEPLOYMENTS, namespace)
            return any(item["metadata"]["name"].startswith(name) for item in found.items)

        await eventually(written)

    async def workloads(self, namespace: str) -> set[str]:
        """Return the uids of the workloads in a namespace."""
        found = await self.cluster.list(resources.DEPLOYMENTS, namespace)
        return {item["metadata"]["uid"] for item in found.items}

    async def replica(self, namespace: str) -> str:
        """Return the name of the one replica in a namespace, once there is one."""

        async def is_placed() -> bool:
            return bool((await self.client.list(fleet_resources.MODEL_REPLICAS, namespace)).items)

        await eventually(is_placed)
        [replica] = (await self.client.list(fleet_resources.MODEL_REPLICAS, namespace)).items
        return str(replica["metadata"]["name"])

    async def until_said(
        self, resource: Resource, name: str, type_: str, text: str, namespace: str = "", status: str = ""
    ) -> Mapping[str, Any]:
        """Wait until a condition's message has a text; return the condition."""
        found: Mapping[str, Any] = {}

        async def is_said() -> bool:
            nonlocal found
            item = await self.client.get(resource, name, namespace or None)
            found = condition_of(item, type_) if item else {}
            return text in found.get("message", "") and status in ("", found.get("status"))

        try:
            await eventually(is_said)
        except TimeoutError:
            raise AssertionError(found) from None
        return found


@asynccontextmanager
async def attacked(
    control_plane: ControlPlane, cluster: ControlPlane | None = None
) -> AsyncIterator[Attacked]:
    """Prepare a control plane as a fleet of one cluster, named ``test``; by default its own."""
    place = cluster or control_plane
    async with _administrator(control_plane) as client, _administrator(place) as there:
        await create_missing(client, [crd(kind) for kind in KINDS])
        await create_missing(there, cluster_objects.load_gateway_api())
        for manifest in [*cluster_objects.build_fleet_roles(), *_fleet(place.home.controller_kubeconfig)]:
            await client.apply(manifest)
        for manifest in [*cluster_objects.build_cluster_roles(), *cluster_objects.build_gateway(8081)]:
            await there.apply(manifest)
        yield Attacked(control_plane, client, there)


def _administrator(plane: ControlPlane) -> Client:
    return Client.from_kubeconfig(str(plane.kubeconfig), known=fleet_resources.find_known)


def _fleet(kubeconfig: Path) -> list[Object]:
    device = {
        "name": "gpu",
        "driver": "test.example",
        "deviceClassName": "test.example",
        "capacity": {"memory": {"value": "24Gi"}},
    }
    return [
        _own("InferenceClass", {"devices": [device]}),
        {**_own("InferenceGateway", {"backend": "Envoy"}), "metadata": {"name": "default"}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "test-kubeconfig", "namespace": "modelplane-system"},
            "data": {"kubeconfig": base64.b64encode(kubeconfig.read_bytes()).decode()},
        },
        _own(
            "InferenceCluster",
            {
                "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "test-kubeconfig"}}},
                "servingStack": {"profile": "None"},
                "nodePools": [{"name": "pool", "className": "test", "nodeCount": 8}],
            },
        ),
    ]


def _own(kind: str, spec: Object) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": "test"}, "spec": spec}

"""A cluster of one control plane, the controllers beside it, and an administrator's hands.

No kubelet runs: pods are ready when a test says so.
"""

import base64
from typing import Any

from modelplane.compose.readiness import condition_of
from modelplane.kube import resources
from modelplane.kube.client import Client
from support.patience import eventually
from support.pod_reports import report


def of(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    """Return an object of a kind of Modelplane's."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def fleet_of(kubeconfig: bytes, backend: str) -> list[dict[str, Any]]:
    """Return the objects of a fleet whose one cluster has nodes of a device, and a backend."""
    device = {
        "name": "gpu",
        "driver": "test.example",
        "deviceClassName": "test.example",
        "capacity": {"memory": {"value": "24Gi"}},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kserve-kubeconfig", "namespace": "modelplane-system"},
        "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
    }
    gateway = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "inference-gateway", "namespace": "modelplane-system"},
        "spec": {
            "gatewayClassName": "modelplane",
            "listeners": [{"name": "http", "port": 8081, "protocol": "HTTP"}],
        },
    }
    cluster = {
        "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kserve-kubeconfig"}}},
        "servingStack": {"profile": "None", "backend": backend},
        "nodePools": [{"name": "pool", "className": "kserve", "nodeCount": 8}],
    }
    return [
        of("InferenceClass", "kserve", {"devices": [device]}),
        of("InferenceGateway", "default", {"backend": "Envoy"}),
        secret,
        gateway,
        of("InferenceCluster", "kserve", cluster),
    ]


class Bench:
    """An administrator's hands, in the namespace of a team."""

    def __init__(self, client: Client, team: str) -> None:
        self.client = client
        self.team = team

    async def found(self, resource: resources.Resource) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return list((await self.client.list(resource, self.team)).items)

    async def count(self, resource: resources.Resource, wanted: int) -> list[dict[str, Any]]:
        """Wait for a number of objects of a kind, and return them."""

        async def reached() -> bool:
            return len(await self.found(resource)) == wanted

        await eventually(reached)
        return await self.found(resource)

    async def serve(self, ready: bool = True) -> None:
        """Report every pod as ready or not, as a kubelet would."""

        async def some_pod() -> bool:
            return bool(await self.found(resources.PODS))

        await eventually(some_pod)
        for pod in await self.found(resources.PODS):
            await report(self.client, pod, ready=ready)

    async def condition(self, resource: resources.Resource, type_: str, status: str) -> str:
        """Wait until a condition of the first object of a kind has a status; return its message."""
        said: dict[str, Any] = {}

        async def reached() -> bool:
            for item in (await self.found(resource))[:1]:
                said.update(condition_of(item, type_))
            return said.get("status") == status

        await eventually(reached)
        return str(said.get("message", ""))

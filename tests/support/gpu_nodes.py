"""Nodes with devices that no kubelet has, and pods that claim them, on a real control plane."""

from modelplane.kube import errors, resources
from support.patience import eventually

DRIVER = "gpu.example.com"
SELECTOR = f'device.driver == "{DRIVER}"'
PER_NODE = 8
SLICES = resources.RESOURCE_SLICES


class Nodes:
    """Nodes of one pool, each with its devices published."""

    def __init__(self, client, pool, count):
        self._client = client
        self.pool = pool
        self.names = [f"{pool}-{number}" for number in range(count)]

    async def __aenter__(self):
        for name in self.names:
            await self._client.create(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {
                        "name": name,
                        "labels": {"modelplane.ai/pool": self.pool, "kubernetes.io/hostname": name},
                    },
                }
            )
            ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
            room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
            status = {"status": {"conditions": [ready], "capacity": room, "allocatable": room}}
            await self._client.patch(resources.NODES, name, status, kind="strategic", subresource="status")
            await self._client.create(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceSlice",
                    "metadata": {"name": name},
                    "spec": {
                        "driver": DRIVER,
                        "nodeName": name,
                        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                        "devices": [
                            {"name": f"gpu-{at}", "capacity": {"memory": {"value": "80Gi"}}}
                            for at in range(PER_NODE)
                        ],
                    },
                }
            )
        await eventually(self._untainted)
        return self

    async def _untainted(self):
        """Return whether the taint that every new node has until its condition was seen is gone from all."""
        nodes = [await self._client.get(resources.NODES, name) for name in self.names]
        return not any(each["spec"].get("taints") for each in nodes)

    async def __aexit__(self, *_):
        for name in self.names:
            await self._client.delete(SLICES, name)
            await self._client.delete(resources.NODES, name)


def claim_template(name, count):
    exactly = {"deviceClassName": DRIVER, "count": count, "selectors": [{"cel": {"expression": SELECTOR}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def pod(name, pool, count, gang):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"gang": gang}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "nodeSelector": {"modelplane.ai/pool": pool},
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "labelSelector": {"matchLabels": {"gang": gang}},
                            "topologyKey": "kubernetes.io/hostname",
                        }
                    ]
                }
            },
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": f"gpus-{count}"}],
            "containers": [
                {
                    "name": "engine",
                    "image": "example.invalid/none",
                    "resources": {"claims": [{"name": "devices"}]},
                }
            ],
        },
    }


async def unbound(client, namespace):
    pods = (await client.list(resources.PODS, namespace)).items
    return sorted(item["metadata"]["name"] for item in pods if not item["spec"].get("nodeName"))


async def create_pod(client, namespace, manifest):
    async def created():
        try:
            return await client.create(
                manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
            )
        except errors.Conflict:  # its claim is still being deleted
            return None

    await eventually(created)


def device_class():
    """Return the class of all devices of the driver."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": SELECTOR}}]},
    }

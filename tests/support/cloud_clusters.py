"""A small cluster of each cloud, as a platform team writes it."""

from typing import Any

from modelplane.api.clouds.cloud_rows import Cloud
from modelplane.api.meta import API_VERSION
from modelplane.kube.resources import Object

_RECIPES = {
    Cloud.GKE: {"machineType": "g2-standard-8"},
    Cloud.EKS: {"instanceType": "g6.xlarge"},
    Cloud.AKS: {"vmSize": "Standard_NV36ads_A10_v5"},
    Cloud.NEBIUS: {"platform": "gpu-l40s-a", "preset": "1gpu-8vcpu-32gb"},
    Cloud.VULTR: {"plan": "vcg-l40s-16c-180g-48vram"},
}
_SETTINGS: dict[Cloud, tuple[Object, str]] = {
    Cloud.GKE: ({"region": "us-central1", "project": "my-gcp-project"}, "us-central1-a"),
    Cloud.EKS: ({"region": "us-east-2"}, "us-east-2a"),
    Cloud.AKS: ({"location": "westeurope"}, "1"),
    Cloud.NEBIUS: ({"fileSystem": {"cloudInitSecret": "nebius-cloud-init"}}, ""),
    Cloud.VULTR: ({"region": "ewr"}, ""),
}


def class_name(cloud: Cloud) -> str:
    """Return the name of the class of a cloud."""
    return f"l4-{cloud.lower()}"


def class_of(cloud: Cloud, **device: Any) -> Object:
    """Return a class of nodes with one GPU; ``device`` has further fields of it."""
    recipe = {**_RECIPES[cloud], "accelerator": {"type": "nvidia-l4", "count": 1}}
    gpu = {"name": "gpu", "driver": "gpu.nvidia.com", "deviceClassName": "gpu.nvidia.com", **device}
    spec = {"provisioning": {"provider": str(cloud), cloud.lower(): recipe}, "devices": [gpu]}
    return _ours("InferenceClass", class_name(cloud), spec)


def cluster_of(cloud: Cloud, name: str = "", nodes: int = 1) -> Object:
    """Return a cluster with one pool, named like its cloud."""
    settings, zone = _SETTINGS[cloud]
    pool = {"name": "gpu", "className": class_name(cloud), "nodeCount": nodes}
    zones = {"zones": [zone]} if zone else {}
    spec = {"cluster": {"source": str(cloud), cloud.lower(): settings}, "nodePools": [{**pool, **zones}]}
    return _ours("InferenceCluster", name or cloud.lower(), spec)


def _ours(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}

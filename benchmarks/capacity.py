"""Memory and time of observed capacity: bytes of a node with its devices and claims, and one composition.

    python benchmarks/capacity.py --nodes 1000 --devices 8

Nodes, ResourceSlices and ResourceClaims have the sizes of real ones. Bytes are those that the copies of an
informer keep (``tracemalloc``), with facts only and whole.
"""

import argparse
import json
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

from modelplane.api.fields.cluster.devices import Device
from modelplane.api.fields.cluster.node_pools import Accounting, NodePool
from modelplane.compose.cluster.capacity_facts import facts_of, project
from modelplane.compose.cluster.observed_capacity import Cluster, observe

DRIVER = "gpu.nvidia.com"


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"{name:0>36}", "resourceVersion": str(hash(name) % 10**9), **more}


def node(name: str) -> dict[str, Any]:
    """Return a Node with the labels of a cloud and of feature discovery, and its list of images."""
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{at}": "true" for at in range(80)}
    images = [
        {"names": [f"registry.example.com/{name}/image-{at}@sha256:{at:064d}"], "sizeBytes": at}
        for at in range(50)
    ]
    conditions = [{"type": each, "status": "False", "message": "as expected " * 4} for each in "ABCD"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name, labels={**labels, "modelplane.ai/pool": "a"}),
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {"images": images, "conditions": [*conditions, {"type": "Ready", "status": "True"}]},
    }


def piece(name: str, devices: int) -> dict[str, Any]:
    """Return a ResourceSlice as NVIDIA's driver publishes it."""

    def device(at: int) -> dict[str, Any]:
        texts = {
            "uuid": f"GPU-{name}-{at:030d}",
            "productName": "NVIDIA H100 80GB HBM3",
            "brand": "Nvidia",
            "architecture": "Hopper",
            "type": "gpu",
            "resource.kubernetes.io/pciBusID": f"0000:{at:02d}:00.0",
        }
        versions = {"cudaComputeCapability": "9.0.0", "driverVersion": "580.126.20"}
        attributes = {key: {"string": value} for key, value in texts.items()}
        attributes |= {key: {"version": value} for key, value in versions.items()}
        return {
            "name": f"gpu-{at}",
            "attributes": attributes,
            "capacity": {"memory": {"value": "81559Mi"}},
        }

    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    published = [device(at) for at in range(devices)]
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": published}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": meta(f"{name}-slice"),
        "spec": spec,
    }


def claim(name: str, devices: int) -> dict[str, Any]:
    """Return the ResourceClaim of a pod that holds every device of a node."""
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": name, "device": f"gpu-{at}"} for at in range(devices)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta(f"{name}-claim", namespace="team"),
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": f"pod-{name}", "uid": name}],
        },
    }


def kept(
    nodes: int, devices: int, keep: Callable[[dict[str, Any]], dict[str, Any]]
) -> tuple[float, list[Any]]:
    """Return the bytes that copies keep of a node, and the copies, each decoded for itself."""
    tracemalloc.start()
    copies = [
        keep(json.loads(json.dumps(item)))
        for name in map("node-{}".format, range(nodes))
        for item in (node(name), piece(name, devices), claim(name, devices))
    ]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / nodes, copies


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--devices", type=int, default=8)
    chosen = parser.parse_args()
    whole, _ = kept(min(chosen.nodes, 100), chosen.devices, lambda item: item)
    facts, copies = kept(chosen.nodes, chosen.devices, project)
    by_kind = {
        kind: [each for each in copies if each["kind"] == kind]
        for kind in ("Node", "ResourceSlice", "ResourceClaim")
    }
    pool = NodePool(name="a", class_name="h100", node_count=chosen.nodes, accounting=Accounting.DEVICES)
    device = Device(name="gpu", driver=DRIVER, count=chosen.devices)
    given = Counter({("a", "team"): chosen.nodes * chosen.devices})
    began = time.perf_counter()
    observed = observe(pool, (device,), Cluster(*map(facts_of, by_kind.values()), given))
    took = time.perf_counter() - began
    figures = {
        "nodes": chosen.nodes,
        "devices per node": chosen.devices,
        "bytes per node": round(facts),
        "bytes per whole node": round(whole),
        "observe, ms": round(took * 1000, 1),
        "usable nodes": getattr(observed, "nodes", None),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

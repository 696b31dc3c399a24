"""A fleet in wire form, and what is scraped from a real server."""

import itertools
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from email.message import Message
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from modelplane.controllers.state_samples import ControllersState, samples
from modelplane.telemetry import metrics, server
from modelplane.telemetry.metric_definitions import METRICS, Program, Sample
from support.patience import PATIENCE_S

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""Values, by name and labels."""

_versions = itertools.count(1)


def well() -> str:
    return ""


def device(name: str = "gpu", count: int = 8) -> dict[str, Any]:
    return {
        "name": name,
        "driver": f"{name}.example",
        "deviceClassName": f"{name}.example",
        "count": count,
        "capacity": {"memory": {"value": "80Gi"}},
    }


def pool(name: str, nodes: int, *devices: Mapping[str, Any], accounting: str = "Nodes") -> dict[str, Any]:
    return {"name": name, "nodes": nodes, "accounting": accounting, "devices": list(devices) or [device()]}


def ready(status: str, reason: str = "Available", type_: str = "Ready") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def item(kind: str, name: str, *conditions: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """Return an object as the API server returns it."""
    status = {**parts.pop("status", {}), "conditions": list(conditions)}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "ml-team",
            "uid": f"{kind}-{name}",
            "resourceVersion": str(next(_versions)),
        },
        "status": status,
        **parts,
    }


def cluster(name: str, *pools: Mapping[str, Any]) -> dict[str, Any]:
    return item(
        "InferenceCluster",
        name,
        ready("True"),
        spec={"cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}}},
        status={"gpuPools": list(pools), "gateway": {"address": "192.0.2.1"}},
    )


def replica(name: str, on: str, in_pool: str, *, count: int = 1, copies: int = 1) -> dict[str, Any]:
    """Return a ModelReplica whose pods claim so many GPUs each."""
    return item(
        "ModelReplica",
        name,
        ready("False"),
        spec={
            "clusterName": on,
            "engines": [
                {
                    "name": "engine",
                    "copies": copies,
                    "members": [
                        {
                            "role": "Standalone",
                            "nodePoolName": in_pool,
                            "deviceRequests": [
                                {"name": "gpu", "deviceClassName": "gpu.example", "count": count}
                            ],
                            "template": {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}},
                        }
                    ],
                }
            ],
        },
    )


def deployment(name: str, replicas: int, *conditions: Mapping[str, Any], **counts: int) -> dict[str, Any]:
    return item(
        "ModelDeployment",
        name,
        *conditions,
        spec={"replicas": replicas},
        status={"replicas": counts} if counts else {},
    )


def fetch(address: str, path: str = "/metrics", **headers: str) -> tuple[int, Message, bytes]:
    request = urllib.request.Request(f"http://{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.headers, refusal.read()


def _observed(program: Program, state: ControllersState) -> Iterable[Sample]:
    if program is Program.CONTROLLER:
        return samples(state)
    return [
        Sample(metric, tuple(f"a {label}" for label in metric.labels), 1, "+Inf" if metric.buckets else "")
        for metric in METRICS
        if metric.observed and program in metric.programs
    ]


def scraped(program: Program, observe: Callable[[], ControllersState] = ControllersState) -> Series:
    """Return what a program exports over HTTP."""
    registry = metrics.build_registry(program, lambda: _observed(program, observe()))
    with server.serve("127.0.0.1:0", alive=well, ready=well, registry=registry) as serving:
        status, _, body = fetch(serving.address)
    assert status == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }

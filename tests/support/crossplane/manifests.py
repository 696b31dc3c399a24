"""Manifests of a fleet that is small enough to read."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import yaml

from modelplane.api.meta import API_VERSION
from modelplane.compose.clouds.table import RECIPES
from support import manifests
from support.crossplane.objects import Object
from support.goldens import GOLDENS
from support.plain_objects import copied

TEAM = "ml-team"
CLASS = "l4"
DEPLOYMENT = f"{TEAM}/qwen"
CACHE = f"{TEAM}/weights"
SERVICE = f"{TEAM}/chat"
ENDPOINT = f"{TEAM}/provider"
GATEWAY = "default"


def inference_class() -> Object:
    """Return a class of nodes with one GPU each."""
    return _one(manifests.CLASS)


def inference_cluster(name: str, *, nodes: int = 2, storage: str = "") -> Object:
    """Return a cluster that is there already, reached by its kubeconfig."""
    cluster = _one(manifests.cluster("a"))
    cluster["metadata"]["name"] = name
    cluster["spec"]["nodePools"][0]["nodeCount"] = nodes
    existing = cluster["spec"]["cluster"]["existing"]
    existing["secretRef"]["name"] = f"{name}-kubeconfig"
    if storage:
        existing["cache"] = {"storageClassName": storage}
    return cluster


def cloud_clusters() -> Iterator[Object]:
    """Yield a cluster of each cloud that is composed, as its golden case has it."""
    for recipe in RECIPES.values():
        owner: Object = GOLDENS.input(f"{recipe.type.__module__.rpartition('.')[2]}/plain")["owner"]
        del owner["metadata"]["uid"]
        yield owner


def serving_stack() -> Object:
    """Return a serving stack of a cluster that need not exist."""
    owner: Object = GOLDENS.input("serving_stack/standard")["owner"]
    del owner["metadata"]["uid"]
    return owner


def inference_gateway() -> Object:
    """Return the fleet's gateway."""
    return _ours("InferenceGateway", GATEWAY, {"backend": "Traefik"})


def model_deployment(*, replicas: int = 1, name: str = DEPLOYMENT, **spec: Any) -> Object:
    """Return a deployment of one engine on one GPU."""
    deployment = _one(manifests.DEPLOYMENT)
    deployment["metadata"]["namespace"], _, deployment["metadata"]["name"] = name.partition("/")
    deployment["spec"] |= {"replicas": replicas, **spec}
    return deployment


def image(deployment: Object, image_: str) -> list[Object]:
    """Return the engines of a deployment with another image."""
    engines: list[Object] = deployment["spec"]["engines"]
    engines[0]["members"][0]["template"]["spec"]["containers"][0]["image"] = image_
    return engines


def model_cache(*, secret: str = "") -> Object:
    """Return a cache of weights, whose download may need a token."""
    source: Object = {"repo": "Qwen/Qwen3-0.6B", "sizeGiB": 10}
    if secret:
        source["authSecret"] = {"name": secret, "key": "token"}
    return _ours("ModelCache", CACHE, {"source": "HuggingFace", "huggingFace": source})


def model_service(deployment: str = "qwen") -> Object:
    """Return a service in front of a deployment's replicas."""
    selector = {"matchLabels": {"modelplane.ai/deployment": deployment}}
    return _ours("ModelService", SERVICE, {"endpoints": [{"selector": selector}]})


def model_endpoint(url: str = "https://api.provider.example/v1") -> Object:
    """Return an endpoint at an outside provider."""
    return _ours("ModelEndpoint", ENDPOINT, {"url": url})


def model_key() -> Object:
    """Return an API key, by its hash."""
    return _ours("ModelKey", "ci", {"hashes": [{"sha256": "ab" * 32}]})


def inference_autoscaler() -> Object:
    """Return an autoscaler of the deployment."""
    targets = {"requestsPerReplica": 4}
    spec = {"deploymentRef": {"name": "qwen"}, "minReplicas": 1, "maxReplicas": 4, "targets": targets}
    return _ours("InferenceAutoscaler", "qwen", spec)


def device_quota(
    nominal: int = 100, name: str = "team", namespaces: Sequence[str] = (TEAM,), **spec: Any
) -> Object:
    """Return a quota of namespaces."""
    limits = [{"className": CLASS, "nominalQuota": nominal}]
    return _ours("DeviceQuota", name, {"namespaces": list(namespaces), "classes": limits, **spec})


def namespace(name: str) -> Object:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def secret(name: str, **data: str) -> Object:
    """Return a Secret; the values are base64."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": TEAM},
        "data": data,
    }


def _ours(kind: str, name: str, spec: Object) -> Object:
    place, _, last = name.rpartition("/")
    metadata = {"name": last} | ({"namespace": place} if place else {})
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _one(text: str) -> Object:
    document: Object = copied(_parsed(text))
    return document


@cache
def _parsed(text: str) -> Object:
    document: Object = yaml.safe_load(text)
    return document

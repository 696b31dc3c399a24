"""Deployments of the checkpoints of the sizing tests on fleets of the catalogue's classes."""

import functools
import json
from collections.abc import Iterable
from typing import Any

from modelplane.api.schema.decode import encode
from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.catalogue.inference_classes import build_class
from modelplane.offline.files.yaml_text import to_yaml
from modelplane.offline.models.model_manifests import Engine, ModelSettings, make_name
from modelplane.offline.models.proposals import Proposed, propose
from modelplane.sizing.architecture import parse_architecture
from modelplane.sizing.loaded_weights import PRECISIONS, sum_weights
from modelplane.sizing.memory import Load, Model
from support.checkpoint_shapes import CHECKPOINTS

Object = dict[str, Any]


@functools.cache
def model(name: str, quantization: str = "") -> Model:
    """Return a model, or as it is if it were converted."""
    found = parse_architecture(json.dumps(CHECKPOINTS[name].config).encode())
    precision = PRECISIONS[quantization] if quantization else None
    return Model(
        found,
        sum_weights(found, CHECKPOINTS[name].tensors(), precision),
        precision.quantization if precision else found.quantization,
    )


def wanted(checkpoint: str, context: int, **fields: Any) -> ModelSettings:
    """Return a deployment of a repository of the hub."""
    converted = fields.get("converted_to", "")
    defaults: dict[str, Any] = {
        "model": model(checkpoint, converted),
        "name": make_name(checkpoint),
        "namespace": "ml-team",
        "replicas": 1,
        "context": context,
        "engine": Engine.VLLM,
        "image": "",
        "repo": checkpoint,
        "revision": "",
        "claim": "",
        "converted_to": "",
        "token_secret": "",
    }
    return ModelSettings(**(defaults | fields))


def pool(name: str, class_name: str, *, nodes: int = 4, price: str = "") -> Object:
    """Return a pool of a cluster."""
    pricing = (
        {"pricing": {"currency": "USD", "devices": [{"name": "gpu", "perHour": price}]}} if price else {}
    )
    return {"name": name, "className": class_name, "nodeCount": nodes, **pricing}


def fleet(pools: Iterable[Object], *, storage: bool = True) -> tuple[Object, ...]:
    """Return one cluster with pools, and their classes of the catalogue."""
    found, pools = load_catalogue(), list(pools)
    classes = dict.fromkeys(each["className"] for each in pools)
    existing: Object = {"secretRef": {"name": "kubeconfig"}}
    if storage:
        existing["cache"] = {"storageClassName": "shared"}
    cluster = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "own"},
        "spec": {"cluster": {"source": "Existing", "existing": existing}, "nodePools": pools},
    }
    return (*(encode(build_class(found, found.machines[each])) for each in classes), cluster)


def proposed(
    deployment: ModelSettings, objects: Iterable[Object], *, concurrency: int = 1, cache: bool = True
) -> Proposed:
    """Return the proposal for a deployment on a fleet."""
    return propose(deployment, Load(deployment.context, concurrency), objects, use_cache=cache)


def as_text(manifests: Iterable[Any]) -> str:
    """Return manifests as YAML."""
    return "---\n".join(to_yaml(each) for each in manifests)

"""Kinds, fields and words of Modelplane's earlier API shapes, with their current names.

Manifests of those shapes still exist, and a current name that is merely similar would mislead.
"""

import re
from collections.abc import Mapping
from typing import Final

from modelplane.offline.diagnostics import Path

KINDS: Final[Mapping[str, str]] = {
    "ClusterModel": "ModelDeployment",
    "InferenceEnvironment": "InferenceCluster",
    "Model": "ModelDeployment",
    "ModelPlacement": "ModelReplica",
}
"""Kinds by former name."""

WORDS: Final[Mapping[str, str]] = {
    "AWS": "EKS",
    "Azure": "AKS",
    "BYO": "Existing",
    "BYOC": "Existing",
    "CoreWeave": "Existing",
    "GCP": "GKE",
    "Google": "GKE",
}
"""Sources of a cluster by other names for them."""

_ENGINE: Final = "spec.engines[].members[].template.spec.containers[0]"
_DEVICES: Final = "spec.engines[].members[].nodeSelector.devices"
_WEIGHTS: Final = f"the engine's --model in {_ENGINE}.args, or a ModelCache that spec.modelCacheRef names"
_PARALLEL: Final = (
    f"the engine's own flags in {_ENGINE}.args, and members Leader and Worker for several nodes"
)
_PHASE: Final = "spec.engines[], one engine with phase Prefill and one with Decode"
_HARDWARE: Final = "spec.devices of the InferenceClass that className names"
_SIZES: Final = {"vram": _DEVICES, "resources": _DEVICES, "nodeSelector": _DEVICES, "poolSelector": _DEVICES}

_DEPLOYMENT: Final[Mapping[str, str]] = {
    **_SIZES,
    "capabilities": _DEVICES,
    "clusters": "spec.clusterSelector",
    "decode": _PHASE,
    "engine": _ENGINE,
    "environmentSelector": "spec.clusterSelector",
    "environments": "spec.clusterSelector",
    "huggingFace": _WEIGHTS,
    "instances": "spec.engines[].copies",
    "model": _WEIGHTS,
    "modelRef": _WEIGHTS,
    "parallelism": _PARALLEL,
    "prefill": _PHASE,
    "profiles": "a ModelDeployment for each, behind one ModelService",
    "recipe": "spec.engines[]",
    "replicaTopology": "spec.engines[].members[]",
    "requires": _DEVICES,
    "scaling": "spec.replicas, which an autoscaler sets by the scale subresource",
    "autoscaling": "spec.replicas, which an autoscaler sets by the scale subresource",
    "source": _WEIGHTS,
    "topology": _PARALLEL,
    "workers": "spec.engines[].members[]",
}

_POOL: Final[Mapping[str, str]] = {
    "acceleratorCount": _HARDWARE,
    "acceleratorType": _HARDWARE,
    "capabilities": _HARDWARE,
    "class": "spec.nodePools[].className",
    "labels": "metadata.labels of the InferenceCluster, which clusterSelector reads",
    "maxNodes": "spec.nodePools[].maxNodeCount",
    "minNodes": "spec.nodePools[].minNodeCount",
    "nodeSelector": "the label modelplane.ai/pool of the nodes",
    "nodes": "spec.nodePools[].nodeCount",
    "resources": _HARDWARE,
    "supportedArchitectures": _HARDWARE,
}

_FIELDS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("ModelDeployment", "spec"): _DEPLOYMENT,
    ("ModelDeployment", "spec.template"): {
        "containers": "spec.template.spec.engines[].members[].template.spec"
    },
    ("ModelReplica", "spec"): {
        "engine": _ENGINE,
        "inferenceClusterRef": "spec.clusterName",
        "inferenceEnvironmentRef": "spec.clusterName",
        "topology": _PARALLEL,
        "workers": "spec.engines[].members[]",
    },
    ("InferenceCluster", "spec"): {
        "capabilities": _HARDWARE,
        "instanceType": _HARDWARE,
        "pools": "spec.nodePools",
        "provider": "spec.cluster.source",
    },
    ("InferenceCluster", "spec.cluster"): {"instanceType": _HARDWARE, "provider": "spec.cluster.source"},
    ("InferenceCluster", "spec.cluster.existing"): {
        "instanceType": _HARDWARE,
        "provider": "a label of the InferenceCluster",
    },
    ("InferenceCluster", "spec.nodePools"): _POOL,
    ("InferenceClass", "spec"): {
        "attributes": "spec.devices[].attributes",
        "capabilities": "spec.devices[].attributes",
        "capacity": "spec.devices[].capacity",
        "gpu": "spec.devices[]",
        "resources": "spec.devices[]",
    },
    ("ModelService", "spec"): {
        "backends": "spec.endpoints[]",
        "routes": "spec.endpoints[]",
        "selector": "spec.endpoints[].selector",
    },
    ("ModelEndpoint", "spec"): {"api": "nothing: every endpoint speaks the OpenAI API"},
}
"""Fields of current kinds by kind and path, each by its former name."""


def field(kind: str, path: Path) -> str:
    """Return the current name of a field of an earlier shape; empty if it was not a field."""
    place = ".".join(step for step in path[:-1] if isinstance(step, str))
    return _FIELDS.get((kind, place), {}).get(str(path[-1]), "")


def home(today: str) -> Path:
    """Return the field that replaces a former one, as far as it is of the same object."""
    found = re.match(r"spec(\.\w+)*(?=[\[,]|$)", today)
    return tuple(found[0].split(".")) if found else ()

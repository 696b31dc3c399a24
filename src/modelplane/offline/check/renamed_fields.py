"""Kinds, fields and cluster sources of Modelplane's earlier versions, and their replacements.

Users still find manifests of those versions. A suggestion by similarity alone would mislead them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from modelplane.offline.files.diagnostics import Path

KINDS: Final[Mapping[str, str]] = {
    "ClusterModel": "ModelDeployment",
    "InferenceEnvironment": "InferenceCluster",
    "Model": "ModelDeployment",
    "ModelPlacement": "ModelReplica",
}
"""Kinds by their former name."""

CLUSTER_SOURCES: Final[Mapping[str, str]] = {
    "AWS": "EKS",
    "Azure": "AKS",
    "BYO": "Existing",
    "BYOC": "Existing",
    "CoreWeave": "Existing",
    "GCP": "GKE",
    "Google": "GKE",
}
"""Values of spec.cluster.source by other names in use."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """The replacement of a former field, as a clause, and its path if it is in the same object.

    A position in the path stands for any position in that list.
    """

    text: str
    path: Path = ()


def _now(path: str, text: str = "{}") -> Replacement:
    """Return the replacement by a field of the same object."""
    return Replacement(f"the current name is {text.format(path)}", tuple(_steps(path)))


def _steps(path: str) -> Iterator[str | int]:
    for step in path.split("."):
        name, is_list, _ = step.partition("[")
        yield name
        if is_list:
            yield 0


def _elsewhere(text: str) -> Replacement:
    """Return the replacement by a field of another object."""
    return Replacement(f"the current name is {text}")


_CONTAINER: Final = "spec.engines[].members[].template.spec.containers[0]"
_ENGINE: Final = _now(_CONTAINER)
_ENGINES: Final = _now("spec.engines[]")
_MEMBERS: Final = _now("spec.engines[].members[]")
_DEVICES: Final = _now("spec.engines[].members[].nodeSelector.devices")
_WEIGHTS: Final = _now(
    f"{_CONTAINER}.args", "the engine's --model in {}, or a ModelCache that spec.modelCacheRef names"
)
_PARALLEL: Final = _now(
    f"{_CONTAINER}.args", "the engine's own flags in {}, and members Leader and Worker for several nodes"
)
_PHASE: Final = _now("spec.engines[]", "{}, one engine with phase Prefill and one with Decode")
_SCALE: Final = _now("spec.replicas", "{}, which an autoscaler sets by the scale subresource")
_PROFILES: Final = _now("spec.engines[]", "a ModelDeployment for each, behind one ModelService")
_HARDWARE: Final = _elsewhere("spec.devices of the InferenceClass that className names")
_SIZES: Final = dict.fromkeys(("vram", "resources", "nodeSelector", "poolSelector"), _DEVICES)

_DEPLOYMENT: Final[Mapping[str, Replacement]] = {
    **_SIZES,
    "capabilities": _DEVICES,
    "clusters": _now("spec.clusterSelector"),
    "decode": _PHASE,
    "engine": _ENGINE,
    "environmentSelector": _now("spec.clusterSelector"),
    "environments": _now("spec.clusterSelector"),
    "huggingFace": _WEIGHTS,
    "instances": _now("spec.engines[].copies"),
    "model": _WEIGHTS,
    "modelRef": _WEIGHTS,
    "parallelism": _PARALLEL,
    "prefill": _PHASE,
    "profiles": _PROFILES,
    "recipe": _ENGINES,
    "replicaTopology": _MEMBERS,
    "requires": _DEVICES,
    "scaling": _SCALE,
    "autoscaling": _SCALE,
    "source": _WEIGHTS,
    "topology": _PARALLEL,
    "workers": _MEMBERS,
}

_POOL: Final[Mapping[str, Replacement]] = {
    "acceleratorCount": _HARDWARE,
    "acceleratorType": _HARDWARE,
    "capabilities": _HARDWARE,
    "class": _now("spec.nodePools[].className"),
    "labels": _now("metadata.labels", "{} of the InferenceCluster, which clusterSelector reads"),
    "maxNodes": _now("spec.nodePools[].maxNodeCount"),
    "minNodes": _now("spec.nodePools[].minNodeCount"),
    "nodeSelector": _elsewhere("the label modelplane.ai/pool of the nodes"),
    "nodes": _now("spec.nodePools[].nodeCount"),
    "resources": _HARDWARE,
    "supportedArchitectures": _HARDWARE,
}

_FIELDS: Final[Mapping[tuple[str, str], Mapping[str, Replacement]]] = {
    ("ModelDeployment", "spec"): _DEPLOYMENT,
    ("ModelDeployment", "spec.template"): {
        "containers": _now("spec.template.spec.engines[].members[].template.spec")
    },
    ("ModelReplica", "spec"): {
        "engine": _ENGINE,
        "inferenceClusterRef": _now("spec.clusterName"),
        "inferenceEnvironmentRef": _now("spec.clusterName"),
        "topology": _PARALLEL,
        "workers": _MEMBERS,
    },
    ("InferenceCluster", "spec"): {
        "capabilities": _HARDWARE,
        "instanceType": _HARDWARE,
        "pools": _now("spec.nodePools"),
        "provider": _now("spec.cluster.source"),
    },
    ("InferenceCluster", "spec.cluster"): {
        "instanceType": _HARDWARE,
        "provider": _now("spec.cluster.source"),
    },
    ("InferenceCluster", "spec.cluster.existing"): {
        "instanceType": _HARDWARE,
        "provider": _now("metadata.labels", "a label of the InferenceCluster"),
    },
    ("InferenceCluster", "spec.nodePools"): _POOL,
    ("InferenceClass", "spec"): {
        "attributes": _now("spec.devices[].attributes"),
        "capabilities": _now("spec.devices[].attributes"),
        "capacity": _now("spec.devices[].capacity"),
        "gpu": _now("spec.devices[]"),
        "resources": _now("spec.devices[]"),
    },
    ("ModelService", "spec"): {
        "backends": _now("spec.endpoints[]"),
        "routes": _now("spec.endpoints[]"),
        "selector": _now("spec.endpoints[].selector"),
    },
    ("ModelEndpoint", "spec"): {
        "api": Replacement("removed: requests are passed through unchanged"),
    },
}
"""Replacements by kind and place, each by the former name of the field."""


def find_replacement(kind: str, path: Path) -> Replacement | None:
    """Return the replacement of a field of an earlier version; None if it was no such field."""
    place = ".".join(step for step in path[:-1] if isinstance(step, str))
    return _FIELDS.get((kind, place), {}).get(str(path[-1]))

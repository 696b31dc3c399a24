"""Replicas as tests of composition hold them: an engine is a few words."""

from collections.abc import Mapping
from typing import Any

from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Blocked, Composition, Request
from modelplane.compose.facts import ReplicaFacts
from modelplane.compose.replica.model_replica import compose, requirements

CLAIM = ({"name": "gpu", "deviceClassName": "gpu.nvidia.com"},)


def member(
    role: str = "Standalone", *, claims: bool = True, pool: str = "h200", **container: Any
) -> dict[str, Any]:
    """Return one member, in wire form."""
    engine = {"name": "engine", "image": "vllm/vllm-openai:v0.23.0", **container}
    placed: dict[str, Any] = {
        "role": role,
        "nodePoolName": pool,
        "template": {"spec": {"containers": [engine]}},
    }
    return placed | ({"deviceRequests": list(CLAIM)} if claims else {})


def engine(name: str = "qwen", *members: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """Return one engine, in wire form: of one pod, unless members are given."""
    return {"name": name, "members": list(members) or [member()], **settings}


def gang(name: str = "qwen", **settings: Any) -> dict[str, Any]:
    """Return an engine of a leader and a worker."""
    return engine(name, member("Leader"), member("Worker"), **settings)


def manifest(*engines: Mapping[str, Any], name: str = "qwen-demo-d8871", **spec: Any) -> dict[str, Any]:
    """Return a ModelReplica on cluster ``east``, in wire form."""
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": "ml-team", "uid": "uid", "generation": 1},
        "spec": {"clusterName": "east", "engines": list(engines) or [engine()], **spec},
    }


def replica(*engines: Mapping[str, Any], **fields: Any) -> ModelReplica:
    """Return a ModelReplica on cluster ``east``."""
    return decode_as(ModelReplica, manifest(*engines, **fields))


def cluster(
    *, capabilities: Mapping[str, bool] | None = None, pools: tuple[str, ...] = ("h200",)
) -> dict[str, Any]:
    """Return the InferenceCluster ``east``, which can do everything unless told otherwise."""
    able = {"dra": True, "leaderWorkerSet": True, "inferencePool": True, "llmInferenceService": True}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "east"},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}},
            "nodePools": [{"name": pool, "className": pool} for pool in pools],
        },
        "status": {"capabilities": able}
        if capabilities is None
        else {"capabilities": {**able, **capabilities}},
    }


def composed(
    owner: ModelReplica, observed: Mapping[str, Any] | None = None, /, **required: Any
) -> Composition:
    """Return what a replica composes where nothing is found but what is given."""
    found: dict[str, Any] = {requirement.key: () for requirement in requirements(owner)}
    found["cluster"] = (cluster(),)
    decided = compose(Request(owner, observed or {}, found | required, ReplicaFacts()))
    assert isinstance(decided, Composition)
    return decided


def blocked(owner: ModelReplica, **required: Any) -> Blocked:
    """Return why nothing is composed for a replica."""
    found: dict[str, Any] = {requirement.key: () for requirement in requirements(owner)}
    decided = compose(Request(owner, {}, found | {"cluster": (cluster(),)} | required, ReplicaFacts()))
    assert isinstance(decided, Blocked)
    return decided

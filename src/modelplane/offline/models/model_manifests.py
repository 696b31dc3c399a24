"""Manifests that deploy a model: its ModelDeployment, its ModelService and, with a cache, its ModelCache."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.fields.cache_sources import CacheFiles
from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.api.fields.pods.engines import Role
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Model as MetaModel, Object
from modelplane.api.model_cache import CacheSource, ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_service import ModelService
from modelplane.offline.models.nominal_memory import describe_missed_cards
from modelplane.sizing.architecture import Quantization
from modelplane.sizing.hardware import Node, Served, choose_capability
from modelplane.sizing.memory import Model
from modelplane.sizing.splits import Split


class Engine(StrEnum):
    """An engine that loads safetensors."""

    VLLM = "vllm"
    SGLANG = "sglang"


_AMD: Final = "gpu.amd.com"
_IMAGES: Final[Mapping[tuple[Engine, bool], str]] = {
    (Engine.VLLM, False): "vllm/vllm-openai:v0.23.0",
    (Engine.VLLM, True): "vllm/vllm-openai-rocm:v0.23.0",
    (Engine.SGLANG, False): "lmsysorg/sglang:v0.5.12.post1-cu129",
}
"""Images by engine, and whether the devices are AMD's."""
_HOST_IP: Final[Object] = {
    "name": "VLLM_HOST_IP",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}


@dataclass(frozen=True, slots=True)
class Command:
    """The parts of an engine's command line that do not depend on the node."""

    engine: Engine
    image: str
    model: str
    """A path, or a repository of the hub."""
    revision: str
    served_name: str
    context: int
    quantization: str
    """Format to which the engine converts the weights; empty to serve them as they are."""
    token_secret: str
    """Name of the Secret with a token of the hub; empty without one."""


def choose_image(engine: Engine, driver: str) -> str:
    """Return the image of an engine for the devices of a driver; empty if none is known."""
    return _IMAGES.get((engine, driver == _AMD), "")


def build_standalone(command: Command, split: Split) -> Object:
    """Return the engine of one pod."""
    if command.engine is Engine.VLLM:
        return _container(command, args=[f"--model={command.model}", *_vllm(command, split)])
    program = ["python3", "-m", "sglang.launch_server"]
    return _container(
        command, command=program, args=[f"--model-path={command.model}", *_sglang(command, split)]
    )


def build_gang_member(command: Command, split: Split, *, is_leader: bool) -> Object:
    """Return vLLM in a pod of several, each with a stage of the pipeline."""
    rank, last = ("0", "--port=8000") if is_leader else ("$(MODELPLANE_RANK)", "--headless")
    words = [
        shlex.join(["exec", "vllm", "serve", command.model, *_vllm(command, split)]),
        f"--pipeline-parallel-size={split.pipeline}",
        "--distributed-executor-backend=mp",
        f"--nnodes={split.pipeline}",
        f"--node-rank={rank}",
        "--master-addr=$(MODELPLANE_LEADER_ADDRESS)",
        last,
    ]
    return _container(command, _HOST_IP, command=["/bin/sh", "-c", " ".join(words)])


def _vllm(command: Command, split: Split) -> Iterator[str]:
    yield f"--served-model-name={command.served_name}"
    yield f"--max-model-len={command.context}"
    if command.revision:
        yield f"--revision={command.revision}"
    if split.tensor > 1:
        yield f"--tensor-parallel-size={split.tensor}"
    if split.expert:
        yield "--enable-expert-parallel"
    if command.quantization:
        yield f"--quantization={command.quantization}"


def _sglang(command: Command, split: Split) -> Iterator[str]:
    yield f"--served-model-name={command.served_name}"
    yield f"--context-length={command.context}"
    if command.revision:
        yield f"--revision={command.revision}"
    if split.tensor > 1:
        yield f"--tp-size={split.tensor}"
    if split.expert:
        yield f"--ep-size={split.tensor}"
    if command.quantization:
        yield f"--quantization={command.quantization}"
    yield "--host=0.0.0.0"
    yield "--port=8000"


def _container(of: Command, /, *variables: Object, **fields: list[str]) -> Object:
    container = {"name": "engine", "image": of.image, **fields}
    env = [*variables]
    if of.token_secret:
        reference = {"name": of.token_secret, "key": "HF_TOKEN"}
        env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    return {**container, "env": env} if env else container


MOUNTED: Final = "/mnt/models"
"""Path of a ModelCache in the pods of engines."""
LONGEST_NAME: Final = 52
"""Maximum length of a name, so that the names of pods have room for a suffix."""
_MIB: Final = 2**20
_GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """A deployment of a model, apart from the hardware."""

    model: Model
    name: str
    namespace: str
    replicas: int
    context: int
    engine: Engine
    image: str
    repo: str
    """Repository of the hub; empty for a folder."""
    revision: str
    claim: str
    """PersistentVolumeClaim that has the files of a folder; empty for a repository."""
    converted_to: str
    """Format to which the engine converts the weights; empty to serve them as they are."""
    token_secret: str
    """Secret with a token of the hub; empty without one."""


def make_name(model: str) -> str:
    """Return a name for the objects of a model: the last part of its name, as a DNS label."""
    last = model.rstrip("/").rpartition("/")[2].lower()
    label = re.sub(r"[^a-z0-9]+", "-", last)[:LONGEST_NAME].strip("-")
    return label if label[:1].isalpha() else f"model-{label}".rstrip("-")


def build_manifests(settings: ModelSettings, served: Served, *, cached: bool) -> tuple[Object, ...]:
    """Return the manifests for one kind of hardware, in the order in which to apply them."""
    selector = {"matchLabels": {labels.DEPLOYMENT: settings.name}}
    spec: dict[str, Any] = {"replicas": settings.replicas}
    if served.price is not None:
        spec["placement"] = {"policy": str(PlacementPolicy.CHEAPEST)}
    if cached:
        spec["modelCacheRef"] = {"name": settings.name}
    spec["engines"] = [{"name": settings.name, "members": _members(settings, served, cached=cached)}]
    objects = (
        _object(ModelDeployment, settings, spec),
        _object(ModelService, settings, {"endpoints": [{"selector": selector}]}),
    )
    return (_cache(settings), *objects) if cached else objects


def _cache(settings: ModelSettings) -> Object:
    if settings.claim:
        volume = {"claimName": settings.claim}
        spec = {"source": str(CacheSource.PERSISTENT_VOLUME_CLAIM), "persistentVolumeClaim": volume}
        return _object(ModelCache, settings, spec)
    hub: dict[str, Any] = {"repo": settings.repo, "files": str(CacheFiles.SAFETENSORS)}
    if settings.revision:
        hub["revision"] = settings.revision
    if settings.token_secret:
        hub["authSecret"] = {"name": settings.token_secret}
    return _object(ModelCache, settings, {"source": str(CacheSource.HUGGING_FACE), "huggingFace": hub})


def _members(settings: ModelSettings, served: Served, *, cached: bool) -> list[Object]:
    command = Command(
        engine=settings.engine,
        image=settings.image or choose_image(settings.engine, served.node.driver),
        model=MOUNTED if cached else settings.repo,
        revision="" if cached else settings.revision,
        served_name=settings.name,
        context=settings.context,
        quantization=settings.converted_to,
        token_secret="" if cached else settings.token_secret,
    )
    split = served.split
    request = _device_request(served.node, split.tensor, served.memory.gpu, settings.model.quantization)
    needs = {"nodeSelector": {"devices": [request]}}
    if split.pipeline == 1:
        return [{"role": str(Role.STANDALONE), **needs, "template": _pod(build_standalone(command, split))}]
    workers = {"nodes": split.pipeline - 1}
    leader, worker = (
        _pod(build_gang_member(command, split, is_leader=is_leader)) for is_leader in (True, False)
    )
    return [
        {"role": str(Role.LEADER), **needs, "template": leader},
        {"role": str(Role.WORKER), "worker": workers, **needs, "template": worker},
    ]


def _device_request(node: Node, count: int, needed_bytes: int, quantization: Quantization | None) -> Object:
    """Return a request for devices like those of a node, with at least the memory that each needs."""
    driver = node.driver
    by_memory = [
        f'device.driver == "{driver}" && '
        f'device.capacity["{driver}"].memory.compareTo(quantity("{amount}")) >= 0'
        for amount in _amounts(node, needed_bytes)
    ]
    # In the largest unit that no card just misses.
    selectors = [
        next((selector for selector in by_memory if not describe_missed_cards([selector])), by_memory[-1])
    ]
    if capability := choose_capability(node, quantization):
        version = ".".join(map(str, (*capability, 0)))
        selectors.append(
            f'device.attributes["{driver}"].cudaComputeCapability.compareTo(semver("{version}")) >= 0'
        )
    if count > 1 and node.type:  # partitions of a GPU cannot work together
        selectors.append(f'device.attributes["{driver}"].type == "{node.type}"')
    return {"name": "gpu", "count": count, "selectors": [{"cel": selector} for selector in selectors]}


def _amounts(node: Node, needed_bytes: int) -> Iterator[str]:
    """Yield amounts between the required one and that of the device."""
    for unit, size in (("Gi", _GIB), ("Mi", _MIB)):
        amount = -(-needed_bytes // size)
        if amount * size <= node.memory:
            yield f"{amount}{unit}"
    yield str(needed_bytes)


def _pod(container: Object) -> Object:
    return {"spec": {"containers": [container]}}


def _object(type_: type[MetaModel], settings: ModelSettings, spec: Mapping[str, Any]) -> Object:
    kind = kind_of(type_)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": settings.name, "namespace": settings.namespace},
        "spec": dict(spec),
    }

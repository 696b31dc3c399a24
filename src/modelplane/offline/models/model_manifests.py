"""Manifests that deploy a model: its ModelDeployment, its ModelService and, with a cache, its ModelCache."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.fields.cache_sources import CacheFiles
from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.api.fields.pods.engines import Role
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Model as MetaModel
from modelplane.api.meta import Object
from modelplane.api.model_cache import CacheSource, ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_service import ModelService
from modelplane.offline.models.engine_containers import (
    Command,
    Engine,
    build_gang_member,
    build_standalone,
    choose_image,
)
from modelplane.offline.models.nominal_memory import describe_missed_cards
from modelplane.sizing.architecture import Quantization
from modelplane.sizing.hardware import Node, Served, choose_capability
from modelplane.sizing.memory import Model

MOUNTED: Final = "/mnt/models"
"""Path of a ModelCache in the pods of engines."""
LONGEST_NAME: Final = 52
"""Characters of a name, of which the names of pods still have room for a suffix."""
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
    objects = (_deployment(settings, served, cached=cached), _service(settings))
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


def _deployment(settings: ModelSettings, served: Served, *, cached: bool) -> Object:
    spec: dict[str, Any] = {"replicas": settings.replicas}
    if served.price is not None:
        spec["placement"] = {"policy": str(PlacementPolicy.CHEAPEST)}
    if cached:
        spec["modelCacheRef"] = {"name": settings.name}
    spec["engines"] = [{"name": settings.name, "members": _members(settings, served, cached=cached)}]
    return _object(ModelDeployment, settings, spec)


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
    selectors = [_memory_selector(node, needed_bytes)]
    if capability := choose_capability(node, quantization):
        version = ".".join(map(str, (*capability, 0)))
        selectors.append(
            f'device.attributes["{driver}"].cudaComputeCapability.compareTo(semver("{version}")) >= 0'
        )
    if count > 1 and node.type:  # partitions of a GPU cannot work together
        selectors.append(f'device.attributes["{driver}"].type == "{node.type}"')
    return {"name": "gpu", "count": count, "selectors": [{"cel": selector} for selector in selectors]}


def _memory_selector(node: Node, needed_bytes: int) -> str:
    """Return the selector by driver and memory, in the largest unit that no card just misses."""
    written = [_selector(node.driver, amount) for amount in _amounts(node, needed_bytes)]
    return next((selector for selector in written if not describe_missed_cards([selector])), written[-1])


def _amounts(node: Node, needed_bytes: int) -> Iterator[str]:
    """Yield amounts of at least what is needed, and of no more than the device has."""
    for unit, size in (("Gi", _GIB), ("Mi", _MIB)):
        amount = -(-needed_bytes // size)
        if amount * size <= node.memory:
            yield f"{amount}{unit}"
    yield str(needed_bytes)


def _selector(driver: str, amount: str) -> str:
    memory = f'device.capacity["{driver}"].memory.compareTo(quantity("{amount}")) >= 0'
    return f'device.driver == "{driver}" && {memory}'


def _pod(container: Object) -> Object:
    return {"spec": {"containers": [container]}}


def _service(settings: ModelSettings) -> Object:
    selector = {"matchLabels": {labels.DEPLOYMENT: settings.name}}
    return _object(ModelService, settings, {"endpoints": [{"selector": selector}]})


def _object(type_: type[MetaModel], settings: ModelSettings, spec: Mapping[str, Any]) -> Object:
    kind = kind_of(type_)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": settings.name, "namespace": settings.namespace},
        "spec": dict(spec),
    }

"""Manifests that deploy a model: its ModelDeployment, its ModelService and, with a cache, its ModelCache."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.fields.caches.cache_sources import CacheFiles
from modelplane.api.fields.deployment.placement_settings import PlacementPolicy
from modelplane.api.fields.pods.engines import Role
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Model as MetaModel
from modelplane.api.meta import Object
from modelplane.api.model_cache import CacheSource, ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_service import ModelService
from modelplane.offline.models.device_selectors import device_request
from modelplane.offline.models.engine_containers import Command, Engine, default_image, of_gang, standalone
from modelplane.sizing.hardware import Served
from modelplane.sizing.memory import Model

MOUNTED: Final = "/mnt/models"
"""Path of a ModelCache in the pods of engines."""
LONGEST_NAME: Final = 52
"""Characters of a name, of which the names of pods still have room for a suffix."""


@dataclass(frozen=True, slots=True)
class Wanted:
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


def name_of(model: str) -> str:
    """Return a name for the objects of a model: the last part of its name, as a DNS label."""
    last = model.rstrip("/").rpartition("/")[2].lower()
    label = re.sub(r"[^a-z0-9]+", "-", last)[:LONGEST_NAME].strip("-")
    return label if label[:1].isalpha() else f"model-{label}".rstrip("-")


def manifests(wanted: Wanted, served: Served, *, cached: bool) -> tuple[Object, ...]:
    """Return the manifests for one kind of hardware, in the order in which to apply them."""
    found = (_deployment(wanted, served, cached=cached), _service(wanted))
    return (_cache(wanted), *found) if cached else found


def _cache(wanted: Wanted) -> Object:
    if wanted.claim:
        volume = {"claimName": wanted.claim}
        spec = {"source": str(CacheSource.PERSISTENT_VOLUME_CLAIM), "persistentVolumeClaim": volume}
        return _object(ModelCache, wanted, spec)
    hub: dict[str, Any] = {"repo": wanted.repo, "files": str(CacheFiles.SAFETENSORS)}
    if wanted.revision:
        hub["revision"] = wanted.revision
    if wanted.token_secret:
        hub["authSecret"] = {"name": wanted.token_secret}
    return _object(ModelCache, wanted, {"source": str(CacheSource.HUGGING_FACE), "huggingFace": hub})


def _deployment(wanted: Wanted, served: Served, *, cached: bool) -> Object:
    spec: dict[str, Any] = {"replicas": wanted.replicas}
    if served.price is not None:
        spec["placement"] = {"policy": str(PlacementPolicy.CHEAPEST)}
    if cached:
        spec["modelCacheRef"] = {"name": wanted.name}
    spec["engines"] = [{"name": wanted.name, "members": _members(wanted, served, cached=cached)}]
    return _object(ModelDeployment, wanted, spec)


def _members(wanted: Wanted, served: Served, *, cached: bool) -> list[Object]:
    command = Command(
        engine=wanted.engine,
        image=wanted.image or default_image(wanted.engine, served.node.driver),
        model=MOUNTED if cached else wanted.repo,
        revision="" if cached else wanted.revision,
        served_name=wanted.name,
        context=wanted.context,
        quantization=wanted.converted_to,
        token_secret="" if cached else wanted.token_secret,
    )
    split = served.split
    request = device_request(served.node, split.tensor, served.memory.gpu, wanted.model.quantization)
    needs = {"nodeSelector": {"devices": [request]}}
    if split.pipeline == 1:
        return [{"role": str(Role.STANDALONE), **needs, "template": _pod(standalone(command, split))}]
    workers = {"nodes": split.pipeline - 1}
    leader, worker = (_pod(of_gang(command, split, is_leader=each)) for each in (True, False))
    return [
        {"role": str(Role.LEADER), **needs, "template": leader},
        {"role": str(Role.WORKER), "worker": workers, **needs, "template": worker},
    ]


def _pod(container: Object) -> Object:
    return {"spec": {"containers": [container]}}


def _service(wanted: Wanted) -> Object:
    selector = {"matchLabels": {labels.DEPLOYMENT: wanted.name}}
    return _object(ModelService, wanted, {"endpoints": [{"selector": selector}]})


def _object(type_: type[MetaModel], wanted: Wanted, spec: Mapping[str, Any]) -> Object:
    kind = kind_of(type_)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": wanted.name, "namespace": wanted.namespace},
        "spec": dict(spec),
    }

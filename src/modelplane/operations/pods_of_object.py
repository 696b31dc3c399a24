"""Pods of an object: those that composing it observes, on any cluster.

A deployment and a service stand for replicas, a replica for its engines, a cache for what stages it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from modelplane.api import labels
from modelplane.api.kinds import Kind, kind_of
from modelplane.api.meta import Model, Object
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Requirement
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers import fleet_resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class ObjectPods:
    """The pods of an object, or the reason why there are none."""

    pods: tuple[Requirement, ...] = ()
    nothing: str = ""


async def find_pods(client: Client, item: Object) -> ObjectPods:
    """Return the pods of an object of one of ``RESOURCES``."""
    return await _OF[item["kind"]](client, item)


async def _of_deployment(client: Client, item: Object) -> ObjectPods:
    metadata = item["metadata"]
    selector = f"{labels.DEPLOYMENT}={metadata['name']}"
    replicas = await client.list(fleet_resources.MODEL_REPLICAS, metadata["namespace"], labels=selector)
    hint = f"modelplane explain md/{metadata['name']} -n {metadata['namespace']}"
    return _of_replicas(replicas.items, f"there are no replicas: to see why, run `{hint}`")


async def _of_service(client: Client, item: Object) -> ObjectPods:
    # Not by its endpoints: a replica whose engine does not start has none yet.
    service = decode_as(ModelService, item)
    replicas = (await client.list(fleet_resources.MODEL_REPLICAS, service.metadata.namespace)).items
    selectors = [entry.selector.match_labels for entry in service.spec.endpoints]
    selected = [
        replica
        for replica in replicas
        if any(selector.items() <= replica["metadata"].get("labels", {}).items() for selector in selectors)
    ]
    return _of_replicas(
        selected,
        "the service selects no replica in this fleet, and logs of external endpoints are only "
        "available from the provider",
    )


def _of_replicas(replicas: Sequence[Object], nothing: str) -> ObjectPods:
    pods = tuple(pod for replica in replicas for pod in _pods(ModelReplica, replica))
    return ObjectPods(pods, "" if pods else nothing)


async def _of_replica(_client: Client, item: Object) -> ObjectPods:
    return _of_replicas([item], "")


async def _of_cache(_client: Client, item: Object) -> ObjectPods:
    pods = tuple(_pods(ModelCache, item))
    return ObjectPods(pods, "" if pods else "the ModelCache is not staged on any cluster")


def _pods(type_: type[Model], item: Object) -> tuple[Requirement, ...]:
    kind = kind_of(type_)
    needed = COMPOSERS[kind.name].requirements(decode_as(type_, item))
    return tuple(requirement for requirement in needed if requirement.kind == "Pod")


_OF: Final[Mapping[str, Callable[[Client, Object], Awaitable[ObjectPods]]]] = {
    kind_of(ModelDeployment).name: _of_deployment,
    kind_of(ModelService).name: _of_service,
    kind_of(ModelReplica).name: _of_replica,
    kind_of(ModelCache).name: _of_cache,
}

RESOURCES: Final[Mapping[Kind, Resource]] = {
    kind_of(ModelDeployment): fleet_resources.MODEL_DEPLOYMENTS,
    kind_of(ModelService): fleet_resources.MODEL_SERVICES,
    kind_of(ModelReplica): fleet_resources.MODEL_REPLICAS,
    kind_of(ModelCache): fleet_resources.MODEL_CACHES,
}
"""The kinds of objects that have pods, and their resources."""

"""Which function composes which kind."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.meta import Model
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.compose import (
    inference_class,
    inference_cluster,
    inference_gateway,
    model_cache,
    model_deployment,
    model_endpoint,
    model_replica,
    model_service,
)
from modelplane.compose.composition import Composition, Request, Requirement
from modelplane.kube import resources
from modelplane.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that is reconciled: its type, what it needs to see, and what composes it."""

    resource: Resource
    type: type[Model]
    requirements: Callable[[Any], tuple[Requirement, ...]]
    compose: Callable[[Request[Any]], Composition]


_KINDS = (
    Kind(resources.INFERENCE_CLASSES, InferenceClass, inference_class.requirements, inference_class.compose),
    Kind(
        resources.INFERENCE_CLUSTERS,
        InferenceCluster,
        inference_cluster.requirements,
        inference_cluster.compose,
    ),
    Kind(
        resources.INFERENCE_GATEWAYS,
        InferenceGateway,
        inference_gateway.requirements,
        inference_gateway.compose,
    ),
    Kind(resources.MODEL_CACHES, ModelCache, model_cache.requirements, model_cache.compose),
    Kind(
        resources.MODEL_DEPLOYMENTS, ModelDeployment, model_deployment.requirements, model_deployment.compose
    ),
    Kind(resources.MODEL_ENDPOINTS, ModelEndpoint, model_endpoint.requirements, model_endpoint.compose),
    Kind(resources.MODEL_REPLICAS, ModelReplica, model_replica.requirements, model_replica.compose),
    Kind(resources.MODEL_SERVICES, ModelService, model_service.requirements, model_service.compose),
)

KINDS = {kind.resource.kind: kind for kind in _KINDS}
"""Every kind that is reconciled, by name."""

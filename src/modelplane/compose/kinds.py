"""Which functions compose which kind: the one table that every engine reads.

A controller, the Crossplane function and the offline commands look here, so that what is rendered
offline is what happens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.kinds import KINDS
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
from modelplane.compose.tenancy import admitted


@dataclass(frozen=True, slots=True)
class Composer:
    """A kind that is composed: its type, what it needs to see, and what composes it."""

    type: type[Model]
    requirements: Callable[[Any], tuple[Requirement, ...]]
    decide: Callable[[Request[Any]], Composition]

    def compose(self, request: Request[Any]) -> Composition:
        """Compose an owner, unless its namespace is reserved."""
        return admitted(request, self.decide(request))


_COMPOSERS = (
    Composer(InferenceClass, inference_class.requirements, inference_class.compose),
    Composer(InferenceCluster, inference_cluster.requirements, inference_cluster.compose),
    Composer(InferenceGateway, inference_gateway.requirements, inference_gateway.compose),
    Composer(ModelCache, model_cache.requirements, model_cache.compose),
    Composer(ModelDeployment, model_deployment.requirements, model_deployment.compose),
    Composer(ModelEndpoint, model_endpoint.requirements, model_endpoint.compose),
    Composer(ModelReplica, model_replica.requirements, model_replica.compose),
    Composer(ModelService, model_service.requirements, model_service.compose),
)

COMPOSERS = {composer.type.__name__: composer for composer in _COMPOSERS}
"""Every kind that is composed, by name."""

COMPOSED = tuple(kind for kind in KINDS if kind.name in COMPOSERS)
"""The same as an API server serves them. No other is installed: its objects would wait for ever."""

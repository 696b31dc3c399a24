"""Which functions compose which kind: the one table that every engine reads.

A controller, the Crossplane function and the offline commands look here, so that what is rendered
offline is what happens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.kinds import KINDS
from modelplane.api.meta import Model, kind_name
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
from modelplane.compose.composition import Blocked, Composition, Request, Requirement
from modelplane.compose.tenancy import admitted


class Lane(Enum):
    """Lanes: owners of a kind that are reconciled one after the other."""

    FREE = auto()
    """None: each is independent of the others."""
    DECISIONS = auto()
    """All: each placement must see the one before it."""
    CLUSTER = auto()
    """Those of one cluster, which alone suffer where it is slow."""
    CLUSTERS = auto()
    """Those that write to many clusters."""


@dataclass(frozen=True, slots=True)
class Pace:
    """For how many seconds an answer to Crossplane is good.

    Crossplane sees children change; of what a composition requires it may not. So a service, which follows
    endpoints that are others' children, never waits long.
    """

    usual_s: int = 60
    longest_s: int = 0
    """After a long quiet time, where that is longer."""
    settles: bool = False
    """True if its status repeats for a while on the way to Ready, unless an operator must act."""


@dataclass(frozen=True, slots=True)
class Composer:
    """A kind that is composed: its type, what it needs to see, what composes it, and how engines treat it."""

    type: type[Model]
    requirements: Callable[[Any], tuple[Requirement, ...]]
    decide: Callable[[Request[Any]], Composition | Blocked]
    lane: Lane = Lane.FREE
    on_clusters: bool = False
    """True if it is to have objects on clusters, so that it is created with the finalizer."""
    connects: bool = False
    """True if controllers connect to it, and abandon its objects when it is deleted and lost."""
    is_routed: bool = False
    """True if its compositions have routes, so that it is composed for them beside its reconcile."""
    follows_gateway: bool = False
    """True if its status has the address of the gateway, which only the owner of the gateway knows."""
    only_controllers: tuple[str, ...] = ()
    """Status fields that Crossplane has no use for."""
    pace: Pace = Pace()

    @property
    def name(self) -> str:
        """The kind as manifests name it."""
        return kind_name(self.type)

    def compose(self, request: Request[Any]) -> Composition | Blocked:
        """Compose an owner, unless its namespace is reserved."""
        return admitted(request, self.decide(request))


_COMPOSERS = (
    Composer(InferenceClass, inference_class.requirements, inference_class.compose),
    Composer(
        InferenceCluster,
        inference_cluster.requirements,
        inference_cluster.compose,
        connects=True,
        pace=Pace(longest_s=300, settles=True),
    ),
    Composer(
        InferenceGateway, inference_gateway.requirements, inference_gateway.compose, follows_gateway=True
    ),
    Composer(
        ModelCache,
        model_cache.requirements,
        model_cache.compose,
        Lane.CLUSTERS,
        pace=Pace(longest_s=120),
    ),
    Composer(
        ModelDeployment,
        model_deployment.requirements,
        model_deployment.compose,
        Lane.DECISIONS,
        pace=Pace(15, 120, settles=True),
    ),
    Composer(
        ModelEndpoint,
        model_endpoint.requirements,
        model_endpoint.compose,
        pace=Pace(longest_s=300),
    ),
    Composer(
        ModelReplica,
        model_replica.requirements,
        model_replica.compose,
        Lane.CLUSTER,
        on_clusters=True,
        # Its Objects say where they are.
        only_controllers=("clusters",),
        pace=Pace(30, 120, settles=True),
    ),
    Composer(
        ModelService,
        model_service.requirements,
        model_service.compose,
        is_routed=True,
        pace=Pace(usual_s=10),
    ),
)

COMPOSERS = {composer.name: composer for composer in _COMPOSERS}
"""Every kind that is composed, by name."""

COMPOSED = tuple(kind for kind in KINDS if kind.name in COMPOSERS)
"""The same as an API server serves them. No other is installed: its objects would wait for ever."""

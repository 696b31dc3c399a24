"""Composers: the one table of the functions that compose each kind.

The controllers, the Crossplane function and the offline commands all read it, so that they compose the
same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.conditions.reasons import AdmittedReason, CommonCondition
from modelplane.api.device_quota import DeviceQuota
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.kinds import KINDS, kind_of
from modelplane.api.meta import Model, Object, kind_name
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.api.names import check_reserved
from modelplane.compose import device_quota, inference_autoscaler, model_endpoint, model_key
from modelplane.compose.cache import model_cache
from modelplane.compose.clouds import flow
from modelplane.compose.clouds.table import RECIPES
from modelplane.compose.cluster import inference_class, inference_cluster
from modelplane.compose.cluster.cluster_facts import ClusterFacts
from modelplane.compose.composition import (
    Blocked,
    Composition,
    NoFacts,
    Request,
    Requirement,
    Unknown,
    keep_all,
)
from modelplane.compose.conditions import false, join_same_type, list_written
from modelplane.compose.deployment import model_deployment, scheduler_quotas
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.facts import (
    AutoscalerFacts,
    CacheFacts,
    EndpointFacts,
    GatewayFacts,
    KeyFacts,
    ReplicaFacts,
    ServiceFacts,
)
from modelplane.compose.gateway import inference_gateway
from modelplane.compose.replica import model_replica
from modelplane.compose.service import model_service
from modelplane.compose.serving_stack import stack_flow
from modelplane.compose.serving_stack.component import StackFacts

_COMMON: Final = frozenset(map(str, CommonCondition))


def admitted(request: Request[Any, Any], composed: Composition | Blocked) -> Composition | Blocked:
    """Return a composition, or a refusal if the owner's namespace is reserved.

    A refusal keeps every child, every guard and the status, and has a condition with the cause.
    """
    owner = request.owner
    rejected = check_reserved(owner.metadata.namespace)
    if rejected is None or isinstance(composed, Blocked):
        return composed
    status: dict[str, Any] = msgspec.to_builtins(owner.status)
    status.pop("conditions", None)
    known = list_written(owner.status, {condition.type for condition in owner.status.conditions} - _COMMON)
    refusal = false(CommonCondition.ACCEPTED, AdmittedReason.RESERVED_NAMESPACE, rejected.message)
    return replace(
        composed,
        children=keep_all(request.observed),
        placeholders=(),
        status=status,
        conditions=(refusal, *known),
        ready=False,
        unsatisfied=False,
        also_watch=(),
    )


Find: TypeAlias = Callable[[Requirement], tuple[Object, ...] | Unknown]
"""Returns the objects of a requirement, or why they are not known."""


class Lane(Enum):
    """Lanes: owners of a kind that are reconciled one after the other."""

    FREE = auto()
    """None: each is independent of the others."""
    DECISIONS = auto()
    """All: each placement must see the one before it."""
    CLUSTER = auto()
    """Those of one cluster, so that a slow cluster delays only its own."""
    CLUSTERS = auto()
    """Those that write to many clusters."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Times to live of an answer to Crossplane.

    Crossplane observes changes of children, but not always of required objects. So a service, which follows
    other owners' endpoints, never waits long.
    """

    usual_s: int = 60
    longest_s: int = 0
    """After a long time without changes, if that is longer."""
    unready_s: int = 0
    """Before Ready and while Crossplane drops its events, if that is shorter: its children take minutes."""
    settles: bool = False
    """True if its status repeats for a while on the way to Ready, unless an operator must act."""


@dataclass(frozen=True, slots=True)
class Composer:
    """A composed kind: its type, its requirements, its composition function, and how to reconcile it."""

    type: type[Model]
    requirements: Callable[[Any], tuple[Requirement, ...]]
    decide: Callable[[Request[Any, Any]], Composition | Blocked]
    facts: Callable[[], msgspec.Struct] = NoFacts
    """The type of the facts that only this kind reads; without arguments, nothing is known."""
    lane: Lane = Lane.FREE
    further: Callable[[Find], tuple[Requirement, ...]] = lambda _find: ()
    """Requirements that depend on what others found: the argument reads those."""
    on_clusters: bool = False
    """True if it has objects on clusters, so that it is created with the finalizer."""
    waits_for_children: bool = False
    """True if its deletion ends with that of its children on the control plane, which others take away."""
    connects: bool = False
    """True if controllers connect to it, and abandon its objects when it is deleted and lost."""
    is_routed: bool = False
    """True if its compositions have routes, so that it is composed for them beside its reconcile."""
    follows_gateway: bool = False
    """True if its status depends on the gateway's address or module, which only the gateway's owner knows."""
    is_platform: bool = False
    """True if its objects are the platform team's, so that they may be in reserved namespaces."""
    only_controllers: tuple[str, ...] = ()
    """Status fields that Crossplane does not need."""
    pace: Pace = Pace()

    @property
    def name(self) -> str:
        """The kind in manifests."""
        return kind_name(self.type)

    @property
    def api_version(self) -> str:
        """Its ``apiVersion`` in manifests."""
        return kind_of(self.type).api_version

    def required(self, owner: Any, find: Find) -> tuple[Requirement, ...]:
        """Return all requirements of an owner; `find` reads the first ones, on which others depend."""
        return (*self.requirements(owner), *self.further(find))

    def compose(self, request: Request[Any, Any]) -> Composition | Blocked:
        """Compose an owner, unless its namespace is reserved for others, or its facts are in doubt."""
        if isinstance(request.facts, Blocked):
            return request.facts
        decided = self.decide(request)
        if isinstance(decided, Composition):
            decided = msgspec.structs.replace(decided, conditions=join_same_type(decided.conditions))
        return decided if self.is_platform else admitted(request, decided)


_COMPOSERS = (
    Composer(DeviceQuota, device_quota.requirements, device_quota.compose, pace=Pace(longest_s=300)),
    Composer(
        InferenceAutoscaler,
        inference_autoscaler.requirements,
        inference_autoscaler.compose,
        AutoscalerFacts,
        follows_gateway=True,
        pace=Pace(longest_s=300),
    ),
    Composer(InferenceClass, inference_class.requirements, inference_class.compose),
    Composer(
        InferenceCluster,
        inference_cluster.requirements,
        inference_cluster.compose,
        ClusterFacts,
        waits_for_children=True,
        connects=True,
        # There are many, and once they are Ready they hardly change.
        pace=Pace(300, unready_s=10, settles=True),
    ),
    Composer(
        InferenceGateway,
        inference_gateway.requirements,
        inference_gateway.compose,
        GatewayFacts,
        waits_for_children=True,
        follows_gateway=True,
    ),
    Composer(
        ModelCache,
        model_cache.requirements,
        model_cache.compose,
        CacheFacts,
        Lane.CLUSTERS,
        pace=Pace(longest_s=120),
    ),
    Composer(
        ModelDeployment,
        model_deployment.requirements,
        model_deployment.compose,
        DeploymentFacts,
        Lane.DECISIONS,
        scheduler_quotas.further,
        only_controllers=("summary",),
        pace=Pace(15, 120, settles=True),
    ),
    Composer(
        ModelEndpoint,
        model_endpoint.requirements,
        model_endpoint.compose,
        EndpointFacts,
        follows_gateway=True,
        pace=Pace(longest_s=300),
    ),
    Composer(ModelKey, model_key.requirements, model_key.compose, KeyFacts, pace=Pace(longest_s=300)),
    Composer(
        ModelReplica,
        model_replica.requirements,
        model_replica.compose,
        ReplicaFacts,
        Lane.CLUSTER,
        on_clusters=True,
        # Its Objects name their clusters.
        only_controllers=("clusters",),
        pace=Pace(longest_s=240, settles=True),
    ),
    Composer(
        ModelService,
        model_service.requirements,
        model_service.compose,
        ServiceFacts,
        is_routed=True,
        follows_gateway=True,
        pace=Pace(usual_s=10),
    ),
    Composer(
        ServingStack,
        stack_flow.requirements,
        stack_flow.compose,
        StackFacts,
        Lane.CLUSTER,
        on_clusters=True,
        is_platform=True,
        # Its Objects and Releases name their cluster.
        only_controllers=("clusters",),
        pace=Pace(30, 300, unready_s=10, settles=True),
    ),
    *(
        Composer(
            recipe.type,
            partial(flow.requirements, recipe),
            partial(flow.compose, recipe),
            waits_for_children=True,
            is_platform=True,
            pace=Pace(longest_s=300, unready_s=10),
        )
        for recipe in RECIPES.values()
    ),
)

COMPOSERS = {composer.name: composer for composer in _COMPOSERS}
"""Every kind that is composed, by name."""

COMPOSED = tuple(kind for kind in KINDS if kind.name in COMPOSERS)
"""The same, as an API server serves them. No other kind is installed: its objects would wait forever."""

"""Fact sources: what the controllers know of an owner and no object has, for each kind that reads facts.

A new fact is a field of the kind's facts, and of what its source returns: no reconcile changes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.meta import Model, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_service import ModelService
from modelplane.compose.cluster.cluster_facts import ClusterFacts
from modelplane.compose.composition import Blocked, Unknown
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.facts import AutoscalerFacts, EndpointFacts, GatewayFacts, KeyFacts, ServiceFacts
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.serving_stack.component import StackFacts
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.gateway_probes import GatewayAnswers
from modelplane.controllers.decision_loops.autoscaling_loop import Autoscaling
from modelplane.controllers.decision_loops.canary_loop import Canaries
from modelplane.controllers.decision_loops.failover_loop import Failover
from modelplane.controllers.gateway.budget_enforcement import Budgets
from modelplane.controllers.gateway.gateway_admission import Admission
from modelplane.controllers.gateway.gateway_controller import GatewayController
from modelplane.controllers.gateway.mutual_tls_rollout import MutualTls
from modelplane.controllers.interests import OwnerKey


class FactSource(Protocol):
    """Tells the facts of the owners of one kind."""

    @property
    def kind(self) -> type[Model]:
        """The kind that reads the facts."""

    def of(self, owner: Any, /) -> Any:
        """Return the facts of an owner, of the type that the row of its kind names; Blocked in doubt."""


class FactSources:
    """The sources of all kinds. Nothing is known of a kind without one."""

    def __init__(self, sources: Iterable[FactSource] = ()) -> None:
        self._sources = {kind_name(source.kind): source for source in sources}
        self._nothing = {name: row.facts() for name, row in COMPOSERS.items()}

    def of(self, kind: str, owner: Model) -> Any:
        """Return the facts of an owner of a kind."""
        source = self._sources.get(kind)
        return source.of(owner) if source else self._nothing[kind]


@dataclass(frozen=True)
class GatewaySource:
    """Tells an InferenceGateway of the Envoy that the controllers configure."""

    kind: ClassVar[type[Model]] = InferenceGateway
    gateway: Callable[[], GatewayController]
    is_local: bool

    def of(self, _owner: InferenceGateway) -> GatewayFacts:
        """Return the facts of the gateway."""
        address = self.gateway().address
        return GatewayFacts(
            address.address,
            problem=address.problem,
            tls_problem=address.tls_problem,
            without_module=address.without_module,
            asks_for_keys=address.asks_for_keys,
            is_local=self.is_local,
        )


@dataclass(frozen=True)
class ServiceSource:
    """Tells a ModelService of the gateway, and of its part of it."""

    kind: ClassVar[type[Model]] = ModelService
    gateway: Callable[[], GatewayController]
    is_local: bool
    budgets: Budgets

    def of(self, owner: ModelService) -> ServiceFacts:
        """Return the facts of a service."""
        gateway = self.gateway()
        key = OwnerKey(kind_name(ModelService), owner.metadata.namespace, owner.metadata.name)
        return ServiceFacts(
            gateway_without_module=gateway.address.without_module,
            gateway_is_local=self.is_local,
            tier_budgets=self.budgets.tiers(owner),
            endpoint_share=gateway.share(key),
            is_route_loaded=gateway.has_loaded(key),
        )


@dataclass(frozen=True)
class EndpointSource:
    """Tells a ModelEndpoint of the gateway."""

    kind: ClassVar[type[Model]] = ModelEndpoint
    gateway: Callable[[], GatewayController]
    is_local: bool

    def of(self, _owner: ModelEndpoint) -> EndpointFacts:
        """Return the facts of an endpoint."""
        return EndpointFacts(self.is_local, self.gateway().address.without_module)


@dataclass(frozen=True)
class KeySource:
    """Tells a ModelKey whether the gateway has it, and what it has spent."""

    kind: ClassVar[type[Model]] = ModelKey
    admission: Admission
    budgets: Budgets

    def of(self, owner: ModelKey) -> KeyFacts:
        """Return the facts of a key."""
        return KeyFacts(
            self.admission.problem(owner),
            refused=self.admission.refused(owner),
            budgets=self.budgets.state(owner),
        )


@dataclass(frozen=True)
class AutoscalerSource:
    """Tells an InferenceAutoscaler what was decided from the gateway's counts."""

    kind: ClassVar[type[Model]] = InferenceAutoscaler
    gateway: Callable[[], GatewayController]
    autoscaling: Autoscaling

    def of(self, owner: InferenceAutoscaler) -> AutoscalerFacts:
        """Return the facts of an autoscaler."""
        return AutoscalerFacts(self.autoscaling.state(owner), self.gateway().address.without_module)


@dataclass(frozen=True)
class ClusterSource:
    """Tells an InferenceCluster of the connection to it, and of its gateway."""

    kind: ClassVar[type[Model]] = InferenceCluster
    clusters: Clusters
    answers: GatewayAnswers
    mutual_tls: MutualTls
    failover: Failover

    def of(self, owner: InferenceCluster) -> ClusterFacts | Blocked:
        """Return the facts of a cluster; Blocked while its mutual TLS is unknown."""
        name = owner.metadata.name
        link = self.mutual_tls.of(name)
        if isinstance(link, Unknown):
            return Blocked(link.cause)
        return ClusterFacts(
            self.clusters.kubeconfig_problem(name),
            self.clusters.credential(name),
            observes_capacity=True,
            gateway_answer=self.answers.of(name),
            mutual_tls=link,
            watched=self.failover.of_cluster(owner),
        )


@dataclass(frozen=True)
class StackSource:
    """Tells a ServingStack of the certificates for its cluster's gateway."""

    kind: ClassVar[type[Model]] = ServingStack
    mutual_tls: MutualTls

    def of(self, owner: ServingStack) -> StackFacts | Blocked:
        """Return the facts of a stack; Blocked while the mutual TLS of its cluster is unknown."""
        name = owner.spec.cluster_name
        link = self.mutual_tls.of(name) if name else None
        return Blocked(link.cause) if isinstance(link, Unknown) else StackFacts(link)


@dataclass(frozen=True)
class DeploymentSource:
    """Tells a ModelDeployment what was decided on its canary, and of lost clusters."""

    kind: ClassVar[type[Model]] = ModelDeployment
    canaries: Canaries
    failover: Failover
    watching_since: Callable[[], datetime | None]

    def of(self, owner: ModelDeployment) -> DeploymentFacts:
        """Return the facts of a deployment."""
        return DeploymentFacts(
            self.canaries.state(owner),
            self.failover.of_deployment(owner),
            self.watching_since(),
            observes_capacity=True,
        )

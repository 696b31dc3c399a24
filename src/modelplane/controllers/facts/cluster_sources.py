"""Sources of the kinds that depend on clusters: how each is reached, and how it does."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from modelplane.api.clouds.serving_stack import ServingStack
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import Model
from modelplane.api.model_deployment import ModelDeployment
from modelplane.compose.cluster.cluster_facts import ClusterFacts
from modelplane.compose.composition import Blocked, Unknown
from modelplane.compose.facts import DeploymentFacts
from modelplane.compose.serving_stack.component import StackFacts
from modelplane.controllers.clusters.connections import Clusters
from modelplane.controllers.clusters.gateway_answers import GatewayAnswers
from modelplane.controllers.deciders.canary_loop import Canaries
from modelplane.controllers.deciders.failover_loop import Failover
from modelplane.controllers.gateway.mutual_tls_rollout import MutualTls


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

"""Facts of each kind, as a request of Crossplane tells them.

A kind without a row has no facts here: nothing scales, issues certificates or watches clusters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.inference_gateway import InferenceGateway
from modelplane.api.meta import Model, Object
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_key import ModelKey
from modelplane.api.model_replica import ModelReplica
from modelplane.api.model_service import ModelService
from modelplane.compose.cluster.cluster_facts import ClusterFacts
from modelplane.compose.cluster.reachability import connection_error
from modelplane.compose.composition import NoFacts, Request, Silence, Unknown
from modelplane.compose.conditions import SYNCED
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.facts import (
    CacheFacts,
    EndpointFacts,
    GatewayFacts,
    KeyFacts,
    ReplicaFacts,
    ServiceFacts,
)
from modelplane.compose.gateway import fleet_gateway
from modelplane.compose.readiness import condition_of
from modelplane.crossplane.function import gateway_facts, remote_objects
from modelplane.crossplane.function.observation import Observation
from modelplane.crossplane.function.requirements import RequiredResources, backend_of_leaving


@dataclass(frozen=True, slots=True)
class Told:
    """What a request of Crossplane has, and what the function adds to it."""

    request: Request[Any, NoFacts]
    now: datetime
    observation: Observation
    given: RequiredResources
    watching_since: datetime
    gateway_pods: Mapping[str, Object]
    """Manifests of the pods of the gateway."""

    def gateway(self) -> dict[str, tuple[Object, ...] | Unknown]:
        """Return the objects that tell of the fleet's gateway."""
        about = gateway_facts.requirements(self.request.owner, self.observation.composed)
        return self.given.required((*about, fleet_gateway.KEYS), self.observation)


def _cluster(told: Told) -> ClusterFacts:
    composed = told.observation.composed
    problem, credential = told.given.kubeconfig(told.request.owner, composed, told.now.timestamp())
    return ClusterFacts(problem, credential, _find_silence(composed))


def _gateway(told: Told) -> GatewayFacts:
    address = told.given.gateway_address()
    return gateway_facts.build_facts(told.request, told.gateway(), address, told.gateway_pods)


def _replica(told: Told) -> ReplicaFacts:
    composed = told.observation.composed
    routed_by = told.given.routed_by(backend_of_leaving(told.request.owner, composed))
    return ReplicaFacts(routed_by, told.observation.unobserved, _find_silence(composed))


def _find_silence(composed: Mapping[str, Object]) -> Silence | None:
    """Return the earliest connection error that provider-kubernetes reports on an owner's Objects."""
    silences = [
        Silence(cause, str(condition_of(item, SYNCED).get("lastTransitionTime", "")))
        for item in composed.values()
        if remote_objects.is_remote(item) and (cause := connection_error(remote_objects.problem(item) or ""))
    ]
    return min(silences, key=lambda silence: (silence.since, silence.cause), default=None)


FACTS: Final[Mapping[type[Model], Callable[[Told], Any]]] = {
    InferenceCluster: _cluster,
    InferenceGateway: _gateway,
    ModelCache: lambda told: CacheFacts(told.observation.unobserved),
    ModelDeployment: lambda told: DeploymentFacts(watching_since=told.watching_since),
    ModelEndpoint: lambda told: EndpointFacts(
        gateway_without_module=gateway_facts.explain_without_module(told.gateway())
    ),
    ModelKey: lambda _told: KeyFacts(is_reported=False),
    ModelReplica: _replica,
    ModelService: lambda told: ServiceFacts(gateway_facts.backend_of(told.request)),
}
"""Functions that tell the facts of an owner, by its type."""

"""Load of deployments: what gateways count of the requests to their endpoints, and what services hold."""

from collections.abc import Iterator, Mapping

from modelplane.api import labels
from modelplane.api.meta import kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.autoscaling.evidence import Sample
from modelplane.compose import hold
from modelplane.compose.readable import readable
from modelplane.gateway.load import Load
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object

_ENDPOINT = kind_name(ModelEndpoint)
_SERVICE = kind_name(ModelService)


class DeploymentLoad:
    """Counts between two readings of the gateways."""

    def __init__(self, informers: Mapping[str, Informer], before: Load, now: Load) -> None:
        self._informers = informers
        self._before = before
        self._now = now
        self._endpoints: dict[str, dict[str, list[str]]] = {}
        """Endpoints by namespace and deployment, of the namespaces that were asked for."""
        self.problem = now.problem
        """Reason why a gateway could not be read; empty if all were."""

    def sample(self, deployment: Object, at: float) -> Sample | None:
        """Return the counts of a deployment; None if no gateway could be read."""
        if not self._now.readings:
            return None
        services = [*self._services(deployment)]
        endpoints = [*self._endpoints_of(deployment), *(f"held/{name}" for name in services)]
        now, before = self._now, self._before
        return Sample(
            at,
            in_flight=sum(map(now.in_flight, endpoints)),
            held=sum(map(now.held, services)),
            arrivals=sum(now.requests_since(before, each) for each in endpoints)
            + sum(now.holds_since(before, each) for each in services),
            tokens=sum(now.tokens_since(before, each) for each in services),
            complete=not now.problem,
        )

    def _endpoints_of(self, deployment: Object) -> list[str]:
        """Return the endpoints of a deployment's replicas, as ``NAMESPACE/NAME``."""
        namespace, name = deployment["metadata"]["namespace"], deployment["metadata"]["name"]
        if namespace not in self._endpoints:
            found: dict[str, list[str]] = {}
            for item in self._informers[_ENDPOINT].in_namespace(namespace):
                owner = item["metadata"].get("labels", {}).get(labels.DEPLOYMENT, "")
                found.setdefault(owner, []).append(f"{namespace}/{item['metadata']['name']}")
            self._endpoints[namespace] = found
        return self._endpoints[namespace].get(name, [])

    def _services(self, deployment: Object) -> Iterator[str]:
        """Yield the services that select a deployment's replicas, as ``NAMESPACE/NAME``."""
        namespace = deployment["metadata"]["namespace"]
        for item in self._informers[_SERVICE].in_namespace(namespace):
            if any(hold.selects(service, deployment) for service in readable(ModelService)(item)):
                yield f"{namespace}/{item['metadata']['name']}"

"""Load of deployments: what gateways count of the requests to their endpoints, and what services hold."""

from collections.abc import Mapping
from typing import NamedTuple

from modelplane.api import labels
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.compose.service.selecting_services import SelectingServices, TooMany
from modelplane.deciders.autoscaling.evidence import Sample, sum_counts
from modelplane.gateway.envoy.envoy_names import HELD
from modelplane.gateway.usage.load import Load
from modelplane.kube.informer import Informer

Indexes = Mapping[str, SelectingServices]
"""The services of each namespace, filed by their labels."""


class _Counts(NamedTuple):
    """Counts of one endpoint or service."""

    in_flight: int = 0
    held: int = 0
    arrivals: int = 0
    tokens: int = 0


class DeploymentLoad:
    """Counts between two readings of the gateways. The time for all deployments grows with their number."""

    def __init__(
        self, informers: Mapping[str, Informer], before: Load, now: Load, last: Indexes | None = None
    ) -> None:
        """``last`` is ``indexes`` of the last reading, of which those without a change are kept."""
        self._informers = informers
        self._before = before
        self._now = now
        self._last = last or {}
        self.indexes: dict[str, SelectingServices] = {}
        """Those of the namespaces that were asked for."""
        self._endpoints: dict[str, dict[str, list[str]]] = {}
        """Endpoints by namespace and deployment, of the namespaces that were asked for."""
        self._services: dict[str, _Counts] = {}
        """Counts of the services that were asked for."""
        self.problem = now.problem
        """Reason why a gateway could not be read; empty if all were."""

    def sample(self, deployment: Object, at: float) -> Sample | TooMany | None:
        """Return the counts of a deployment; None if no gateway could be read."""
        if not self._now.readings:
            return None
        namespace = deployment["metadata"]["namespace"]
        names = self._index(namespace).of(deployment)
        if isinstance(names, TooMany):
            return names
        services = [self._of_service(f"{namespace}/{name}") for name in names]
        counted = [*map(self._of_endpoint, self._endpoints_of(deployment)), *services]
        total = _Counts(*map(sum, zip(*counted, strict=True)))
        return Sample(at, *total, not self._now.problem, self._first_tokens(deployment))

    def _of_endpoint(self, name: str) -> _Counts:
        return _Counts(
            self._now.count_in_flight(name), arrivals=self._now.count_since(self._before, "requests", name)
        )

    def _first_tokens(self, deployment: Object) -> tuple[int, ...]:
        """Return the streams of a deployment's replicas, by the time to their first token."""
        since = (
            self._now.count_first_tokens_since(self._before, text) for text in self._endpoints_of(deployment)
        )
        counted = [row for row in since if row]
        return sum_counts(counted) if counted else ()

    def _of_service(self, name: str) -> _Counts:
        """Return what a service holds, has held and sent on, and the tokens of its answers."""
        if (known := self._services.get(name)) is None:
            now, before, released = self._now, self._before, self._of_endpoint(f"{HELD}{name}")
            known = self._services[name] = _Counts(
                released.in_flight,
                now.count_held(name),
                released.arrivals + now.count_since(before, "holds", name),
                now.count_since(before, "tokens", name),
            )
        return known

    def _endpoints_of(self, deployment: Object) -> list[str]:
        """Return the endpoints of a deployment's replicas, as ``NAMESPACE/NAME``."""
        namespace, name = deployment["metadata"]["namespace"], deployment["metadata"]["name"]
        if namespace not in self._endpoints:
            found: dict[str, list[str]] = {}
            for item in self._informers[kind_name(ModelEndpoint)].in_namespace(namespace):
                owner = item["metadata"].get("labels", {}).get(labels.DEPLOYMENT, "")
                found.setdefault(owner, []).append(f"{namespace}/{item['metadata']['name']}")
            self._endpoints[namespace] = found
        return self._endpoints[namespace].get(name, [])

    def _index(self, namespace: str) -> SelectingServices:
        """Return the services of a namespace, filed anew if one has changed since the last reading."""
        if namespace not in self.indexes:
            services = self._informers[kind_name(ModelService)].in_namespace(namespace)
            last = self._last.get(namespace)
            # An informer replaces an object that has changed.
            if last is None or [*map(id, last.services)] != [*map(id, services)]:
                last = SelectingServices(services)
            self.indexes[namespace] = last
        return self.indexes[namespace]

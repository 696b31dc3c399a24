"""Region rules: the regions to which the requests of a service may go.

A ModelDeployment may have a rule. It binds every ModelService that selects its endpoints, or would select
them if there were any: for endpoints of others too, such as an external provider's. An endpoint without a
region is outside every region.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from modelplane.api import labels
from modelplane.api.fields.requests.regions import describe_place, format_regions
from modelplane.api.listing import listing
from modelplane.api.meta import kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_service import ModelService
from modelplane.api.rejected import Rejected
from modelplane.gateway.services import select_endpoints

_OF_ENDPOINTS = (labels.CLUSTER, labels.REPLICA_INDEX)
"""Labels that differ between the endpoints of a deployment."""


@dataclass(frozen=True, slots=True)
class DeploymentRule:
    """The region rule of a ModelDeployment."""

    deployment: str
    regions: frozenset[str]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that all its endpoints have."""

    def is_binding(self, service: ModelService) -> bool:
        """Return True if the service would select an endpoint of the deployment."""
        return any(
            all(
                key in _OF_ENDPOINTS or self.labels.get(key) == value
                for key, value in entry.selector.match_labels.items()
            )
            for entry in service.spec.endpoints
        )


@dataclass(frozen=True, slots=True)
class RegionRule:
    """The rules that bind one service, together: requests go only to regions that all of them allow."""

    regions: frozenset[str]
    deployments: tuple[str, ...]

    def is_admitted(self, endpoint: ModelEndpoint) -> bool:
        """Return True if requests may go to an endpoint."""
        return endpoint.spec.region in self.regions

    def __str__(self) -> str:
        names = listing(f'"{name}"' for name in self.deployments)
        named = f"{kind_name(ModelDeployment)} {names}"
        if not self.regions:
            return f"{named} allow no region in common"
        verb = "allows" if len(self.deployments) == 1 else "allow"
        return f"{named} {verb} only {format_regions(self.regions)}"


def find_rule(
    service: ModelService, rules: Iterable[DeploymentRule], endpoints: Iterable[ModelEndpoint]
) -> RegionRule | None:
    """Return the rule of a service; None if no deployment binds it.

    A deployment also binds a service that selects one of its endpoints by labels of a former template.
    """
    decided = tuple(rules)
    if not decided:
        return None
    of = {
        endpoint.metadata.labels.get(labels.DEPLOYMENT) for endpoint in select_endpoints(service, endpoints)
    }
    bound = [rule for rule in decided if rule.deployment in of or rule.is_binding(service)]
    if not bound:
        return None
    regions = frozenset.intersection(*(rule.regions for rule in bound))
    return RegionRule(regions, tuple(sorted(rule.deployment for rule in bound)))


@dataclass(frozen=True, slots=True)
class Admitted:
    """The endpoints of a namespace to which requests of a service may go, and the selected ones left out."""

    endpoints: tuple[ModelEndpoint, ...]
    outside: tuple[ModelEndpoint, ...] = ()
    rule: RegionRule | None = None

    @property
    def rejected(self) -> Rejected | None:
        """The endpoints left out, and why; None if there are none."""
        if not self.outside:
            return None
        named = listing(
            f'"{endpoint.metadata.name}" ({describe_place(endpoint.spec.region)})'
            for endpoint in self.outside
        )
        return Rejected(
            subject=f"{kind_name(ModelEndpoint)} {named}", detail=f"receives no requests, because {self.rule}"
        )

    def list_refusals(self) -> Iterator[tuple[ModelEndpoint, str]]:
        """Yield each endpoint left out, and why."""
        for endpoint in self.outside:
            yield endpoint, f"it is {describe_place(endpoint.spec.region)}, and {self.rule}"


def admit(
    service: ModelService, rules: Iterable[DeploymentRule], endpoints: tuple[ModelEndpoint, ...]
) -> Admitted:
    """Return the endpoints to which the rules let requests of a service go."""
    rule = find_rule(service, rules, endpoints)
    if rule is None:
        return Admitted(endpoints)
    inside = tuple(endpoint for endpoint in endpoints if rule.is_admitted(endpoint))
    outside = tuple(
        endpoint for endpoint in select_endpoints(service, endpoints) if not rule.is_admitted(endpoint)
    )
    return Admitted(inside, outside, rule)


def explain_unavailable(service: ModelService, admitted: Admitted) -> str:
    """Return the reason that clients get while every endpoint of a service is outside its regions."""
    name = f"{service.metadata.namespace}/{service.metadata.name}"
    why = admitted.rejected.message if admitted.rejected else admitted.rule
    return f'cannot serve {kind_name(ModelService)} "{name}": {why}'

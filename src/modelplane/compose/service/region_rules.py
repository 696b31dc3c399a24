"""Region rules of the ModelDeployments of a namespace, as services and caches read them.

Only the fields of the rule are read, so that a deployment whose other fields are invalid still has its rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelplane.api import labels
from modelplane.api.meta import API_VERSION, LocalReference, Model, ObjectMeta, kind_name
from modelplane.api.model_deployment import ModelDeployment, TemplateMetadata
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.composition import Blocked, Request, Requirement
from modelplane.compose.facts import CacheRequest, ServiceRequest
from modelplane.compose.memo import per_version
from modelplane.gateway.region_routing import Admitted, DeploymentRule, RegionRule, admit

KEY = "deployments"


class _Settings(Model):
    regions: tuple[str, ...] | None = None
    model_cache_ref: LocalReference | None = None


class _Template(Model):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: _Settings = _Settings()


class _Spec(_Settings):
    template: _Template | None = None


class _Ruled(Model):
    metadata: ObjectMeta
    spec: _Spec


@dataclass(frozen=True, slots=True)
class _Read:
    """Region rule and cache of a deployment, or the reason why they cannot be read."""

    rule: DeploymentRule | None = None
    cache: str = ""
    problem: str = ""


def requirement(namespace: str) -> Requirement:
    """Return the requirement of the deployments of a namespace."""
    return Requirement(KEY, API_VERSION, kind_name(ModelDeployment), namespace=namespace)


def admitted(request: ServiceRequest, endpoints: tuple[ModelEndpoint, ...]) -> Admitted | Blocked:
    """Return the endpoints to which requests of a service may go; Blocked if a rule cannot be read."""
    read = _all(request)
    if isinstance(read, Blocked):
        return read
    return admit(request.owner, [row.rule for row in read if row.rule], endpoints)


def of_cache(request: CacheRequest) -> RegionRule | Blocked | None:
    """Return the rule of a cache: the regions in which some deployment that uses it may be served.

    None if one of them has no rule, or none uses it; Blocked if a rule cannot be read.
    """
    read = _all(request)
    if isinstance(read, Blocked):
        return read
    users = [row for row in read if row.cache == request.owner.metadata.name]
    rules = [user.rule for user in users if user.rule]
    if not rules or len(rules) < len(users):
        return None
    regions = frozenset[str]().union(*(rule.regions for rule in rules))
    return RegionRule(regions, tuple(sorted(rule.deployment for rule in rules)))


def _all(request: Request[Any, Any]) -> tuple[_Read, ...] | Blocked:
    if unknown := request.unknown(KEY):
        return Blocked(f"cannot read the {KEY}: {unknown.cause}")
    read = tuple(map(_read, request.found(KEY)))
    problem = next((row.problem for row in read if row.problem), "")
    return Blocked(f"cannot read a region rule: {problem}") if problem else read


@per_version
def _read(deployment: Mapping[str, Any]) -> _Read:
    try:
        found = decode_as(_Ruled, deployment)
    except InvalidObject as error:
        return _Read(problem=str(error))
    template = found.spec.template
    settings: _Settings = found.spec if template is None else template.spec
    cache = settings.model_cache_ref.name if settings.model_cache_ref else ""
    if settings.regions is None:
        return _Read(cache=cache)
    name = found.metadata.name
    common = {**(template.metadata.labels if template else {}), labels.DEPLOYMENT: name}
    return _Read(DeploymentRule(name, frozenset(settings.regions), common), cache)

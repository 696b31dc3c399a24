"""Stable template: the one that a canary is compared with, which replicas beside it have.

It is read from its ControllerRevision, and its ModelCache from the namespace.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from modelplane import scheduler
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment, ReplicaSpec, ReplicaTemplate
from modelplane.api.schema.decode import InvalidObject, convert
from modelplane.compose.composition import Requirement
from modelplane.compose.deployment import fleet_snapshot
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.rollout.canary import Canary
from modelplane.compose.deployment.rollout.revisions import revision_name, template_of
from modelplane.compose.deployment.rollout.rollout_order import revision

CACHES: Final = "caches-of-namespace"


class Stable(msgspec.Struct, frozen=True):
    """The template that a canary is compared with, as far as it is known."""

    template: ReplicaTemplate | None = None
    """None if it is not known."""
    cache: scheduler.CacheFootprint | None = None
    """The clusters that its cache covers, if it has another one than the new template."""
    other_cache: bool = False
    """True if it has another cache than the new template, or none where that has one."""
    problem: str = ""
    """Reason for which no replica is placed with it, and a remedy; empty if there is none."""

    def has_places_of(self, other: ReplicaTemplate) -> bool:
        """Return True if replicas with another template have the same places."""
        return (
            not self.other_cache
            and self.template is not None
            and fleet_snapshot.same_needs(self.template, other)
        )


def requirements(deployment: ModelDeployment) -> tuple[Requirement, ...]:
    """Return what stable replicas require: the ModelCaches that former templates may name."""
    if deployment.spec.rollout is None or deployment.spec.rollout.canary is None:
        return ()
    return (Requirement(CACHES, API_VERSION, kind_name(ModelCache), deployment.metadata.namespace),)


def find_stable(request: DeploymentRequest, state: Canary) -> Stable:
    """Return the template that a canary is compared with, as far as it is known."""
    owner, revision_hash = request.owner, state.status.stable_revision
    template = stable_template(owner, state, request.observed)
    if template is None:
        kept = f'ControllerRevision "{revision_name(owner, revision_hash)}"'
        why = f"there is no {kept} with the template of revision {revision_hash}, which other replicas have"
        return Stable(problem=f"{why}: write that template to the deployment again")
    name = template.model_cache_name
    if name == owner.replica_template().model_cache_name:
        return Stable(template)
    cache = _cache(request, name) if name else None
    if isinstance(cache, str):
        return Stable(template, problem=f'ModelCache "{name}" of revision {revision_hash} {cache}')
    return Stable(template, cache, other_cache=True)


def _cache(request: DeploymentRequest, name: str) -> scheduler.CacheFootprint | str:
    """Return the clusters that a ModelCache covers, or why they are not known, as part of a sentence."""
    if unknown := request.unknown(CACHES):
        return f"cannot be read: {unknown.cause}: wait"
    found = [item for item in request.found(CACHES) if item["metadata"]["name"] == name]
    try:
        cache = fleet_snapshot.footprint(found)
    except InvalidObject as error:
        return f"cannot be read: {error}: correct it"
    return cache if cache.known else "is not there: create it again"


def stable_template(
    owner: ModelDeployment, state: Canary | None, observed: Mapping[str, Object]
) -> ReplicaTemplate | None:
    """Return the template that a canary is compared with; None without a canary, or if it is not known."""
    if state is None or not state.phase.has_stable:
        return None
    try:
        stored = convert(template_of(state.status.stable_revision, observed), ReplicaSpec)
    except msgspec.ValidationError:
        return None
    found = _with(owner, stored).replica_template()
    # A revision that another wrote is no template of this deployment.
    return found if revision(found) == state.status.stable_revision else None


def _with(owner: ModelDeployment, stored: ReplicaSpec) -> ModelDeployment:
    """Return a deployment with the fields that a revision keeps."""
    fields = {
        "engines": stored.engines,
        "model_cache_ref": stored.model_cache_ref,
        "serving": stored.serving,
    }
    spec, template = owner.spec, owner.spec.template
    if template is None:
        spec = msgspec.structs.replace(spec, **fields)
    else:
        inner = msgspec.structs.replace(template.spec, **fields)
        spec = msgspec.structs.replace(spec, template=msgspec.structs.replace(template, spec=inner))
    return msgspec.structs.replace(owner, spec=spec)

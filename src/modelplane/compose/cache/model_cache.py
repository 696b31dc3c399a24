"""A ModelCache stages weights on the clusters that it selects.

Each cluster gets a volume, and until the volume has the weights, a Job that downloads them, with a copy of
the token if one is needed. The status lists a cluster before anything is written to it, and until nothing
is left there. It also records staged weights, as ``artifact``, because the Job is deleted by then.

Weights are expensive. A volume is deleted only with the cache or with the InferenceCluster: not when a
selector, a label or a region rule changes, not while a cluster is unreachable, and not while a replica there
reads it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from modelplane import scheduler
from modelplane.api import labels
from modelplane.api.conditions.reasons import ModelCacheCondition as Type, ModelCacheReason as Reason
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.listing import listing
from modelplane.api.meta import API_VERSION, Object, kind_name
from modelplane.api.model_cache import CacheCluster, CacheEstimate, CachePhase, ModelCache
from modelplane.api.model_replica import ModelReplica
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.api.schema.untyped import get_map
from modelplane.compose import guards
from modelplane.compose.cache import cache_coverage, cache_size, staging_job
from modelplane.compose.cache.staging_sources import (
    SecretKeys,
    Source,
    find_source,
    measure_only,
    name_claim,
    set_size,
)
from modelplane.compose.cluster import cluster_namespace
from modelplane.compose.composition import Blocked, Composition, Desired, Keep, Requirement
from modelplane.compose.conditions import Condition, false, true
from modelplane.compose.facts import CacheRequest
from modelplane.compose.readiness import condition_of, exists, is_ready, is_true
from modelplane.compose.service import region_rules
from modelplane.gateway.region_routing import RegionRule

_CHILDREN = ("pvc", "auth", "hydrate")
_UNOBSERVED = "the cluster has not been observed yet"
_SEEN = {
    "pods": ("v1", "Pod"),
    "volumes": ("v1", "PersistentVolumeClaim"),
    "jobs": ("batch/v1", "Job"),
}
"""The objects on a cluster that must be read before the state of the cache there is known."""


@dataclass(frozen=True, slots=True)
class _Auth:
    """The Secret that the source names."""

    named: str = ""
    """The Secret and its keys, as messages name them; empty if the source needs none."""
    credentials: staging_job.Credentials | None = None
    unknown: str = ""
    """The reason for which the Secret could not be read."""

    @property
    def missing(self) -> bool:
        """True if a key is known to be missing."""
        return bool(self.named) and self.credentials is None and not self.unknown


@dataclass(frozen=True, slots=True)
class _Site:
    """The cache on one cluster."""

    name: str
    phase: CachePhase = CachePhase.PENDING
    artifact: str = ""
    message: str = ""
    children: tuple[Desired | Keep, ...] = ()
    matched: bool = True
    larger: bool = False
    """True if its volume is larger than requested."""
    waits: bool = False
    """True if it waits for replicas to leave."""
    estimate: CacheEstimate | None = None
    """The size that the source reported there just now."""

    def wire(self) -> dict[str, str]:
        """Return the entry of the status."""
        written = {"name": self.name, "phase": str(self.phase)}
        if self.artifact:
            written["artifact"] = self.artifact
        if self.message:
            written["message"] = self.message
        return written


def requirements(cache: ModelCache) -> tuple[Requirement, ...]:
    """Return the requirements of staging: clusters, token, users, and objects on recorded clusters."""
    namespace = cache.metadata.namespace
    source = find_source(cache.spec)
    secret = source.secret if source else None
    label = {labels.MODEL_CACHE: staging_job.format_cache_label(cache)}
    return (
        Requirement("clusters", API_VERSION, kind_name(InferenceCluster)),
        *([Requirement("auth-secret", "v1", "Secret", namespace, secret.name)] if secret else []),
        region_rules.requirement(namespace),
        Requirement("replicas", API_VERSION, kind_name(ModelReplica), namespace, triggers=False),
        cache_coverage.requirement(namespace),
        *(
            Requirement(f"{key}-{entry.name}", api_version, kind, namespace, "", label, entry.name)
            for entry in cache.status.clusters
            for key, (api_version, kind) in _SEEN.items()
        ),
        cluster_namespace.home(namespace),
        *(cluster_namespace.requirement(namespace, entry.name) for entry in cache.status.clusters),
    )


def compose(request: CacheRequest) -> Composition | Blocked:
    """Stage a cache on every cluster that it covers."""
    cache = request.owner
    for key in ("clusters", "replicas"):
        if unknown := request.unknown(key):
            return Blocked(f"cannot list the {key}: {unknown.cause}")
    source = find_source(cache.spec)
    if source is None:
        return Blocked(f"source {cache.spec.source} requires the field with its settings")
    regions = region_rules.of_cache(request)
    if isinstance(regions, Blocked):
        return regions
    auth = _auth(request, source)
    estimate = cache_size.recorded(cache, source)
    if estimate is not None:
        source = set_size(source, estimate.size_gib)
    sites = tuple(_sites(request, source, auth, regions))
    # Recorded first: volumes are made of the size that the status has.
    estimate = estimate or next((site.estimate for site in sites if site.estimate), None)
    matched = [site for site in sites if site.matched]
    staged = _staged(matched, auth)
    target = guards.Dependency("ModelCache", cache.metadata.namespace, cache.metadata.name)
    return Composition(
        children=tuple(child for site in sites for child in site.children),
        status={
            "summary": {"ready": f"{_count(matched, CachePhase.READY)}/{len(matched)}"},
            **({"estimate": cache_size.wire(estimate)} if estimate else {}),
            "clusters": [site.wire() for site in sites],
        },
        conditions=(cache_coverage.covered(cache, len(matched), regions), staged),
        ready=staged.holds,
        guards=guards.users_of(target, request.found("replicas")),
        unsatisfied=any(site.waits for site in sites),
    )


def _auth(request: CacheRequest, source: Source) -> _Auth:
    secret = source.secret
    if secret is None:
        return _Auth()
    named = _named(secret, next(iter(secret.required.values())))
    if unknown := request.unknown("auth-secret"):
        return _Auth(named, unknown=unknown.cause)
    data = next((get_map(found, "data") for found in request.found("auth-secret")), {})
    if missing := [key for key in secret.required.values() if not data.get(key)]:
        return _Auth(_named(secret, missing[0]))
    there = {key: data[key] for key in secret.keys.values() if data.get(key)}
    return _Auth(named, staging_job.Credentials(there))


def _named(secret: SecretKeys, key: str) -> str:
    return f'key "{key}" of Secret "{secret.name}"'


def _sites(request: CacheRequest, source: Source, auth: _Auth, regions: RegionRule | None) -> Iterator[_Site]:
    """Yield every cluster that is covered, or was written to and still exists."""
    recorded = {entry.name: entry for entry in request.owner.status.clusters}
    for found in sorted(request.found("clusters"), key=lambda found: str(found["metadata"]["name"])):
        name = found["metadata"]["name"]
        try:
            cluster = decode_as(InferenceCluster, found)
        except InvalidObject as error:
            if name in recorded:
                yield replace(_keep_last_state(recorded[name]), message=str(error))
            continue
        uncovered = cache_coverage.uncovered(request.owner, cluster, regions)
        if name in recorded:
            yield from _site(request, source, auth, recorded[name], cluster, uncovered)
        elif any(f"{child}-{name}" in request.observed for child in _CHILDREN):
            # Objects outlive a lost status.
            yield replace(_keep_last_state(CacheCluster(name=name)), message=_UNOBSERVED)
        elif not uncovered:
            # Recorded first, because objects on an unrecorded cluster would be orphaned.
            yield _Site(name, message=_UNOBSERVED)


def _keep_last_state(entry: CacheCluster) -> _Site:
    """Return a cluster in its last known state, with every child kept."""
    return _Site(
        entry.name,
        entry.phase or CachePhase.PENDING,
        entry.artifact or "",
        children=tuple(Keep(f"{child}-{entry.name}") for child in _CHILDREN),
    )


def _site(
    request: CacheRequest,
    source: Source,
    auth: _Auth,
    entry: CacheCluster,
    cluster: InferenceCluster,
    uncovered: Rejected | None,
) -> Iterator[_Site]:
    """Yield a cluster that the status lists; nothing if nothing is left there."""
    last = replace(_keep_last_state(entry), matched=not uncovered)
    unknowns = (request.unknown(f"{key}-{entry.name}") for key in _SEEN)
    if unknown := next(filter(None, unknowns), None):
        yield replace(last, message=f"cannot observe the cluster: {unknown.cause}")
        return
    if not uncovered:
        if rejected := _check_namespace(request, entry.name):
            yield replace(last, message=rejected.message)
            return
        yield _twin(request, entry.name) or _on_cluster(request, source, auth, entry, cluster)
        return
    if not any(f"{child}-{entry.name}" in request.observed for child in _CHILDREN):
        return
    if not cluster.metadata.deletion_timestamp:
        until = "the ModelCache or the InferenceCluster is deleted"
        if uncovered.reason is scheduler.Reason.OUTSIDE_REGIONS:
            # The weights stay, and a download ends.
            last = replace(last, children=(Keep(f"pvc-{entry.name}"),))
        yield replace(last, message=f"{uncovered.message}: the weights are kept until {until}")
    elif readers := _readers(request, entry.name):
        message = f"{uncovered.message}: the weights are kept until {listing(readers)} is gone"
        yield replace(last, message=message, waits=True)
    else:
        yield replace(last, message=f"{uncovered.message}: the weights are still on the cluster", children=())


def _check_namespace(request: CacheRequest, cluster: str) -> Rejected | None:
    """Return why nothing may be written into the namespace on a cluster; None if it may."""
    if unknown := request.unknown(cluster_namespace.key(cluster)):
        return Rejected(detail=f'cannot read Namespace "{request.owner.metadata.namespace}": {unknown.cause}')
    return cluster_namespace.rejected(request, cluster)


def _readers(request: CacheRequest, cluster: str) -> list[str]:
    """Return the replicas on a cluster that mount the cache."""
    metadata = request.owner.metadata
    cache = guards.Dependency("ModelCache", metadata.namespace, metadata.name)
    place = guards.Dependency(kind_name(InferenceCluster), "", cluster)
    return [
        f'ModelReplica "{replica["metadata"]["name"]}"'
        for replica in request.found("replicas")
        if guards.needs(replica, cache, place)
    ]


def _twin(request: CacheRequest, name: str) -> _Site | None:
    """Return the state of the cluster that this one is another name of; None if it is not.

    Two InferenceClusters can be one API server: then there is one volume, and one of them writes it.
    """
    for claim in request.found(f"volumes-{name}"):
        cluster = claim["metadata"].get("annotations", {}).get(labels.CHILD, "").removeprefix("pvc-")
        for entry in request.owner.status.clusters:
            if entry.name == cluster != name:
                message = f'the same cluster as InferenceCluster "{cluster}"'
                return replace(_keep_last_state(entry), name=name, message=message, children=())
    return None


def _on_cluster(
    request: CacheRequest,
    source: Source,
    auth: _Auth,
    entry: CacheCluster,
    cluster: InferenceCluster,
) -> _Site:
    """Return a cluster that is covered, listed and observed."""
    cache, name = request.owner, entry.name
    claim = request.observed.get(f"pvc-{name}")
    if claim is None and entry.artifact:
        if f"pvc-{name}" in request.facts.unobserved:
            return replace(_keep_last_state(entry), message=_UNOBSERVED)
        # Cleared first: a new volume would be empty, and be taken for the staged one.
        return _Site(name, message="the volume and its weights were deleted; staging the weights again")
    children, larger = _volume(cache, source, name, cluster, claim)
    wanted = source.artifact
    job = request.observed.get(f"hydrate-{name}")
    # While there is a Job, only the Job counts: it may have replaced the recorded artifact.
    staged = entry.artifact if job is None else is_ready(job) and staging_job.read_artifact(job)
    if staged == wanted and claim is not None and is_ready(claim):
        return _Site(name, CachePhase.READY, wanted, children=tuple(children), larger=larger)
    current = job
    waits = job is None and cache_coverage.must_wait(request, name)
    if not waits and auth.named and auth.credentials is None:
        # The right Job is unknown without the credentials; a running one may still finish.
        children += [Keep(key) for key in (f"auth-{name}", f"hydrate-{name}") if key in request.observed]
    elif not waits:
        filled = source if source.size_gib else measure_only(source)
        manifest = staging_job.build_job(cache, filled, auth.credentials)
        if job is not None and job["metadata"]["name"] != manifest["metadata"]["name"]:
            current = None
        if auth.credentials is not None:
            children.append(
                Desired(f"auth-{name}", staging_job.build_secret(cache, auth.credentials), exists, name)
            )
        children.append(Desired(f"hydrate-{name}", manifest, is_ready, name))
    remembered = "" if entry.artifact == wanted else entry.artifact or ""
    if not source.size_gib and current is not None:
        found = cache_size.read_estimate(source, current, request.found(f"pods-{name}"))
        if isinstance(found, str):
            return _Site(name, CachePhase.FAILED, remembered, f"{found}: set sizeGiB", tuple(children))
        if found is not None:
            return _Site(
                name, artifact=remembered, message=found.message, children=tuple(children), estimate=found
            )
    phase, message = _progress(request, source, auth, name, current)
    if waits:
        phase, message = CachePhase.PENDING, cache_coverage.WAITING
    return _Site(name, phase, remembered, message, tuple(children), waits=waits, larger=larger)


def _volume(
    cache: ModelCache, source: Source, name: str, cluster: InferenceCluster, claim: Object | None
) -> tuple[list[Desired | Keep], bool]:
    """Return the volume, once its size is known, and whether it is larger than requested."""
    if not source.size_gib:
        return ([] if claim is None else [Keep(f"pvc-{name}")]), False
    storage = cluster.status.cache.storage_class_name if cluster.status.cache else None
    volume = staging_job.build_volume(cache, source.size_gib, storage or "", claim)
    larger = claim is not None and staging_job.is_larger(source.size_gib, claim)
    return [Desired(f"pvc-{name}", volume, is_ready, name)], larger


def _progress(
    request: CacheRequest, source: Source, auth: _Auth, name: str, job: Object | None
) -> tuple[CachePhase, str]:
    """Return the phase of a cluster that does not have the weights yet, and what it waits for."""
    claim = request.observed.get(f"pvc-{name}", {})
    named = (
        f'PersistentVolumeClaim "{name_claim(request.owner.metadata.namespace, request.owner.metadata.name)}"'
    )
    if claim.get("status", {}).get("phase") == "Lost":
        return CachePhase.FAILED, f"{named} has lost its volume: delete it, and Modelplane creates it again"
    word = staging_job.describe_last_attempt(request.found(f"pods-{name}")) if job is not None else None
    if job is not None and is_true(job, "Failed"):
        told = word or condition_of(job, "Failed").get("message", "failed")
        message = (
            f'{told}; to retry, correct the cause and delete Job "{job["metadata"]["name"]}" on the cluster'
        )
        return CachePhase.FAILED, message
    has_volume = is_ready(claim)
    causes = (
        (auth.unknown, f"cannot read {auth.named}: {auth.unknown}"),
        (auth.missing and job is None, f"waiting for {auth.named}"),
        (word, word or ""),
        (not source.size_gib, f"getting the size from {source.name}"),
        (not claim, "the volume is being created"),
        (not has_volume, f"{named} is not bound to a volume yet"),
    )
    before = staging_job.describe_earlier_attempt(request.found(f"pods-{name}")) if job is not None else ""
    message = next((text for holds, text in causes if holds), f"downloading {source.name}{before}")
    return (CachePhase.HYDRATING if has_volume else CachePhase.PENDING), message


def _count(sites: list[_Site], phase: CachePhase) -> int:
    return sum(site.phase is phase for site in sites)


def _staged(matched: list[_Site], auth: _Auth) -> Condition:
    type_ = Type.ARTIFACT_READY
    if not matched:
        return false(type_, Reason.NO_CLUSTERS, "no cluster matches for staging weights")
    ready = _count(matched, CachePhase.READY)
    counts = f"the weights are ready on {ready} of {len(matched)} clusters"
    if larger := [site.name for site in matched if site.larger]:
        counts += f"; volumes can't shrink, and are still larger than sizeGiB on {listing(larger)}"
    if ready == len(matched):
        return true(type_, Reason.STAGED, counts)
    if auth.missing:
        message = f"{auth.named} doesn't exist in the namespace or is empty: create it; {counts}"
        return false(type_, Reason.AUTH_SECRET_MISSING, message)
    for phase, reason in ((CachePhase.FAILED, Reason.FAILED), (CachePhase.READY, Reason.PARTIAL)):
        if _count(matched, phase):
            return false(type_, reason, f"{counts}{_first(matched, phase)}")
    return false(type_, Reason.HYDRATING, f"{counts}{_first(matched, CachePhase.HYDRATING)}")


def _first(matched: list[_Site], phase: CachePhase) -> str:
    """Return what the first unfinished cluster waits for, one in the given phase before the others."""
    late = [site for site in matched if site.phase is not CachePhase.READY]
    late.sort(key=lambda site: (site.phase is not phase, site.name))
    return f"; {late[0].name}: {late[0].message}"

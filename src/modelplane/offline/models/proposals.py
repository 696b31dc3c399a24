"""A proposal for a model: the pool of a fleet that serves it best, the manifests, and their plan."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from modelplane.api.inference_class import InferenceClass
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.kinds import kind_of
from modelplane.api.meta import Object
from modelplane.api.rejected import Rejected
from modelplane.api.report_tables import Columns
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.offline.models.model_manifests import Engine, ModelSettings, build_manifests, choose_image
from modelplane.offline.models.size_report import PoolFit, find_pool_fits
from modelplane.offline.plan.fleet_of_files import assemble
from modelplane.offline.plan.placements import Plan, plan_manifests
from modelplane.sizing.hardware import Served
from modelplane.sizing.memory import Load

MOST_PLANS: Final = 8
"""Different manifests that are planned, those for the best pools first."""


class PoolRefusal(NamedTuple):
    """A pool that cannot serve the model."""

    cluster: str
    pool: str
    inference_class: str
    reason: str


REFUSALS: Final = Columns[PoolRefusal](
    ("CLUSTER", lambda refusal: refusal.cluster),
    ("POOL", lambda refusal: refusal.pool),
    ("CLASS", lambda refusal: refusal.inference_class),
    ("REASON", lambda refusal: refusal.reason),
)


class Proposal(NamedTuple):
    """The manifests for a pool, and where they place the replicas."""

    cluster: str
    pool: str
    served: Served
    manifests: tuple[Object, ...]
    plan: Plan


@dataclass(frozen=True, slots=True)
class Proposed:
    """The best proposal, or the reasons for which there is none."""

    best: Proposal | None
    refusals: tuple[PoolRefusal, ...]


class _Candidate(NamedTuple):
    cluster: str
    pool: str
    served: Served
    has_storage: bool


def propose(
    settings: ModelSettings, load: Load, objects: Iterable[Object], *, use_cache: bool, live: bool = False
) -> Proposed:
    """Return the manifests for the best pool that has room, else those for the best pool.

    The cheapest pool is the best if pools have prices, else the one with the fewest devices. Raises
    ``UserError``.
    """
    given = [*objects]
    served, refusals = _divided(settings, load, tuple(assemble(given, live=live).store), use_cache=use_cache)
    first: Proposal | None = None
    tried: list[tuple[Object, ...]] = []
    for candidate in served:
        written = build_manifests(settings, candidate.served, cached=use_cache and candidate.has_storage)
        if written in tried:
            continue
        tried.append(written)
        proposal = Proposal(*candidate[:3], written, plan_manifests(given, written, live=live))
        if proposal.plan.placed:
            return Proposed(proposal, refusals)
        first = first or proposal
        if len(tried) == MOST_PLANS:
            break
    return Proposed(first, refusals)


def _divided(
    settings: ModelSettings, load: Load, objects: Sequence[Object], *, use_cache: bool
) -> tuple[list[_Candidate], tuple[PoolRefusal, ...]]:
    """Return the pools that can serve the model, the best first, and the others."""
    served, refusals = [], []
    for fit in find_pool_fits(settings.model, load, _readable(objects)):
        cluster, storage = fit.cluster.metadata.name, fit.cluster.status.cache
        has_storage = bool(storage and storage.storage_class_name)
        result = _check_pool(settings, fit, has_cache=use_cache and has_storage)
        if isinstance(result, Rejected):
            refusals.append(PoolRefusal(cluster, fit.pool, fit.node.name, result.message))
        else:
            served.append(_Candidate(cluster, fit.pool, result, has_storage))
    currencies = Counter(
        candidate.served.node.currency for candidate in served if candidate.served.price is not None
    )
    currency = currencies.most_common(1)[0][0] if currencies else ""
    return sorted(served, key=lambda candidate: _rank(candidate, currency)), tuple(refusals)


def _check_pool(settings: ModelSettings, fit: PoolFit, *, has_cache: bool) -> Served | Rejected:
    """Return how a pool serves the model, or why the manifests cannot use it."""
    result = fit.result
    if isinstance(result, Rejected):
        return result
    if any(pool.spot for pool in fit.cluster.spec.node_pools if pool.name == fit.pool):
        detail = "the nodes are spot nodes, which the manifests do not allow"
        return Rejected(detail=detail, remedy="add spec.placement.spot to the manifests")
    if settings.claim and not has_cache:
        detail = "a folder needs a ModelCache, and the cluster has no storage for caches"
        return Rejected(detail=detail, remedy="name a repository")
    if settings.engine is Engine.SGLANG and result.nodes > 1:
        detail = f"the model requires {result.nodes} nodes, and only vLLM is supported on several nodes"
        return Rejected(detail=detail, remedy="use --engine vllm")
    if not (settings.image or choose_image(settings.engine, result.node.driver)):
        detail = f"no image for {settings.engine} is known for {result.node.driver}"
        return Rejected(detail=detail, remedy="set --image")
    return result


def _rank(candidate: _Candidate, currency: str) -> tuple[object, ...]:
    """Return the order: prices that can be compared, devices, nodes, and the smallest devices."""
    served = candidate.served
    price = served.price if served.node.currency == currency else None
    size = (served.split.gpus, served.nodes, served.node.memory)
    return (price is None, price or 0, *size, not candidate.has_storage, candidate.cluster, candidate.pool)


def _readable(objects: Sequence[Object]) -> Iterator[Object]:
    """Yield the classes and clusters that decode: one that does not must not cost the others."""
    types = {kind_of(kind_type).name: kind_type for kind_type in (InferenceClass, InferenceCluster)}
    for item in objects:
        if type_ := types.get(item["kind"]):
            try:
                decode_as(type_, item)
            except InvalidObject:
                continue
            yield item

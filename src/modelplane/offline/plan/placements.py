"""Reports on placements of deployments, existing or planned, with the reasons for those that failed."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, Literal

from modelplane import scheduler
from modelplane.api import money
from modelplane.api.listing import in_order
from modelplane.api.meta import Object
from modelplane.offline.explain.statuses import explain_not_ready
from modelplane.offline.files.diagnostics import ObjectName
from modelplane.offline.files.identities import get_identity
from modelplane.offline.files.report_documents import Output, Report
from modelplane.offline.plan import pool_reports
from modelplane.offline.plan.fleet_of_files import (
    Files,
    Placed,
    assemble,
    find_missing_cache,
    find_other_places,
    list_assumed_ready,
    place,
    sort_by_preference,
    take_snapshot,
)
from modelplane.offline.plan.pool_reports import find_lost_claims
from modelplane.scheduler.diagnosis import PHRASES


class State(StrEnum):
    """State of a replica after the placement."""

    NEW = "new"
    STAYS = "stays"
    DRAINING = "leaves"
    """The replica remains until its replacement is ready."""
    REMOVED = "goes"


class Claim(Output, frozen=True, kw_only=True):
    """Devices that each pod of a member claims."""

    name: str
    device_class_name: str
    count: int


class MemberReport(Output, frozen=True, kw_only=True):
    """A member of an engine, and the pool of its pods."""

    role: str
    pool: str
    spot: bool
    """True if the pool is spot."""
    pods: int
    claims: tuple[Claim, ...]


class EngineReport(Output, frozen=True, kw_only=True):
    """An engine, and the placement of its members."""

    name: str
    copies: int
    members: tuple[MemberReport, ...]


class CostReport(Output, frozen=True, kw_only=True):
    """Cost of the devices of replicas for an hour."""

    currency: str
    per_hour: str
    unpriced_replicas: int
    """Replicas that are not in the sum, because a price is not known."""


class Replica(Output, frozen=True, kw_only=True):
    """A replica."""

    state: State
    cluster: str
    index: int
    """Number of the replica among the deployment's on this cluster."""
    name: str
    """Name of the ModelReplica; empty for a new one."""
    reason: str
    """Reason of the placement, of the retention, or of the removal."""
    engines: tuple[EngineReport, ...]
    """Empty for one that is removed."""
    cost_per_hour: str
    """Cost in the currency of the deployment's; empty if a price is not known."""


class Compared(Output, frozen=True, kw_only=True):
    """A value of a device that a selector read."""

    name: str
    value: str


class ExclusionReport(Output, frozen=True, kw_only=True):
    """The first rule that refused a pool, or, if ``pool`` is empty, a cluster."""

    cluster: str
    pool: str
    engine: str
    rule: str
    """Name of the scheduler's reason, such as NoFreeNodes."""
    reason: str
    """The same reason as a phrase."""
    detail: str
    compared: tuple[Compared, ...]
    remedy: str
    """The change that ends this refusal, if the compared values show it; another rule may refuse then."""


class RemedyReport(Output, frozen=True, kw_only=True):
    """A change with which one more replica would fit, and the clusters that would take it."""

    change: str
    clusters: tuple[str, ...]


class Deployment(Output, frozen=True, kw_only=True):
    """One ModelDeployment, and the placement of its replicas."""

    name: ObjectName
    wanted: int
    placed: int
    diagnosis: str
    """Causes and remedies on one line, joined by ``; ``; empty if nothing is wrong."""
    replicas: tuple[Replica, ...]
    refusals: tuple[ExclusionReport, ...]
    remedies: tuple[RemedyReport, ...]
    notes: tuple[str, ...]
    cost: CostReport | None
    """Cost of all replicas that are there or new; null if no pool of the fleet has a price."""
    rollout: str
    """Progress of the rollout, with the reason for a wait; empty without ``spec.rollout``."""
    standby: str
    """Reason for which the replicas run or do not; empty without ``spec.standbyFor``."""


class Alternative(Output, frozen=True, kw_only=True):
    """A place for one more replica, after this placement."""

    cluster: str
    pools: tuple[str, ...]
    spot: bool
    """True if one of the pools is spot."""
    cost_per_hour: str
    """Empty if a price is not known."""
    stranded_devices: int
    """Devices of its nodes that it would not use, and that no other replica could."""


class Plan(Report, frozen=True, kw_only=True):
    """The document of ``modelplane plan -o json``."""

    kind: Literal["Plan"] = "Plan"
    placed: bool
    """True if every replica is placed."""
    deployments: tuple[Deployment, ...]
    pools: tuple[pool_reports.Pool, ...]
    assumed_ready: tuple[str, ...]
    """Clusters that are assumed ready because their files have no status."""


class Explanation(Report, frozen=True, kw_only=True):
    """The document of ``modelplane explain -o json``."""

    kind: Literal["Explanation"] = "Explanation"
    placed: bool
    reason: str
    """State and cause, by its status, if it is not ready; empty if it is, or has no status."""
    deployment: Deployment
    alternatives: tuple[Alternative, ...]
    """In the order in which the deployment's policy would take them, its replicas apart."""
    pools: tuple[pool_reports.Pool, ...]
    assumed_ready: tuple[str, ...]


def plan(files: Files, deployments: Iterable[Object]) -> Plan:
    """Place deployments one after the other, standbys after those they stand by for.

    Raises ``UserError``.
    """
    reports = []
    for deployment in sort_by_preference(deployments):
        placed = place(files, deployment)
        files = placed.files
        reports.append(_deployment(deployment, placed))
    return Plan(deployments=tuple(reports), **_summary(reports, files, pool_reports.report_pools(files)))


def plan_manifests(existing: Iterable[Object], written: Sequence[Object], *, live: bool) -> Plan:
    """Place the ModelDeployments of manifests over a fleet. Raises ``UserError``."""
    files = assemble(existing, written, live=live)
    identities = set(map(get_identity, written))
    return plan(
        files, [deployment for deployment in files.deployments if get_identity(deployment) in identities]
    )


def explain(files: Files, deployment: Object) -> Explanation:
    """Explain the placement of one deployment. Raises ``UserError``."""
    placed = place(files, deployment)
    report = _deployment(deployment, placed)
    return Explanation(
        reason=(explain_not_ready(deployment) or "") if deployment.get("status") else "",
        deployment=report,
        alternatives=_alternatives(placed, deployment),
        **_summary([report], placed.files, pool_reports.report_pools(placed.files)),
    )


def explain_briefly(files: Files, deployment: Object, most_pools: int) -> Explanation:
    """Explain the placement of one deployment as a page has room for. Raises ``UserError``.

    Of more pools than ``most_pools``, only those that its replicas use are reported; alternatives only if
    they have prices to compare. The rest of a large fleet is then not read.
    """
    placed = place(files, deployment)
    report = _deployment(deployment, placed)
    fleet, used = take_snapshot(placed.files), find_used_pools([report])
    if sum(len(cluster.pools) for cluster in fleet.clusters) <= most_pools:
        pools = pool_reports.report_pools(placed.files)
    else:
        reports = pool_reports.report_pools(placed.files, {cluster for cluster, _ in used})
        pools = tuple(pool for pool in reports if (pool.cluster, pool.pool) in used)
    return Explanation(
        reason=(explain_not_ready(deployment) or "") if deployment.get("status") else "",
        deployment=report,
        alternatives=() if report.cost is None else _alternatives(placed, deployment),
        **_summary([report], placed.files, pools),
    )


def explain_replicas(files: Files, deployment: Object) -> tuple[Replica, ...]:
    """Return the replicas of an explained deployment, without the rest of its fleet."""
    return _deployment(deployment, place(files, deployment)).replicas


def find_used_pools(deployments: Iterable[Deployment]) -> frozenset[tuple[str, str]]:
    """Return cluster and pool of each pod of deployments."""
    return frozenset(
        (replica.cluster, member.pool)
        for deployment in deployments
        for replica in deployment.replicas
        for engine in replica.engines
        for member in engine.members
    )


def _alternatives(placed: Placed, deployment: Object) -> tuple[Alternative, ...]:
    places = find_other_places(placed.files, deployment)
    return tuple(
        Alternative(
            cluster=option.cluster,
            pools=tuple(dict.fromkeys(member.pool for engine in option.engines for member in engine.members)),
            spot=option.spot,
            cost_per_hour=_price(option.cost if places.currency else None),
            stranded_devices=option.cost.stranded,
        )
        for option in places.places
    )


def _price(cost: scheduler.Cost | None) -> str:
    return "" if cost is None or cost.unpriced else money.format_amount(cost.price)


def _summary(
    reports: Sequence[Deployment], files: Files, pools: tuple[pool_reports.Pool, ...]
) -> dict[str, Any]:
    """Return the fields that plans and explanations have in common."""
    return {
        "placed": all(report.placed >= report.wanted for report in reports),
        "pools": pools,
        "assumed_ready": list_assumed_ready(files),
    }


def _deployment(deployment: Object, placed: Placed) -> Deployment:
    placement, files = placed.placement, placed.files
    diagnosis = placement.diagnosis
    sentence = diagnosis.describe()
    if diagnosis.unsatisfied and (cache := find_missing_cache(deployment, files)):
        here, remedy = (
            ("there is no", "create it")
            if files.live
            else ("no file contains", "also pass the file that contains it")
        )
        sentence += f'; {here} ModelCache "{cache}": {remedy}, or correct modelCacheRef'
    lost = tuple(
        dict.fromkeys(
            claim
            for assignment in placement.assignments
            for claim in find_lost_claims(files, assignment.cluster, assignment.engines)
        )
    )
    if lost:
        sentence = "; ".join(filter(None, (sentence, in_order(lost, separator="; "))))
    return Deployment(
        name=ObjectName.of(deployment),
        wanted=diagnosis.wanted,
        placed=diagnosis.placed,
        diagnosis=sentence,
        replicas=(*map(_replica, placement.assignments), *map(_removed, placement.dropped)),
        refusals=tuple(_report_exclusion(exclusion, files) for exclusion in diagnosis.excluded),
        remedies=tuple(
            RemedyReport(change=suggestion.change, clusters=tuple(suggestion.clusters))
            for suggestion in diagnosis.remedies
        ),
        notes=(*diagnosis.notes, *lost),
        cost=_cost(placement),
        rollout=placed.rollout,
        standby=placed.standby,
    )


def _cost(placement: scheduler.Placement) -> CostReport | None:
    if not placement.currency:
        return None
    return CostReport(
        currency=placement.currency,
        per_hour=money.format_amount(placement.price),
        unpriced_replicas=placement.unpriced,
    )


_FITS: Final = "the cluster fits and has enough capacity"
_SURGE: Final = "in addition during the rollout; the cluster fits and has enough capacity"


def _replica(assignment: scheduler.Assignment) -> Replica:
    staying = State.STAYS if assignment.retained else State.NEW
    return Replica(
        state=State.DRAINING if assignment.leaving else staying,
        cluster=assignment.cluster,
        index=assignment.index,
        name=assignment.replica,
        reason=assignment.reason or (_SURGE if assignment.surge else _FITS),
        engines=tuple(_engine(engine, assignment.spot_pools) for engine in assignment.engines),
        cost_per_hour=_price(assignment.cost),
    )


def _removed(dropped: scheduler.Dropped) -> Replica:
    return Replica(
        state=State.REMOVED,
        cluster=dropped.cluster,
        index=dropped.index,
        name=dropped.replica,
        reason=dropped.reason,
        engines=(),
        cost_per_hour="",
    )


def _engine(engine: scheduler.PlacedEngine, spot_pools: Sequence[str]) -> EngineReport:
    members = tuple(
        MemberReport(
            role=str(member.role),
            pool=member.pool,
            spot=member.pool in spot_pools,
            pods=member.pods,
            claims=tuple(
                Claim(name=claim.name, device_class_name=claim.device_class_name, count=claim.count)
                for claim in member.claims
            ),
        )
        for member in engine.members
    )
    return EngineReport(name=engine.name, copies=engine.copies, members=members)


def _report_exclusion(exclusion: scheduler.Exclusion, files: Files) -> ExclusionReport:
    why = exclusion.why
    lacks_classes = why.reason is scheduler.Reason.NOT_READY and exclusion.cluster in files.assumed
    return ExclusionReport(
        cluster=exclusion.cluster,
        pool=exclusion.pool,
        engine=exclusion.engine,
        rule=why.reason,
        reason=PHRASES[why.reason].format(subject=why.subject),
        detail=why.detail,
        compared=tuple(Compared(name=read.name, value=read.text) for read in exclusion.reads),
        remedy="also pass the files of the InferenceClasses" if lacks_classes else why.remedy,
    )

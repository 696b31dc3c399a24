"""Documents of placements, existing or planned, with the reasons for those that failed."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal

from modelplane import scheduler
from modelplane.compose.composition import Object
from modelplane.offline.diagnostics import ObjectName
from modelplane.offline.fleet import Files, assumed_ready, missing_cache, place, snapshot
from modelplane.offline.output import Output, Report
from modelplane.scheduler.diagnosis import PHRASES


class State(StrEnum):
    """State of a replica in a plan."""

    NEW = "new"
    STAYS = "stays"
    LEAVES = "leaves"
    """It stays until its replacement is ready."""
    GOES = "goes"


class Claim(Output, frozen=True, kw_only=True):
    """Devices that each pod of a member claims."""

    name: str
    device_class_name: str
    count: int


class PlacedMember(Output, frozen=True, kw_only=True):
    """A member of an engine, and the pool that its pods are in."""

    role: str
    pool: str
    pods: int
    claims: tuple[Claim, ...]


class PlacedEngine(Output, frozen=True, kw_only=True):
    """An engine, and the placement of its members."""

    name: str
    copies: int
    members: tuple[PlacedMember, ...]


class Replica(Output, frozen=True, kw_only=True):
    """A replica."""

    state: State
    cluster: str
    """Empty for one that is deleted."""
    index: int
    name: str
    """Name of the ModelReplica; empty for a new one."""
    reason: str
    """Reason for its placement or its deletion."""
    engines: tuple[PlacedEngine, ...]


class Compared(Output, frozen=True, kw_only=True):
    """A value of a device that a selector read."""

    name: str
    value: str


class Refusal(Output, frozen=True, kw_only=True):
    """The first rule that rejected a pool, or, if ``pool`` is empty, a cluster."""

    cluster: str
    pool: str
    engine: str
    rule: str
    """Rule in one word, such as NoFreeNodes."""
    reason: str
    """The same as a sentence."""
    detail: str
    compared: tuple[Compared, ...]
    remedy: str
    """Change that would lift this refusal, if known; another refusal may follow."""


class Remedy(Output, frozen=True, kw_only=True):
    """A change with which one more replica would fit, and the clusters for it."""

    change: str
    clusters: tuple[str, ...]


class Deployment(Output, frozen=True, kw_only=True):
    """A ModelDeployment, with its replicas."""

    name: ObjectName
    wanted: int
    placed: int
    diagnosis: str
    """One sentence; empty if nothing is wrong."""
    replicas: tuple[Replica, ...]
    refusals: tuple[Refusal, ...]
    remedies: tuple[Remedy, ...]
    notes: tuple[str, ...]


class Amount(Output, frozen=True, kw_only=True):
    """Nodes of a pool, or devices of one entry of its class."""

    name: str
    total: int
    taken: int
    free: int


class Pool(Output, frozen=True, kw_only=True):
    """Free capacity of a pool after all placements."""

    cluster: str
    pool: str
    accounting: str
    nodes: int
    amounts: tuple[Amount, ...]


class Plan(Report, frozen=True, kw_only=True):
    """Document of ``modelplane plan -o json``."""

    kind: Literal["Plan"] = "Plan"
    placed: bool
    """True if every replica is placed."""
    deployments: tuple[Deployment, ...]
    pools: tuple[Pool, ...]
    assumed_ready: tuple[str, ...]
    """Clusters that are assumed ready because their files have no status."""


class Explanation(Report, frozen=True, kw_only=True):
    """Document of ``modelplane explain -o json``."""

    kind: Literal["Explanation"] = "Explanation"
    placed: bool
    deployment: Deployment
    pools: tuple[Pool, ...]
    assumed_ready: tuple[str, ...]


def plan(files: Files, deployments: Iterable[Object]) -> Plan:
    """Place deployments one after the other. Raises ``Unplannable``."""
    placed = tuple(_deployment(each, place(files, each), files) for each in deployments)
    return Plan(
        placed=all(each.placed >= each.wanted for each in placed),
        deployments=placed,
        pools=_pools(files),
        assumed_ready=assumed_ready(files),
    )


def explain(files: Files, deployment: Object) -> Explanation:
    """Explain the placements of one deployment. Raises ``Unplannable``."""
    explained = _deployment(deployment, place(files, deployment), files)
    return Explanation(
        placed=explained.placed >= explained.wanted,
        deployment=explained,
        pools=_pools(files),
        assumed_ready=assumed_ready(files),
    )


def _deployment(deployment: Object, placement: scheduler.Placement, files: Files) -> Deployment:
    diagnosis = placement.diagnosis
    sentence = diagnosis.sentence()
    if diagnosis.short and (cache := missing_cache(deployment, files)):
        here, remedy = ("there is no", "create it") if files.live else ("no file has", "give its file too")
        sentence += f'; {here} ModelCache "{cache}": {remedy}, or correct modelCacheRef'
    metadata = deployment["metadata"]
    return Deployment(
        name=ObjectName(
            api_version=deployment["apiVersion"],
            kind=deployment["kind"],
            namespace=metadata["namespace"],
            name=metadata["name"],
        ),
        wanted=diagnosis.wanted,
        placed=diagnosis.placed,
        diagnosis=sentence,
        replicas=(*map(_replica, placement.assignments), *map(_gone, placement.dropped)),
        refusals=tuple(_refusal(each, files) for each in diagnosis.refusals),
        remedies=tuple(
            Remedy(change=each.change, clusters=tuple(each.clusters)) for each in diagnosis.remedies
        ),
        notes=tuple(diagnosis.notes),
    )


_WHY: Final = {
    State.NEW: "the cluster fits and has room",
    State.STAYS: "it exists and still fits: nothing is moved that need not move",
}


def _replica(assignment: scheduler.Assignment) -> Replica:
    staying = State.STAYS if assignment.retained else State.NEW
    state = State.LEAVES if assignment.leaving else staying
    return Replica(
        state=state,
        cluster=assignment.cluster,
        index=assignment.index,
        name=assignment.replica,
        reason=assignment.reason or _WHY.get(state, ""),
        engines=tuple(_engine(engine) for engine in assignment.engines),
    )


def _gone(dropped: scheduler.Dropped) -> Replica:
    return Replica(
        state=State.GOES, cluster="", index=0, name=dropped.replica, reason=dropped.reason, engines=()
    )


def _engine(engine: scheduler.PlacedEngine) -> PlacedEngine:
    members = tuple(
        PlacedMember(
            role=str(member.role),
            pool=member.pool,
            pods=member.pods,
            claims=tuple(
                Claim(name=claim.name, device_class_name=claim.device_class_name, count=claim.count)
                for claim in member.claims
            ),
        )
        for member in engine.members
    )
    return PlacedEngine(name=engine.name, copies=engine.copies, members=members)


def _rule(reason: scheduler.Reason) -> str:
    return "".join(word.capitalize() for word in reason.name.split("_"))


RANKS: Final = {_rule(reason): int(reason) for reason in scheduler.Reason}
"""Order in which rules are evaluated."""


def _refusal(refusal: scheduler.Refusal, files: Files) -> Refusal:
    unready = refusal.reason is scheduler.Reason.NOT_READY and refusal.cluster in files.assumed
    return Refusal(
        cluster=refusal.cluster,
        pool=refusal.pool,
        engine=refusal.engine,
        rule=_rule(refusal.reason),
        reason=PHRASES[refusal.reason].format(subject=refusal.subject),
        detail=refusal.detail,
        compared=tuple(Compared(name=read.name, value=read.text) for read in refusal.reads),
        remedy="give the files of its classes too" if unready else refusal.remedy,
    )


def _pools(files: Files) -> tuple[Pool, ...]:
    return tuple(
        Pool(
            cluster=used.cluster,
            pool=used.pool,
            accounting=str(used.accounting),
            nodes=used.nodes,
            amounts=tuple(
                Amount(name=each.name, total=each.total, taken=each.taken, free=each.free)
                for each in used.amounts
            ),
        )
        for used in scheduler.usage(snapshot(files))
    )

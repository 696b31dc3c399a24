"""Example manifests placed on the fleet that they describe: every cluster runs, and nothing else is there."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from modelplane import scheduler
from modelplane.api.decode import decode_as
from modelplane.api.inference_cluster import InferenceCluster
from modelplane.api.meta import API_VERSION
from modelplane.api.model_cache import ModelCache
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.reasons import InferenceClusterReason as Reason
from modelplane.compose import fleet
from modelplane.compose.composition import Composition, Desired, Request, Requirement
from modelplane.compose.kinds import COMPOSERS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Manifest = dict[str, Any]
Kinds = Mapping[str, Mapping[str, Manifest]]

_NOW = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Planned:
    """Where the replicas of one deployment go, and what is said of those that go nowhere.

    A place is ``cluster: pools``, with the pool of every member in order; a refusal is ``cluster/pool Rule``.
    """

    places: tuple[str, ...]
    refusals: tuple[str, ...] = ()
    sentence: str = ""


def place(cluster: str, pools: Iterable[str]) -> str:
    """Write a place."""
    return f"{cluster}: {', '.join(pools)}"


def refusal(cluster: str, pool: str, rule: str) -> str:
    """Write a refusal, of a pool or of the whole cluster."""
    return f"{cluster}/{pool} {rule}" if pool else f"{cluster} {rule}"


def files(paths: Iterable[str]) -> Iterator[Path]:
    """Yield files, and those of folders but not of folders below, as ``kubectl apply -f`` finds them."""
    for path in paths:
        found = EXAMPLES / path
        yield from sorted(found.glob("*.yaml")) if found.is_dir() else [found]


def documents(path: Path) -> list[Manifest]:
    """Return the objects of a file."""
    return list(yaml.safe_load_all(path.read_text()))


@dataclass(frozen=True, slots=True)
class Applied:
    """What stands after some steps: the objects, the clusters as they run, and where replicas are."""

    kinds: Kinds
    clusters: Mapping[str, Manifest]
    placements: Mapping[str, scheduler.Placement]


def applied(steps: Iterable[Iterable[str]]) -> Applied:
    """Apply files step by step; each step places its deployments one by one, as they are given."""
    state = Applied({}, {}, {})
    for step in steps:
        kinds = _applied(state.kinds, (each for path in files(step) for each in documents(path)))
        running = {name: _running(each, kinds) for name, each in kinds.get("InferenceCluster", {}).items()}
        state = Applied(kinds, running, _placements(kinds, running, state.placements))
    return state


def _applied(before: Kinds, objects: Iterable[Manifest]) -> Kinds:
    """Return the objects of ours by kind and name; a step may replace one, but not name it twice."""
    added: dict[str, dict[str, Manifest]] = {}
    for each in objects:
        if each["apiVersion"] == API_VERSION:
            known = added.setdefault(each["kind"], {})
            name = each["metadata"]["name"]
            assert name not in known, f"there are two of {each['kind']} {name}"
            known[name] = each
    return {kind: {**before.get(kind, {}), **added.get(kind, {})} for kind in {**before, **added}}


def _placements(
    kinds: Kinds, running: Mapping[str, Manifest], before: Mapping[str, scheduler.Placement]
) -> Mapping[str, scheduler.Placement]:
    clusters = tuple(fleet.cluster(each) for each in running.values())
    others = tuple(fleet.replica(each) for each in kinds.get("ModelReplica", {}).values())
    placements = dict(before)
    for name, each in kinds.get("ModelDeployment", {}).items():
        source = decode_as(ModelDeployment, each)
        deployment = replace(fleet.deployment(source, _footprint(source, kinds)), uid=name)
        replicas = tuple(replica for owner in placements for replica in _replicas(owner, placements[owner]))
        placements[name] = scheduler.schedule(scheduler.Fleet(clusters, others + replicas), deployment)
    return placements


def _replicas(owner: str, placement: scheduler.Placement) -> Iterator[scheduler.Replica]:
    for each in placement.assignments:
        yield scheduler.Replica(
            namespace="ml-team",
            name=f"{owner}-{each.cluster}-{each.index}",
            deployment_uid=owner,
            deployment_name=owner,
            cluster=each.cluster,
            index=each.index,
            engines=each.engines,
            ready=True,
        )


def _running(manifest: Manifest, kinds: Kinds) -> Manifest:
    """Return a cluster that has everything but classes that are missing, with what it would publish."""
    cluster = decode_as(InferenceCluster, manifest)
    composition = _compose(manifest, kinds)
    waiting = [each.message for each in composition.conditions if each.reason == Reason.WAITING_FOR_CLASSES]
    status = dict(composition.status)
    status |= {
        "gateway": {"address": "192.0.2.1"},
        "capabilities": {"dra": True, "leaderWorkerSet": True, "inferencePool": True},
        "conditions": [
            {
                "type": "Ready",
                "status": "False" if waiting else "True",
                "reason": "Creating" if waiting else "Available",
                "message": waiting[0] if waiting else "",
                "lastTransitionTime": _NOW,
            }
        ],
    }
    return {**manifest, "status": status}


def composed(manifest: Manifest, state: Applied) -> Composition:
    """Compose an object where all that was applied is there, and every cache is staged."""
    staged = [{"name": name, "phase": "Ready"} for name in state.clusters]
    caches = {
        name: {**cache, "status": {"clusters": staged}}
        for name, cache in state.kinds.get("ModelCache", {}).items()
    }
    return _compose(manifest, {**state.kinds, "InferenceCluster": state.clusters, "ModelCache": caches})


def desired(composition: Composition) -> dict[str, Manifest]:
    """Return the manifests that a composition wants to be, by key."""
    return {child.key: dict(child.manifest) for child in composition.children if isinstance(child, Desired)}


def _compose(manifest: Manifest, kinds: Kinds) -> Composition:
    composer = COMPOSERS[manifest["kind"]]
    owner = decode_as(composer.type, manifest)
    required = {each.key: _there(each, kinds) for each in composer.requirements(owner)}
    return composer.compose(Request(owner, {}, required))


def _there(requirement: Requirement, kinds: Kinds) -> tuple[Manifest, ...]:
    known = kinds.get(requirement.kind, {})
    if not requirement.name:
        return tuple(known.values())
    return (known[requirement.name],) if requirement.name in known else ()


def _footprint(deployment: ModelDeployment, kinds: Kinds) -> scheduler.CacheFootprint | None:
    name = deployment.replica_template().model_cache_name
    if name is None:
        return None
    found = kinds.get("ModelCache", {}).get(name)
    if found is None:
        return scheduler.CacheFootprint(False)
    selector = decode_as(ModelCache, found).spec.cluster_selector
    return scheduler.CacheFootprint(True, dict(selector.match_labels) if selector else {})


def planned(placement: scheduler.Placement) -> Planned:
    """Return a placement in the words of a row."""
    diagnosis = placement.diagnosis
    return Planned(
        tuple(place(each.cluster, _pools(each)) for each in placement.assignments),
        tuple(
            refusal(each.cluster, each.pool, each.reason.name.title().replace("_", ""))
            for each in diagnosis.refusals
        ),
        diagnosis.sentence(),
    )


def _pools(assignment: scheduler.Assignment) -> Iterator[str]:
    return (member.pool for engine in assignment.engines for member in engine.members)

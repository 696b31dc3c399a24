"""Example manifests placed on the fleet that they describe: every cluster runs, and nothing else is there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from modelplane import scheduler
from modelplane.api.meta import API_VERSION, Object
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.kinds import COMPOSERS
from modelplane.offline.files.identities import add_uids, make_original
from modelplane.offline.plan import fleet_of_files
from modelplane.offline.plan.fleet_of_files import Files

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Manifest = dict[str, Any]


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
    """What stands after some steps: every object of ours, and where the replicas of each deployment are."""

    files: Files
    objects: tuple[Object, ...]
    placements: dict[str, scheduler.Placement]

    def list_kind(self, kind: str) -> list[Object]:
        """Return the objects of a kind that were applied."""
        return [each for each in self.objects if each["kind"] == kind]

    def of_kind_now(self, kind: str) -> list[Object]:
        """Return the objects of a kind that are there, those among them that were made."""
        return [each for each in self.files.store if each["kind"] == kind]


def applied(steps: Iterable[Iterable[str]]) -> Applied:
    """Apply files step by step; each step places every deployment, in the order in which they came."""
    state = fleet_of_files.assemble(())
    objects: dict[tuple[str, str], Object] = {}
    placements: dict[str, scheduler.Placement] = {}
    for step in steps:
        found = [each for path in files(step) for each in documents(path)]
        ours = [each for each in found if each["apiVersion"] == API_VERSION]
        names = [(each["kind"], each["metadata"]["name"]) for each in ours]
        assert len(set(names)) == len(names), f"an object is there twice: {names}"
        # With what was there before, whose uids are made of names and so stay the same.
        there = add_uids([*objects.values(), *ours])
        for each in there[len(objects) :]:
            objects[each["kind"], each["metadata"]["name"]] = each
            state.store.add(each)
        for each in found:
            if each["kind"] == "PriorityClass":
                state.store.add(each)
        fleet_of_files.assume_ready(state.store)
        deployments = [each for (kind, _), each in objects.items() if kind == "ModelDeployment"]
        placements = {}
        for each in deployments:
            placed = fleet_of_files.place(state, each)
            state, placements[each["metadata"]["name"]] = placed.files, placed.placement
    return Applied(state, tuple(objects.values()), placements)


def composed(manifest: Object, state: Applied) -> Composition:
    """Compose an object where all that was applied is there, with its Secrets, and every cache is staged."""
    store = state.files.store
    staged = [
        {"name": each["metadata"]["name"], "phase": "Ready"} for each in state.list_kind("InferenceCluster")
    ]
    composer = COMPOSERS[manifest["kind"]]
    owner = decode_as(composer.type, manifest)
    required = {each.key: store.find(each) or make_original(each) for each in composer.requirements(owner)}
    if "cache" in required:
        required["cache"] = tuple({**each, "status": {"clusters": staged}} for each in required["cache"])
    decided = composer.compose(Request(owner, {}, required, composer.facts()))
    assert isinstance(decided, Composition), (manifest["kind"], manifest["metadata"]["name"], decided)
    return decided


def desired(composition: Composition) -> dict[str, Manifest]:
    """Return the manifests that a composition wants to be, by key."""
    return {child.key: dict(child.manifest) for child in composition.children if isinstance(child, Desired)}


def planned(placement: scheduler.Placement) -> Planned:
    """Return a placement in the words of a row."""
    diagnosis = placement.diagnosis
    return Planned(
        tuple(place(each.cluster, _pools(each)) for each in placement.assignments),
        tuple(refusal(each.cluster, each.pool, each.why.reason) for each in diagnosis.excluded),
        diagnosis.describe(),
    )


def _pools(assignment: scheduler.Assignment) -> Iterator[str]:
    return (member.pool for engine in assignment.engines for member in engine.members)

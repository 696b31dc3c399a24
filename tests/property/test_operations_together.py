"""Drains, failover, rollouts with surge, shrinking capacity and scaling, all at once, in simulated time.

A tick is 20 seconds. In each one faults and edits happen, clusters report, and every deployment is composed
and written in random order. What is true of a cluster and what the control plane sees of it are separate.
"""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings, strategies as st

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.deployment import model_deployment
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.deployment.rollout_limits import compute_limits
from modelplane.deciders.cluster_health import (
    ClusterSeen,
    ClusterState,
    Evidence,
    Memory,
    Move,
    Observation,
    Witness,
    Witnesses,
    step,
)
from modelplane.offline.plan.fleet_of_files import assemble
from support.manifests import CLASS, DEPLOYMENT, cluster, joined, loaded
from support.seeds import drawn

TICK_S = 20.0
STARTS = 3
"""Ticks that a replica takes to start."""
NODES = 3
SITES = ("a", "b", "c", "d")
DRAIN = {"key": "modelplane.ai/drain", "effect": "NoSchedule"}


class Site:
    """A cluster: whether the API server answers, its replicas do, and what may be used of it."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item
        self.name = item["metadata"]["name"]
        self.answers = self.serves = True
        self.usable = NODES
        self.drains = False

    def witnesses(self) -> Witnesses:
        def witness(good: bool) -> Witness:
            return Witness(Evidence.GOOD) if good else Witness(Evidence.BAD, "silent")

        return Witnesses(witness(self.answers), witness(self.serves))

    def seen(self, number: int, memory: Memory) -> dict[str, Any]:
        """Return the InferenceCluster as the control plane has it."""
        item = copy.deepcopy(self.item)
        item["metadata"]["resourceVersion"] = str(number)
        item["spec"]["taints"] = [DRAIN] if self.drains else []
        if self.usable < NODES:
            item["status"]["gpuPools"][0]["usable"] = {"nodes": self.usable}
        standing = memory.standings[self.name]
        told = {
            "status": str(self.answers),
            "message": standing.cause,
            "lastTransitionTime": "2026-06-01T00:00:00Z",
        }
        item["status"]["conditions"] = [
            {"type": "Ready", "reason": "R", **told},
            {"type": "Reachable", "reason": str(standing.state), **told},
        ]
        return item


class Running:
    """What a cluster runs of a replica: an image, since a tick."""

    def __init__(self, image: str, since: int) -> None:
        self.image, self.since = image, since


def image_of(replica: dict[str, Any]) -> str:
    image: str = replica["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]
    return image


def staying(replica: dict[str, Any]) -> bool:
    return not replica["spec"].get("draining") and "deletionTimestamp" not in replica["metadata"]


class World:
    """A fleet, its deployments, and the children of each by key."""

    def __init__(self, random: Random) -> None:
        self.random = random
        files = assemble(
            loaded(joined(CLASS, *(cluster(each, nodes=NODES) for each in SITES), DEPLOYMENT)).objects
        )
        (owner,) = files.deployments
        found = {
            each.key: files.store.find(each)
            for each in model_deployment.requirements(decode_as(ModelDeployment, owner))
        }
        self.sites = {each["metadata"]["name"]: Site(copy.deepcopy(dict(each))) for each in found["clusters"]}
        self.owners = {f"d{at}": self._owner(copy.deepcopy(dict(owner)), f"d{at}") for at in range(3)}
        self.children: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in self.owners}
        self.running: dict[str, Running] = {}
        self.memory = Memory()
        self.tick = self.number = 0

    def _owner(self, owner: dict[str, Any], name: str) -> dict[str, Any]:
        owner["metadata"] |= {"name": name, "uid": name}
        surge = self.random.randint(0, 1)
        least = 0 if surge else 1
        owner["spec"] |= {
            "replicas": self.random.randint(1, 2),
            "rollout": {"maxSurge": surge, "maxUnavailable": self.random.randint(least, 1)},
        }
        if self.random.random() < 0.7:
            owner["spec"]["failover"] = {"after": "1m"}
        return owner

    def replicas(self, name: str) -> dict[str, dict[str, Any]]:
        return {key: each for key, each in self.children[name].items() if each["kind"] == "ModelReplica"}

    def all(self) -> Iterator[dict[str, Any]]:
        for name in self.owners:
            yield from self.replicas(name).values()

    def serves(self, replica: dict[str, Any]) -> bool:
        """Return whether a replica answers requests, and will after all that is written is applied."""
        runs = self.running[replica["metadata"]["name"]]
        return (
            staying(replica)
            and self.sites[replica["spec"]["clusterName"]].serves
            and self.is_started(runs)
            and runs.image == image_of(replica)
        )

    def is_started(self, runs: Running) -> bool:
        return runs.image != "bad" and self.tick - runs.since >= STARTS

    def serving(self, name: str) -> set[str]:
        return {key for key, each in self.replicas(name).items() if self.serves(each)}

    def happen(self) -> None:
        """Let one thing happen to a cluster or to a deployment."""
        site = self.sites[self.random.choice(SITES)]
        spec = self.random.choice(list(self.owners.values()))["spec"]
        match self.random.randrange(12):
            case 0:
                self.fail(site)
            case 1 | 2:
                for each in self.sites.values():
                    each.answers = each.serves = True
            case 3:
                site.drains = not site.drains
            case 4:
                site.usable = self.random.randint(0, NODES)
            case 5:
                spec["replicas"] = self.random.randint(1, 2)
            case 6 | 7:
                self.edit(spec, self.random.choice(("good", "better", "bad")))
            case 8:
                spec["rollout"]["paused"] = self.random.random() < 0.5
            case 9:
                surge = self.random.randint(0, 1)
                spec["rollout"] |= {"maxSurge": surge, "maxUnavailable": self.random.randint(1 - surge, 1)}
            case _:
                pass

    def fail(self, site: Site) -> None:
        """Let a cluster fail, or only its API server; at most one at a time, so that others can take over."""
        if all(each.answers for each in self.sites.values()):
            site.answers, site.serves = False, self.random.random() < 0.3
            if not site.serves and self.random.random() < 0.5:
                for replica in self.all():
                    if replica["spec"]["clusterName"] == site.name:
                        self.running[replica["metadata"]["name"]].since = self.tick + 5

    def edit(self, spec: dict[str, Any], image: str) -> None:
        spec["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"] = image

    def observe(self) -> None:
        """Let clusters that answer apply what is written, and report; the others stay as they were seen."""
        for name, own in self.children.items():
            self.children[name] = {key: each for key, each in own.items() if not self._is_gone(each)}
        for replica in self.all():
            if not self.sites[replica["spec"]["clusterName"]].answers:
                said = replica.get("status", {}).get("conditions", ())
                kept = [each for each in said if each["type"] != "ModelAccepted"]
                text = f'cluster "{replica["spec"]["clusterName"]}" is unreachable: silent'
                replica["status"] = {
                    "conditions": [*kept, self._condition(replica, "ModelAccepted", False, text)]
                }
                continue
            runs = self.running[replica["metadata"]["name"]]
            behind = runs.image != image_of(replica)
            if behind and self.random.random() < 0.5:
                runs.image, runs.since, behind = image_of(replica), self.tick, False
            reason = "Updating" if behind else "R"
            withdrawn = not staying(replica)
            replica["status"] = {
                "conditions": [
                    {**self._condition(replica, "ModelAccepted", True), "reason": reason},
                    self._condition(replica, "Ready", self.is_started(runs)),
                    self._condition(replica, "ModelReady", self.is_started(runs)),
                    self._condition(replica, "RoutingReady", not withdrawn),
                ]
            }

    def _is_gone(self, child: dict[str, Any]) -> bool:
        return "deletionTimestamp" in child["metadata"] and self.sites[child["spec"]["clusterName"]].answers

    def _condition(
        self, replica: dict[str, Any], type_: str, holds: bool, message: str = ""
    ) -> dict[str, Any]:
        return {
            "type": type_,
            "status": str(holds),
            "reason": "ClusterUnreachable" if message else "R",
            "message": message,
            "lastTransitionTime": "2026-06-01T00:00:00Z",
            "observedGeneration": replica["metadata"]["generation"],
        }

    def watch(self) -> None:
        moves = []
        for name, owner in self.owners.items():
            if "failover" not in owner["spec"]:
                continue
            own = [each for each in self.replicas(name).values() if staying(each)]
            known = sum(self.serves(each) and self.sites[each["spec"]["clusterName"]].answers for each in own)
            for at in {each["spec"]["clusterName"] for each in own}:
                count = sum(each["spec"]["clusterName"] == at for each in own)
                moves.append(Move(at, name, 60.0, count, known >= owner["spec"]["replicas"]))
        seen = {name: ClusterSeen(site.witnesses(), name) for name, site in self.sites.items()}
        self.memory = step(self.memory, Observation(seen, tuple(moves)), self.tick * TICK_S)

    def compose(self, name: str) -> None:
        """Compose a deployment and write its children, and check what that takes down."""
        owner = decode_as(ModelDeployment, self.owners[name])
        self.number += 1
        found = {
            "clusters": tuple(each.seen(self.number, self.memory) for each in self.sites.values()),
            "replicas": tuple(self.all()),
        }
        watched = self.memory.report_for_deployment(name) if owner.spec.failover else None
        request = Request(owner, dict(self.children[name]), found, DeploymentFacts(watched=watched))
        composed = model_deployment.compose(request)
        assert isinstance(composed, Composition)
        served, there = self.serving(name), sum(map(staying, self.replicas(name).values()))
        self._write(name, composed)
        self._check(name, owner, served, there)

    def _write(self, name: str, composed: Composition) -> None:
        own = self.children[name]
        asked = {each.key for each in composed.children}
        for key in set(own) - asked:
            if own[key]["kind"] == "ModelReplica" and not self.sites[own[key]["spec"]["clusterName"]].answers:
                own[key] = copy.deepcopy(own[key])
                own[key]["metadata"]["deletionTimestamp"] = "2026-06-01T00:00:00Z"
            else:
                del own[key]
        for each in composed.children:
            if isinstance(each, Desired):
                own[each.key] = self._written(own.get(each.key), each, name)
            else:
                assert each.key in own

    def _written(self, there: dict[str, Any] | None, child: Desired, owner: str) -> dict[str, Any]:
        manifest = copy.deepcopy(dict(child.manifest))
        if there is None:
            if manifest["kind"] == "ModelReplica":
                self._placed(manifest)
            owners = [{"apiVersion": "", "kind": "", "name": "", "uid": owner, "controller": True}]
            own = {
                "uid": f"{owner}/{manifest['metadata']['name']}",
                "generation": 1,
                "ownerReferences": owners,
            }
            own["creationTimestamp"] = f"2026-06-01T{self.tick // 60 % 24:02}:{self.tick % 60:02}:00Z"
            return {**manifest, "metadata": {**manifest["metadata"], **own}}
        generation = there["metadata"]["generation"] + (manifest.get("spec") != there.get("spec"))
        annotations = {
            **there["metadata"].get("annotations", {}),
            **manifest["metadata"].get("annotations", {}),
        }
        own = {**manifest["metadata"], "annotations": annotations, "generation": generation}
        return {**there, **manifest, "metadata": {**there["metadata"], **own}}

    def _placed(self, replica: dict[str, Any]) -> None:
        site = self.sites[replica["spec"]["clusterName"]]
        assert site.answers, "placed on a cluster that does not answer"
        assert not site.drains, "placed on a cluster that drains"
        held = sum(each["spec"]["clusterName"] == site.name for each in self.all())
        assert held < site.usable, f"{site.name} is overcommitted at {self.tick}"
        self.running[replica["metadata"]["name"]] = Running(image_of(replica), self.tick)

    def _check(self, name: str, owner: ModelDeployment, served: set[str], there: int) -> None:
        """Check what a composition took down: of ``there`` replicas, ``served`` served before."""
        after, serving = self.replicas(name), self.serving(name)
        lost = served - serving
        edited = {key for key in lost if key in after and staying(after[key])}
        replicas = owner.spec.replicas
        if lost - edited:
            assert len(serving | edited) >= min(replicas, len(served)), (name, self.tick, "removed", lost)
        if edited:
            least = min(replicas, there) - compute_limits(owner).unavailable
            assert len(serving) >= least, (name, self.tick, "edited", edited, serving)

    def pass_tick(self, *, quiet: bool = False) -> None:
        self.tick += 1
        if not quiet:
            self.happen()
        self.observe()
        self.watch()
        turns = [*self.owners, self.random.choice(sorted(self.owners))]
        for name in self.random.sample(turns, len(turns)):
            self.compose(name)

    @property
    def is_converged(self) -> bool:
        return (
            {each.state for each in self.memory.standings.values()} == {ClusterState.REACHABLE}
            and all(map(self.serves, self.all()))
            and all(image_of(each) == "good" for each in self.all())
            and all(
                len(self.replicas(name)) == owner["spec"]["replicas"] for name, owner in self.owners.items()
            )
        )


@settings(max_examples=drawn(8), deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**32))
@example(1114)  # one that cannot be seen was removed before one that is known not to serve
@example(1250)  # two replicas were marked as surge, where one was asked for
@example(6939)  # a replica that is no longer withdrawn was written twice, and did not count as serving
@example(40718)  # a replica that leaves is being updated, and was counted on
def test_all_operations_at_once_take_nothing_that_serves_and_end_as_asked(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - not for secrets
    world = World(random)
    for _ in range(STARTS + 2):
        world.pass_tick(quiet=True)
    for _ in range(40):
        world.pass_tick()
    for site in world.sites.values():
        site.answers = site.serves = True
        site.usable, site.drains = NODES, False
    drained = world.sites[random.choice(SITES)]
    drained.drains = random.random() < 0.5
    for owner in world.owners.values():
        world.edit(owner["spec"], "good")
        owner["spec"]["rollout"]["paused"] = False
    for _ in range(300):
        world.pass_tick(quiet=True)
        if world.is_converged and not (
            drained.drains and any(each["spec"]["clusterName"] == drained.name for each in world.all())
        ):
            return
    pytest.fail(f"seed {seed} does not converge")

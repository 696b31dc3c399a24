"""Deployments that stand by for one another, reconciled step by step over clusters in memory, with a clock.

They are those of the example: FP8 on Hopper, else BF16 on two GPUs, else INT4 on one L4.
"""

import copy
import datetime as dt
from pathlib import Path
from typing import Any

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose import owner_status
from modelplane.compose.composition import Composition, Desired, Request, Requirement
from modelplane.compose.conditions import join_same_type
from modelplane.compose.deployment import model_deployment
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.deployment.replica_state import serves
from modelplane.compose.readiness import condition_of
from modelplane.offline.files.sources import Source
from modelplane.offline.files.store import load
from modelplane.offline.plan.fleet_of_files import assemble

FP8, BF16, INT4 = "gemma-fp8", "gemma-bf16", "gemma-int4"
HOPPER, AMPERE, ADA = "hopper", "ampere", "ada"
START = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "topologies" / "standby"


class SteppedVariants:
    """The example's deployments, with their replicas, on clusters whose nodes come and go."""

    def __init__(self, nodes: int = 2, starts_s: int = 60) -> None:
        sources = [Source(path.name, path.read_text()) for path in sorted(_EXAMPLE.glob("*.yaml"))]
        files = assemble(load(sources).objects)
        self._clusters = {
            each["metadata"]["name"]: copy.deepcopy(dict(each))
            for each in files.store
            if each["kind"] == "InferenceCluster"
        }
        self.deployments: dict[str, dict[str, Any]] = {}
        self.children: dict[str, dict[str, dict[str, Any]]] = {}
        for each in files.deployments:
            self.add(each)
        found = (each for each in files.store if each["kind"] == "InferenceAutoscaler")
        self.autoscalers = tuple(copy.deepcopy(dict(each)) for each in found)
        self.starts_s = starts_s
        self.broken: set[str] = set()
        """Deployments whose replicas do not serve."""
        self.now = START
        self.watching_since = START
        self.changes: list[tuple[int, str, bool]] = []
        """Each change of a standby: the second, the deployment, and True if it is active now."""
        self.written = 0
        for name in self._clusters:
            self.nodes(name, nodes)

    def add(self, deployment: Any, name: str = "") -> None:
        """Create a deployment like another one."""
        item = copy.deepcopy(dict(deployment))
        name = name or item["metadata"]["name"]
        item["metadata"] = {**item["metadata"], "name": name, "uid": name, "generation": 1}
        item["metadata"].pop("resourceVersion", None)
        self.deployments[name] = item
        self.children[name] = {}

    def nodes(self, cluster: str, count: int) -> None:
        """Set the number of nodes of a cluster's pool; replicas that are there stay."""
        for pool in self._clusters[cluster]["status"]["gpuPools"]:
            pool["nodes"] = count
        self._clusters[cluster]["metadata"].pop("resourceVersion", None)

    def evict(self, cluster: str) -> None:
        """Lose the replicas on a cluster, as if somebody deleted them."""
        for children in self.children.values():
            for key in [key for key, each in children.items() if each["spec"]["clusterName"] == cluster]:
                del children[key]

    def edit(self, name: str, **spec: Any) -> None:
        """Change the spec of a deployment."""
        self.deployments[name]["spec"] |= spec
        self.deployments[name]["metadata"]["generation"] += 1

    def stand_by(self, deployment: str, **settings: Any) -> None:
        """Change what a deployment stands by for."""
        before = self.deployments[deployment]["spec"].get("standbyFor", {})
        self.edit(deployment, standbyFor={**before, **settings})

    def restart(self, down_s: int = 0) -> None:
        """Start the controllers anew after a time in which nothing was reconciled."""
        self.now += dt.timedelta(seconds=down_s)
        self.watching_since = self.now

    def serving(self, name: str) -> int:
        """Return how many replicas of a deployment serve."""
        return sum(serves(each) for each in self.children[name].values())

    def running(self) -> dict[str, int]:
        """Return how many replicas of each deployment exist, of those that have some."""
        return {name: len(found) for name, found in self.children.items() if found}

    def active(self, name: str) -> bool:
        """Return True if a standby is active."""
        return bool((self.deployments[name].get("status", {}).get("standby") or {}).get("active"))

    def said(self, name: str, type_: str = "StandbyActive") -> tuple[str, str, str]:
        """Return status, reason and message of a condition of a deployment."""
        found = condition_of(self.deployments[name], type_)
        return found["status"], found["reason"], found.get("message", "")

    def compose(self, name: str, *, offline: bool = False) -> Composition:
        """Compose a deployment as it is now."""
        owner = decode_as(ModelDeployment, self.deployments[name])
        every = [each for children in self.children.values() for each in children.values()]
        found: dict[str, Any] = {
            "clusters": tuple(copy.deepcopy(list(self._clusters.values()))),
            "replicas": tuple(copy.deepcopy(every)),
            "deployments": tuple(copy.deepcopy(list(self.deployments.values()))),
            "autoscalers": copy.deepcopy(self.autoscalers),
            "quotas": (),
        }
        required = {each.key: found[each.key] for each in self.requirements(name)}
        facts = DeploymentFacts(watching_since=self.watching_since, observes_capacity=True)
        observed = copy.deepcopy(self.children[name])
        request = Request(owner, observed, required, facts, self.now)
        if offline:
            request = Request(owner, observed, required, DeploymentFacts())
        composition = model_deployment.compose(request)
        assert isinstance(composition, Composition)
        return composition

    def reconcile(self, name: str) -> Composition:
        """Compose a deployment and write the result, as the controllers do."""
        composition, was = self.compose(name), self.active(name)
        self.children[name] = {
            each.key: self._child(name, each)
            for each in composition.children
            if isinstance(each, Desired) or each.key in self.children[name]
        }
        item = self.deployments[name]
        told = item.get("status", {}).get("conditions", ())
        time = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = owner_status.encode_conditions(
            join_same_type(composition.conditions), told, item["metadata"]["generation"], time
        )
        wanted = {**composition.status, "conditions": conditions}
        self.written += item.get("status") != wanted
        item["status"] = wanted
        if self.active(name) != was:
            self.changes.append((round((self.now - START).total_seconds()), name, self.active(name)))
        return composition

    def _child(self, name: str, child: Any) -> dict[str, Any]:
        there = self.children[name].get(child.key)
        if not isinstance(child, Desired):
            assert there is not None
            return there
        manifest = copy.deepcopy(dict(child.manifest))
        if there is None:
            owners = [{"apiVersion": "", "kind": "", "name": "", "uid": name, "controller": True}]
            metadata = {**manifest["metadata"], "uid": f"{name}/{child.key}", "ownerReferences": owners}
            return {**manifest, "metadata": {**metadata, "generation": 1}, "born": self.now}
        before, after = ({"draining": False, **each["spec"]} for each in (there, manifest))
        generation = there["metadata"]["generation"] + (before != after)
        return {**there, **manifest, "metadata": {**there["metadata"], "generation": generation}}

    def report(self) -> None:
        """Let the clusters report every replica: it serves when it has had time to start."""
        for name, children in self.children.items():
            for each in children.values():
                is_up = (self.now - each["born"]).total_seconds() >= self.starts_s
                is_up = is_up and name not in self.broken
                announced = is_up and not each["spec"].get("draining")
                each["status"] = {
                    "conditions": [
                        _condition(type_, holds, each["metadata"]["generation"])
                        for type_, holds in (
                            ("Ready", is_up),
                            ("ModelReady", is_up),
                            ("RoutingReady", announced),
                        )
                    ]
                }

    def requirements(self, name: str) -> tuple[Requirement, ...]:
        """Return what the composition of a deployment reads."""
        return model_deployment.requirements(decode_as(ModelDeployment, self.deployments[name]))

    def step_only(self, seconds: int, name: str) -> None:
        """Let time pass in which only one deployment is reconciled."""
        self.now += dt.timedelta(seconds=seconds)
        self.reconcile(name)

    def wait(self, seconds: int) -> None:
        """Let time pass in which only clusters report."""
        self.now += dt.timedelta(seconds=seconds)
        self.report()

    def step(self, seconds: int) -> None:
        """Let time pass, and let everything react to it."""
        self.wait(seconds)
        for name in self.deployments:
            self.reconcile(name)

    def run(self, seconds: int, each_s: int = 10) -> None:
        """Let time pass in steps."""
        for _ in range(seconds // each_s):
            self.step(each_s)


def _condition(type_: str, holds: bool, generation: int) -> dict[str, Any]:
    return {
        "type": type_,
        "status": str(holds),
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-06-01T00:00:00Z",
        "observedGeneration": generation,
    }

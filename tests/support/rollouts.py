"""A ModelDeployment that is reconciled step by step over clusters in memory, with a clock of its own."""

import copy
import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from modelplane.api import labels
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose import owner_status
from modelplane.compose.composition import Composition, Desired, Request, Requirement
from modelplane.compose.deployment import model_deployment
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.readiness import holds
from modelplane.deciders.canary import UNDECIDED, Decision, Observed, Outcome
from modelplane.offline.plan.fleet_of_files import assemble
from support.manifests import CLASS, DEPLOYMENT, cluster, joined, loaded

GOOD, BETTER, BAD = "engine:1", "engine:2", "engine:bad"
START = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
TIME = "2026-06-01T00:00:00Z"


def _condition(type_: str, holds_: bool, generation: int, message: str = "") -> dict[str, Any]:
    return {
        "type": type_,
        "status": str(holds_),
        "reason": "R",
        "message": message,
        "lastTransitionTime": TIME,
        "observedGeneration": generation,
    }


class SteppedRollout:
    """A deployment, its children by key, and what the last reconcile reported."""

    def __init__(
        self, replicas: int, rollout: dict[str, Any] | None, nodes: int = 4, others: Sequence[str] = ()
    ) -> None:
        clusters = (cluster("east", nodes=nodes), cluster("west", nodes=nodes))
        files = assemble(loaded(joined(CLASS, *clusters, DEPLOYMENT, *others)).objects)
        self.owner: dict[str, Any] = copy.deepcopy(dict(files.deployments[0]))
        self.owner["metadata"]["uid"] = "u"
        self.owner["spec"]["replicas"] = replicas
        if rollout is not None:
            self.owner["spec"]["rollout"] = rollout
        self.children: dict[str, dict[str, Any]] = {}
        self.now = START
        self.canary: Observed | None = UNDECIDED
        self.find: Callable[[Requirement], Any] = files.store.find
        self.composition = Composition()
        self.edit(GOOD)

    def edit(self, image: str) -> None:
        """Write another image."""
        (engine,) = self.owner["spec"]["engines"]
        engine["members"][0]["template"]["spec"]["containers"][0]["image"] = image

    def replicas(self) -> dict[str, dict[str, Any]]:
        """Return the replicas that exist, by key."""
        return {key: each for key, each in self.children.items() if each["kind"] == "ModelReplica"}

    def revisions(self) -> dict[int, str]:
        """Return the image of each revision by number."""
        return {
            each["revision"]: _image(each["data"]["spec"])
            for each in self.children.values()
            if each["kind"] == "ControllerRevision"
        }

    def serving(self) -> set[str]:
        """Return the keys of replicas that serve."""
        return {
            key
            for key, each in self.replicas().items()
            if holds(each, "Ready") and not each["spec"].get("draining")
        }

    def images(self) -> list[str]:
        """Return the images of the replicas that are not leaving, sorted."""
        return sorted(
            _image(each["spec"]) for each in self.replicas().values() if not each["spec"].get("draining")
        )

    def reconcile(self, *, offline: bool = False) -> Composition:
        """Compose and write once, as the controllers do; offline there is no clock."""
        owner = decode_as(ModelDeployment, self.owner)
        found: dict[str, Any] = {each.key: self.find(each) for each in model_deployment.requirements(owner)}
        found["replicas"] = tuple(self.replicas().values())
        composition = model_deployment.compose(
            Request(
                owner,
                copy.deepcopy(self.children),
                found,
                DeploymentFacts(self.canary),
                None if offline else self.now,
            )
        )
        assert isinstance(composition, Composition)
        before = self.children
        self.children = {each.key: self._written(each) for each in composition.children if self._stays(each)}
        assert all(each.key in before for each in composition.children if not isinstance(each, Desired))
        told = self.owner.get("status", {}).get("conditions", ())
        conditions = owner_status.encode_conditions(composition.conditions, told, 1, TIME)
        self.owner["status"] = {**composition.status, "conditions": conditions}
        self.composition = composition
        return composition

    def _stays(self, child: Any) -> bool:
        return isinstance(child, Desired) or child.key in self.children

    def _written(self, child: Any) -> dict[str, Any]:
        there = self.children.get(child.key)
        if not isinstance(child, Desired):
            assert there is not None
            return there
        manifest = copy.deepcopy(dict(child.manifest))
        if there is None:
            owners = [{"apiVersion": "", "kind": "", "name": "", "uid": "u", "controller": True}]
            metadata = {**manifest["metadata"], "uid": child.key, "generation": 1, "ownerReferences": owners}
            return {**manifest, "metadata": metadata}
        # A server fills in the default, so to leave it out later changes nothing.
        before, after = ({"draining": False, **each.get("spec", {})} for each in (there, manifest))
        generation = there["metadata"]["generation"] + (before != after)
        # Server-side apply removes what the manifest no longer has.
        annotations = manifest["metadata"].get("annotations", {})
        own = {**manifest["metadata"], "annotations": annotations, "generation": generation}
        return {**there, **manifest, "metadata": {**there["metadata"], **own}}

    def report(self, key: str, *, broken: bool = False) -> None:
        """Let a replica's cluster apply and report its present spec; a bad image does not serve."""
        replica = self.replicas()[key]
        serves = not broken and _image(replica["spec"]) != BAD
        generation = replica["metadata"]["generation"]
        said = "" if serves else "ErrImagePull"
        withdrawn = bool(replica["spec"].get("draining"))
        replica["status"] = {
            "conditions": [
                _condition("Ready", serves, generation),
                _condition("ModelReady", serves, generation, said),
                _condition("RoutingReady", serves and not withdrawn, generation),
            ]
        }

    def settle(self, rounds: int = 60) -> None:
        """Reconcile, and let every replica report, until nothing changes."""
        for _ in range(rounds):
            before = copy.deepcopy((self.children, self.owner))
            self.reconcile()
            for key in self.replicas():
                self.report(key)
            if before == (self.children, self.owner):
                return
        raise AssertionError(f"not settled: {self.owner['status']}")

    def decide(self, outcome: Outcome, message: str) -> None:
        """Let the present step of the canary be decided, and settle."""
        known = self.owner["status"]["rollout"]["canary"]
        self.canary = Observed(
            known["revision"], known["step"], known["stepStartTime"], Decision(outcome, message)
        )
        self.now += dt.timedelta(seconds=1)
        self.settle()

    def weights(self) -> list[tuple[str, str]]:
        """Return the image of each replica that takes requests, and its share of a canary, sorted."""
        return sorted(
            (_image(each["spec"]), each["metadata"].get("annotations", {}).get(labels.CANARY_WEIGHT, ""))
            for key, each in self.replicas().items()
            if key in self.serving()
        )

    def said(self) -> tuple[str, str, str]:
        """Return status, reason and message of the condition Progressing."""
        (found,) = (each for each in self.owner["status"]["conditions"] if each["type"] == "Progressing")
        return found["status"], found["reason"], found.get("message", "")


def _image(spec: dict[str, Any]) -> str:
    image: str = spec["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]
    return image

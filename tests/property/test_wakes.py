"""Wake-ups: what each deployment and quota was reconciled to last is what it would be reconciled to now.

They are reconciled only when the controllers would: when they or their children change, when an object
changes that they watch, when another owner wakes them, and when their time is over. If a decision followed
from an object whose change wakes nobody, it would stand until something else happens.
"""

import copy
import datetime as dt
from random import Random
from typing import Any

from hypothesis import Phase, given, settings, strategies as st

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose import guards, owner_status
from modelplane.compose.composition import Composition, Desired, Request, Requirement
from modelplane.compose.deployment.deployment_facts import DeploymentFacts
from modelplane.compose.deployment.replica_state import is_draining
from modelplane.compose.kinds import COMPOSERS
from modelplane.compose.readiness import condition_of
from modelplane.controllers.interests import Interests, OwnerKey
from modelplane.offline.plan.fleet_of_files import assemble, convert_to_plain
from support.manifests import API, CLASS, DEPLOYMENT, cluster, joined, loaded

Item = dict[str, Any]
START = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
TICK = dt.timedelta(seconds=20)
STARTS = dt.timedelta(seconds=60)
CALM = 45
"""Ticks without a change after which nothing is awaited: longer than the times of a standby and a quota."""
PRIORITIES = {"low": 10, "mid": 100, "high": 1000}
TEAMS = ("a", "b", "c")
TAINTS: tuple[list[Item], ...] = (
    [],
    [],
    [{"key": "modelplane.ai/drain", "effect": "NoSchedule"}],
    [{"key": "x", "effect": "NoSchedule"}],
    [{"key": "x", "effect": "NoExecute"}],
)


def quota(team: str, nominal: int) -> Item:
    """Return a quota of one team, in the cohort of all."""
    spec = {
        "namespaces": [team],
        "cohort": "all",
        "classes": [{"className": "l4", "nominalQuota": nominal}],
        "priorityClassNames": [*PRIORITIES],
        "preemption": {"withinCohort": "LowerPriority"},
    }
    return {"apiVersion": API, "kind": "DeviceQuota", "metadata": {"name": f"of-{team}"}, "spec": spec}


class World:
    """The objects of a control plane, and the owners that wait to be reconciled."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, Random(seed)  # noqa: S311 - not for secrets
        self.objects: dict[OwnerKey, Item] = {}
        self.interests = Interests()
        self.waiting: dict[OwnerKey, None] = {}
        self.timers: dict[OwnerKey, dt.datetime] = {}
        self.born: dict[str, dt.datetime] = {}
        self.now, self.version = START, 0
        clusters = (cluster(each, nodes=self.random.randint(1, 3)) for each in ("east", "west"))
        for item in assemble(loaded(joined(CLASS, *clusters)).objects).store:
            self.put(copy.deepcopy(dict(item)))
        for name, value in PRIORITIES.items():
            metadata = {"name": name}
            api_version = "scheduling.k8s.io/v1"
            self.put(
                {"apiVersion": api_version, "kind": "PriorityClass", "metadata": metadata, "value": value}
            )

    @property
    def time(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def of(self, kind: str) -> list[Item]:
        return [each for each in self.objects.values() if each["kind"] == kind]

    def put(self, item: Item) -> None:
        """Write an object, as a server would, and wake whom that concerns."""
        self.version += 1
        # Results are cached by uid and version.
        defaults = {"uid": f"{self.seed}-{self.version}", "generation": 1, "creationTimestamp": self.time}
        version = {"resourceVersion": f"{self.seed}-{self.version}"}
        item = {**copy.deepcopy(item), "metadata": {**defaults, **item["metadata"], **version}}
        self.born.setdefault(item["metadata"]["uid"], self.now)
        self.objects[_key(item)] = item
        self._changed(item)

    def remove(self, item: Item) -> None:
        self.objects.pop(_key(item), None)
        self._changed(item)

    def edit(self, item: Item, **spec: Any) -> None:
        metadata = {**item["metadata"], "generation": item["metadata"]["generation"] + 1}
        self.put({**item, "spec": {**item["spec"], **spec}, "metadata": metadata})

    def _changed(self, item: Item) -> None:
        key = _key(item)
        if key.kind in ("ModelDeployment", "DeviceQuota"):
            self.waiting[key] = None
        for owner in item["metadata"].get("ownerReferences", ()):
            self.waiting[OwnerKey("ModelDeployment", key.namespace, owner["name"])] = None
        self.waiting |= dict.fromkeys(self.interests.triggered_by(item, ""))

    def find(self, requirement: Requirement) -> tuple[Item, ...]:
        return tuple(each for each in self.of(requirement.kind) if requirement.matches(each))

    def children(self, owner: Item) -> dict[str, Item]:
        return {
            each["metadata"]["annotations"]["key"]: each
            for each in self.objects.values()
            for reference in each["metadata"].get("ownerReferences", ())
            if reference["uid"] == owner["metadata"]["uid"]
        }

    def composed(self, key: OwnerKey) -> tuple[tuple[Requirement, ...], Request[Any, Any], Composition]:
        """Compose an owner from what is stored now."""
        kind, owner = COMPOSERS[key.kind], self.objects[key]
        decoded = decode_as(kind.type, owner)
        required = kind.required(decoded, self.find)
        required = tuple(each for each in required if not guards.matters_only_on_deletion(each))
        found = {each.key: self.find(each) for each in required}
        # Else one reads what was found for the other, and is reconciled for ever because that differs.
        assert len(found) == len(required)
        watching = DeploymentFacts(watching_since=START, observes_capacity=True)
        facts = watching if kind.type is ModelDeployment else kind.facts()
        request: Request[Any, Any] = Request(decoded, self.children(owner), found, facts, self.now)
        composition = kind.compose(request)
        assert isinstance(composition, Composition)
        return required, request, composition

    def reconcile(self, key: OwnerKey) -> None:
        if key not in self.objects:
            self.interests.forget(key)
            return
        required, request, composition = self.composed(key)
        self.interests.set(key, (*required, *composition.also_watch))
        self.interests.set_unsatisfied(key, composition.unsatisfied)
        self._write(self.objects[key], request, composition)
        self.waiting |= {OwnerKey(each.kind, each.namespace, each.name): None for each in composition.wakes}
        _, request, composition = self.composed(key)
        said = self.said(key, request, composition)
        if not owner_status.is_same(self.objects[key].get("status", {}), said):
            self.put({**self.objects[key], "status": said})
        if composition.again_in_s is not None:
            self.timers[key] = self.now + dt.timedelta(seconds=composition.again_in_s)

    def said(self, key: OwnerKey, request: Request[Any, Any], composition: Composition) -> Item:
        """Return the status that a composition leads to."""
        metadata, before = self.objects[key]["metadata"], self.objects[key].get("status", {})
        known = before.get("conditions", ())
        ready = owner_status.derive_ready(composition, request.observed, known)
        conditions = owner_status.encode_conditions(
            (*composition.conditions, ready), known, metadata["generation"], self.time
        )
        told: Item = convert_to_plain({**composition.status, "conditions": conditions})
        return told

    def _write(self, owner: Item, request: Request[Any, Any], composition: Composition) -> None:
        for child in composition.children:
            if isinstance(child, Desired):
                self._apply(owner, child, request.observed.get(child.key))
        named = {each.key for each in composition.children}
        for key, item in request.observed.items():
            if key not in named:
                gone = {**item["metadata"], "deletionTimestamp": self.time}
                self.put({**item, "metadata": gone}) if self.random.random() < 0.5 else self.remove(
                    dict(item)
                )

    def _apply(self, owner: Item, child: Desired, there: Any) -> None:
        manifest = copy.deepcopy(dict(child.manifest))
        own = manifest["metadata"]
        own["annotations"] = {**own.get("annotations", {}), "key": child.key}
        if there is None:
            reference = {
                "apiVersion": API,
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
            self.put({**manifest, "metadata": {**own, "ownerReferences": [reference]}})
            return
        merged = {
            field: {**there["metadata"].get(field, {}), **own.get(field, {})}
            for field in ("labels", "annotations")
        }
        written = {**there, **manifest, "metadata": {**there["metadata"], **merged}}
        if "spec" in written:
            # A server fills in the default.
            written["spec"] = {**written["spec"], "draining": is_draining(written)}
            if written["spec"] != {**there["spec"], "draining": is_draining(there)}:
                written["metadata"]["generation"] += 1
            there = {**there, "spec": {**there["spec"], "draining": is_draining(there)}}
        if written != there:
            self.put(written)

    def reconcile_all(self) -> None:
        """Reconcile those that wait, in any order, until none does."""
        for _ in range(3000):
            if not self.waiting:
                return
            key = self.random.choice([*self.waiting])
            del self.waiting[key]
            self.reconcile(key)
        raise AssertionError(f"they wake each other for ever: {[*self.waiting]}")

    def pass_tick(self) -> None:
        """Reconcile; then let clusters report, replicas end, and times be over."""
        self.reconcile_all()
        for item in self.of("ModelReplica"):
            self.remove(item) if "deletionTimestamp" in item["metadata"] else self._report(item)
        self.now += TICK
        for key in [key for key, at in self.timers.items() if at <= self.now]:
            del self.timers[key]
            self.waiting[key] = None

    def _report(self, replica: Item) -> None:
        is_up = self.now - self.born[replica["metadata"]["uid"]] >= STARTS
        holds = {"ModelAccepted": True, "Ready": is_up, "ModelReady": is_up}
        holds["RoutingReady"] = is_up and not is_draining(replica)
        told = {"lastTransitionTime": "2026-06-01T00:00:00Z", "reason": "R", "message": ""}
        conditions = [
            {"type": type_, "status": str(each), "observedGeneration": replica["metadata"]["generation"]}
            | told
            for type_, each in holds.items()
        ]
        if replica.get("status") != {"conditions": conditions}:
            self.put({**replica, "status": {"conditions": conditions}})

    def settle(self) -> None:
        calm = 0
        for _ in range(1000):
            before = self.version
            self.pass_tick()
            calm = calm + 1 if self.version == before else 0
            if calm == CALM:
                return
        raise AssertionError("it does not settle")

    def check(self) -> None:
        """Compose every owner once more: its children and its status are there already."""
        self.reconcile_all()  # those whose time has just come
        for key in [key for key in self.objects if key.kind in ("ModelDeployment", "DeviceQuota")]:
            _, request, composition = self.composed(key)
            assert {each.key for each in composition.children} == request.observed.keys(), key
            said = self.said(key, request, composition)
            assert owner_status.is_same(self.objects[key]["status"], said), (
                key,
                self.objects[key]["status"],
                said,
            )

    def happen(self) -> None:
        """Let one thing happen."""
        choose = self.random.choice
        deployments, quotas = self.of("ModelDeployment"), self.of("DeviceQuota")
        match self.random.randrange(10):
            case 0 | 1:
                self._deploy(choose(TEAMS), f"d{self.random.randrange(3)}")
            case 2 if deployments:
                self.edit(choose(deployments), replicas=self.random.randint(0, 3))
            case 3 if deployments:
                item = choose(deployments)
                for each in self.children(item).values():
                    self.remove(each)
                self.remove(item)
            case 4:
                self._scale(choose(self.of("InferenceCluster")))
            case 5:
                self.edit(choose(self.of("InferenceCluster")), taints=choose(TAINTS))
            case 6 if quotas:
                names = self.random.sample([*PRIORITIES], self.random.randint(1, 3))
                policy = choose(("Never", "LowerPriority"))
                self.edit(choose(quotas), priorityClassNames=names, preemption={"withinCohort": policy})
            case 7 if deployments:
                self.edit(choose(deployments), priorityClassName=choose((None, *PRIORITIES)))
            case 8:
                self.put(quota(choose(TEAMS), self.random.randint(1, 6)))
            case 9 if quotas and self.random.random() < 0.5:
                self.remove(choose(quotas))
            case _:
                pass

    def _deploy(self, team: str, name: str) -> None:
        if OwnerKey("ModelDeployment", team, name) in self.objects:
            return
        [item] = copy.deepcopy(loaded(DEPLOYMENT).objects)
        spec: Item = {**item["spec"], "replicas": self.random.randint(1, 3)}
        spec["priorityClassName"] = self.random.choice((None, *PRIORITIES))
        if self.random.random() < 0.5:
            spec["rollout"] = {"maxSurge": self.random.randint(0, 1), "maxUnavailable": 1}
        if self.random.random() < 0.4:
            preferred = f"d{self.random.randrange(3)}"
            times = {"afterSeconds": 60, "returnAfterSeconds": 120}
            spec["standbyFor"] = {"name": preferred, "when": ["Unplaced"], **times}
        self.put({**item, "metadata": {"name": name, "namespace": team}, "spec": spec})

    def _scale(self, item: Item) -> None:
        """Change the nodes of a cluster; never below those in use, of which messages tell the number."""
        name = item["metadata"]["name"]
        held = sum(each["spec"]["clusterName"] == name for each in self.of("ModelReplica"))
        item = copy.deepcopy(item)
        item["status"]["gpuPools"][0]["nodes"] = held + self.random.choice((0, 0, 1))
        self.put(item)


def _key(item: Item) -> OwnerKey:
    return OwnerKey(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])


@settings(max_examples=10, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.integers(0, 2**32))
def test_what_nothing_wakes_would_decide_the_same_again(seed: int) -> None:
    world = World(seed)
    for _ in range(25):
        world.happen()
        for _ in range(world.random.choice((0, 0, 1, 3))):
            world.pass_tick()
        if world.random.random() < 0.2:
            world.settle()
            world.check()
    world.settle()
    world.check()


def test_a_deployment_that_is_to_give_up_a_replica_is_woken() -> None:
    """It has all its replicas, so that no change of others would."""
    world = World(0)
    for each in copy.deepcopy(world.of("InferenceCluster")):
        each["status"]["gpuPools"][0]["nodes"] = 2 * (each["metadata"]["name"] == "east")
        world.put(each)
    [item] = loaded(DEPLOYMENT).objects
    for team in ("a", "b"):
        world.put(quota(team, 2))
    for team, replicas, priority in (("b", 2, "low"), ("a", 1, "high")):
        spec = {**item["spec"], "replicas": replicas, "priorityClassName": priority}
        world.put({**item, "metadata": {"name": "d", "namespace": team}, "spec": spec})
        world.settle()
    world.check()
    assert sorted(each["metadata"]["namespace"] for each in world.of("ModelReplica")) == ["a", "b"]


def test_both_quotas_of_a_namespace_say_at_once_that_neither_is_in_force() -> None:
    world = World(0)
    for each in (quota("a", 1), {**quota("a", 1), "metadata": {"name": "other"}}):
        world.put(each)
        world.reconcile_all()
    said = [condition_of(each, "Accepted")["status"] for each in world.of("DeviceQuota")]
    assert said == ["False", "False"]
    world.remove(world.of("DeviceQuota")[0])
    world.reconcile_all()
    assert [condition_of(each, "Accepted")["status"] for each in world.of("DeviceQuota")] == ["True"]

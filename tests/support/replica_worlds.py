"""Worlds in which everything happens to replicas at once: rollouts, canaries, drains, losses, preemption.

A tick is 20 seconds. In each one things happen, clusters report, and every deployment is composed and written
in random order. What is true of a cluster and what the control plane sees of it are separate.
"""

import datetime as dt
import itertools
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.compose import owner_status
from modelplane.compose.composition import Composition, Desired, Request
from modelplane.compose.deployment import model_deployment
from modelplane.compose.deployment.deployment_facts import DeploymentFacts, DeploymentRequest
from modelplane.deciders.canary import UNDECIDED, Decision, Observed, Outcome
from modelplane.deciders.cluster_health import (
    ClusterSeen,
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
from support.plain_objects import copied

Item = dict[str, Any]

TICK_S = 20.0
STARTS = 3
"""Ticks that a replica takes to start."""
NODES = 4
START = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
TIME = "2026-06-01T00:00:00Z"
SMALL, LARGE = ("a", "b", "c"), ("north",)
"""Clusters with devices of 24 GB, and of 80 GB."""
DRAIN = {"key": labels.DRAIN, "effect": "NoSchedule"}
PRIORITIES = {"low": 0, "high": 10}
_VERSIONS = itertools.count(1)
"""Resource versions: none is used twice in a process, because compositions remember what they read of one."""
_LARGE_CLASS = CLASS.replace("name: l4", "name: h100").replace("23034Mi", "81559Mi")


def image_of(replica: Item) -> str:
    """Return the image of a replica's engine."""
    image: str = replica["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"]
    return image


def stays(replica: Item) -> bool:
    """Return True if a replica is neither withdrawn nor being deleted."""
    return not replica["spec"].get("draining") and "deletionTimestamp" not in replica["metadata"]


class Site:
    """A cluster: whether the API server answers, its replicas do, and what may be used of it."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.name = item["metadata"]["name"]
        self.answers = self.serves = True
        self.usable = NODES
        self.drains = False

    def witnesses(self) -> Witnesses:
        def witness(good: bool) -> Witness:
            return Witness(Evidence.GOOD) if good else Witness(Evidence.BAD, "silent")

        return Witnesses(witness(self.answers), witness(self.serves))

    def seen(self, memory: Memory) -> Item:
        """Return the InferenceCluster as the control plane has it."""
        item: Item = copied(self.item)
        item["spec"]["taints"] = [DRAIN] if self.drains else []
        if self.usable < NODES:
            item["status"]["gpuPools"][0]["usable"] = {"nodes": self.usable}
        standing = memory.standings[self.name]
        told = {"status": str(self.answers), "message": standing.cause, "lastTransitionTime": TIME}
        item["status"]["conditions"] = [
            {"type": "Ready", "reason": "R", **told},
            {"type": "Reachable", "reason": str(standing.state), **told},
        ]
        return item


class Running:
    """What a cluster runs of a replica: an image, since a tick."""

    def __init__(self, image: str, since: int) -> None:
        self.image, self.since = image, since
        self.gone_at: int | None = None
        """Tick at which its node is taken back; None without a notice."""


Composed = Callable[["ReplicaWorld", DeploymentRequest, Composition, set[str]], None]
"""Reads a request, its composition that was written, and the keys of the replicas that served before."""


class ReplicaWorld:
    """A fleet, its deployments, and the children of each by key."""

    def __init__(self, random: Random, composed: Composed) -> None:
        self.random, self.composed = random, composed
        clusters = (cluster(name, nodes=NODES) for name in SMALL)
        large = (cluster(name, nodes=NODES, class_name="h100") for name in LARGE)
        files = assemble(loaded(joined(CLASS, _LARGE_CLASS, *clusters, *large, DEPLOYMENT)).objects)
        (owner,) = files.deployments
        found = files.store.find(model_deployment.requirements(decode_as(ModelDeployment, owner))[0])
        assert isinstance(found, tuple)
        self.sites = {each["metadata"]["name"]: Site(copied(dict(each))) for each in found}
        self.has_priorities = random.random() < 0.4
        self.owners = {f"d{at}": self._owner(copied(dict(owner)), f"d{at}") for at in range(3)}
        if random.random() < 0.3:
            settings = {"name": "d0", "afterSeconds": 60, "returnAfterSeconds": 120}
            self.owners["d2"]["spec"]["standbyFor"] = settings
        self.children: dict[str, dict[str, Item]] = {name: {} for name in self.owners}
        self.running: dict[str, Running] = {}
        self.canaries: dict[str, Observed] = {}
        self.memory = Memory()
        self._contents: dict[str, tuple[str, bytes]] = {}
        """Resource versions of owners and clusters, and the content of each."""
        self.tick = 0

    @property
    def now(self) -> dt.datetime:
        """The time of the present tick."""
        return START + dt.timedelta(seconds=self.tick * TICK_S)

    def _owner(self, owner: Item, name: str) -> Item:
        owner["metadata"] |= {"name": name, "uid": name, "generation": 1, "annotations": {}}
        spec = owner["spec"]
        spec |= {"replicas": self.random.randint(1, 3), "rollout": self._limits()}
        if self.random.random() < 0.4:
            steps = [{"weight": 10, "durationSeconds": 60}, {"weight": 50, "durationSeconds": 60}]
            spec["rollout"]["canary"] = {"steps": steps}
        if self.random.random() < 0.6:
            spec["failover"] = {"after": "1m"}
        if self.has_priorities:
            spec["priorityClassName"] = self.random.choice(list(PRIORITIES))
        self._select(spec, large=False)
        self._write_image(spec, "good")
        return owner

    def _limits(self) -> Item:
        surge = self.random.randint(0, 2)
        return {"maxSurge": surge, "maxUnavailable": self.random.randint(0 if surge else 1, 2)}

    def _select(self, spec: Item, *, large: bool) -> None:
        """Let a template need a device with more than 40 GB, or with less."""
        (device,) = spec["engines"][0]["members"][0]["nodeSelector"]["devices"]
        sign = ">=" if large else "<"
        cel = f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) {sign} 0'
        device["selectors"] = [{"cel": cel}]

    def _write_image(self, spec: Item, image: str) -> None:
        spec["engines"][0]["members"][0]["template"]["spec"]["containers"][0]["image"] = image

    def replicas(self, name: str) -> dict[str, Item]:
        """Return the replicas of a deployment by key."""
        return {key: each for key, each in self.children[name].items() if each["kind"] == "ModelReplica"}

    def list_replicas(self) -> Iterator[Item]:
        """Yield every replica."""
        for name in self.owners:
            yield from self.replicas(name).values()

    def is_serving(self, replica: Item) -> bool:
        """Return True if a replica answers requests, and will after all that is written is applied."""
        runs = self.running[replica["metadata"]["name"]]
        return (
            stays(replica)
            and self.sites[replica["spec"]["clusterName"]].serves
            and self._is_started(runs)
            and runs.image == image_of(replica)
        )

    def _is_started(self, runs: Running) -> bool:
        return runs.image != "bad" and self.tick - runs.since >= STARTS

    def serving(self, name: str) -> set[str]:
        """Return the keys of the replicas of a deployment that serve."""
        return {key for key, each in self.replicas(name).items() if self.is_serving(each)}

    def is_due(self, replica: Item) -> bool:
        """Return True if the node of a replica is gone in a minute."""
        gone_at = self.running[replica["metadata"]["name"]].gone_at
        return gone_at is not None and (gone_at - self.tick) * TICK_S < 60

    def priority(self, name: str) -> int:
        """Return the priority of a deployment."""
        return PRIORITIES.get(self.owners[name]["spec"].get("priorityClassName", ""), 0)

    def happen(self) -> None:
        """Let one thing happen to a cluster, a node or a deployment."""
        if self.random.random() < 0.4:
            self._happen_to_clusters()
        else:
            self._happen_to_deployment(self.random.choice(list(self.owners)))

    def _happen_to_clusters(self) -> None:
        site = self.sites[self.random.choice(list(self.sites))]
        match self.random.randrange(6):
            case 0:
                self._fail(site)
            case 1:
                for each in self.sites.values():
                    each.answers = each.serves = True
            case 2:
                site.drains = not site.drains
            case 3:
                site.usable = self.random.randint(0, NODES)
            case _:
                self._give_notice()

    def _happen_to_deployment(self, name: str) -> None:
        random, owner = self.random, self.owners[name]
        spec = owner["spec"]
        owner["metadata"]["generation"] += 1
        match random.randrange(9):
            case 0 | 1:
                spec["replicas"] = random.randint(0 if random.random() < 0.1 else 1, 3)
            case 2 | 3 | 4:
                self._write_image(spec, random.choice(("good", "better", "bad")))
                self._select(spec, large=random.random() < 0.2)
            case 5:
                spec["rollout"]["paused"] = random.random() < 0.5
            case 6:
                spec["rollout"] |= self._limits()
            case _:
                self._decide(name)

    def _decide(self, name: str) -> None:
        """Let the step of a canary be decided, or a person decide about the canary."""
        owner = self.owners[name]
        known = owner.get("status", {}).get("rollout", {}).get("canary", {})
        annotations = owner["metadata"]["annotations"]
        if known and self.random.random() < 0.1:
            annotations[labels.PROMOTED] = known["revision"]
        elif "stepStartTime" in known:
            outcome = self.random.choice((Outcome.ENDED, Outcome.ENDED, Outcome.ABORTED, Outcome.HOLDS))
            step_of = known["revision"], known["step"], known["stepStartTime"]
            self.canaries[name] = Observed(*step_of, Decision(outcome, "as told"))
        elif "abortTime" in known and self.random.random() < 0.5:
            annotations[labels.RETRIED] = known["abortTime"]

    def _fail(self, site: Site) -> None:
        """Let a cluster fail, or only its API server; at most one at a time, so that others can take over."""
        if all(each.answers for each in self.sites.values()):
            site.answers, site.serves = False, self.random.random() < 0.3
            if not site.serves and self.random.random() < 0.5:
                for replica in self.list_replicas():
                    if replica["spec"]["clusterName"] == site.name:
                        self.running[replica["metadata"]["name"]].since = self.tick + 5

    def _give_notice(self) -> None:
        there = [each["metadata"]["name"] for each in self.list_replicas()]
        if there:
            self.running[self.random.choice(sorted(there))].gone_at = self.tick + self.random.randint(2, 8)

    def observe(self) -> None:
        """Let clusters that answer apply what is written, and report; the others stay as they were seen."""
        for name, own in self.children.items():
            self.children[name] = {key: each for key, each in own.items() if not self._is_gone(each)}
        for replica in self.list_replicas():
            runs = self.running[replica["metadata"]["name"]]
            if runs.gone_at is not None and runs.gone_at <= self.tick:
                runs.gone_at, runs.since = None, self.tick + 2
            if not self.sites[replica["spec"]["clusterName"]].answers:
                said = replica.get("status", {}).get("conditions", ())
                kept = [each for each in said if each["type"] != "ModelAccepted"]
                text = f'cluster "{replica["spec"]["clusterName"]}" is unreachable: silent'
                unseen = _condition(replica, "ModelAccepted", False, text)
                replica["status"] = {**replica.get("status", {}), "conditions": [*kept, unseen]}
                continue
            behind = runs.image != image_of(replica)
            if behind and self.random.random() < 0.5:
                runs.image, runs.since, behind = image_of(replica), self.tick, False
            started = self._is_started(runs)
            replica["status"] = {
                "conditions": [
                    {
                        **_condition(replica, "ModelAccepted", True),
                        "reason": "Updating" if behind else "R",
                    },
                    _condition(replica, "Ready", started),
                    _condition(replica, "ModelReady", started),
                    _condition(replica, "RoutingReady", stays(replica) and started),
                ]
            }
            if runs.gone_at is not None:
                deadline = START + dt.timedelta(seconds=runs.gone_at * TICK_S)
                notice = {"node": "n1", "cause": "taint x", "deadline": deadline.isoformat()}
                replica["status"]["eviction"] = notice

    def _is_gone(self, child: Item) -> bool:
        return "deletionTimestamp" in child["metadata"] and self.sites[child["spec"]["clusterName"]].answers

    def watch(self) -> None:
        """Watch the clusters for failover."""
        moves = []
        for name, owner in self.owners.items():
            if "failover" not in owner["spec"]:
                continue
            own = [each for each in self.replicas(name).values() if stays(each)]
            count_serving = sum(
                self.is_serving(each) and self.sites[each["spec"]["clusterName"]].answers for each in own
            )
            for at in sorted({each["spec"]["clusterName"] for each in own}):
                count = sum(each["spec"]["clusterName"] == at for each in own)
                moves.append(Move(at, name, 60.0, count, count_serving >= owner["spec"]["replicas"]))
        seen = {name: ClusterSeen(site.witnesses(), name) for name, site in self.sites.items()}
        self.memory = step(self.memory, Observation(seen, tuple(moves)), self.tick * TICK_S)

    def request(self, name: str) -> DeploymentRequest:
        """Return the request of a deployment as it is now."""
        for each in self.owners.values():
            self._write_version(each)
        owner = decode_as(ModelDeployment, self.owners[name])
        clusters = [each.seen(self.memory) for each in self.sites.values()]
        for each in clusters:
            self._write_version(each)
        found: dict[str, list[Item]] = {
            "clusters": clusters,
            "replicas": list(self.list_replicas()),
            "deployments": list(self.owners.values()),
            "all-deployments": list(self.owners.values()) if self.has_priorities else [],
            "quotas": [_quota()] if self.has_priorities else [],
        }
        required: dict[str, Any] = {each.key: () for each in model_deployment.requirements(owner)}
        required |= {key: tuple(copied(items)) for key, items in found.items()}
        facts = DeploymentFacts(
            self.canaries.get(name, UNDECIDED),
            self.memory.report_for_deployment(name) if owner.spec.failover else None,
            START,
        )
        return Request(owner, copied(self.children[name]), required, facts, self.now)

    def _write_version(self, item: Item) -> None:
        """Give an object the next resource version if it has changed since it was asked for."""
        metadata = item["metadata"]
        metadata.pop("resourceVersion", None)
        content = msgspec.json.encode(item)
        if self._contents.get(metadata["name"], ("", b""))[1] != content:
            self._contents[metadata["name"]] = str(next(_VERSIONS)), content
        metadata["resourceVersion"], _ = self._contents[metadata["name"]]

    def compose(self, name: str) -> None:
        """Compose a deployment, and write its children and its status."""
        request = self.request(name)
        composed = model_deployment.compose(request)
        assert isinstance(composed, Composition)
        served = self.serving(name)
        self._write(name, composed)
        self.composed(self, request, composed, served)
        owner = self.owners[name]
        told = owner.get("status", {}).get("conditions", ())
        time = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        generation = owner["metadata"]["generation"]
        conditions = owner_status.encode_conditions(composed.conditions, told, generation, time)
        owner["status"] = {**composed.status, "conditions": conditions}

    def _write(self, name: str, composed: Composition) -> None:
        own = self.children[name]
        for key in set(own) - {each.key for each in composed.children}:
            if own[key]["kind"] == "ModelReplica" and not self.sites[own[key]["spec"]["clusterName"]].answers:
                own[key] = copied(own[key])
                own[key]["metadata"]["deletionTimestamp"] = TIME
            else:
                del own[key]
        for each in composed.children:
            if isinstance(each, Desired):
                own[each.key] = self._written(own.get(each.key), each, name)

    def _written(self, there: Item | None, child: Desired, owner: str) -> Item:
        manifest = copied(dict(child.manifest))
        if there is None:
            if manifest["kind"] == "ModelReplica":
                self.running[manifest["metadata"]["name"]] = Running(image_of(manifest), self.tick)
            owners = [{"apiVersion": "", "kind": "", "name": "", "uid": owner, "controller": True}]
            own = {
                "uid": f"{owner}/{manifest['metadata']['name']}",
                "generation": 1,
                "ownerReferences": owners,
            }
            own["creationTimestamp"] = self.now.isoformat()
            return {**manifest, "metadata": {**manifest["metadata"], **own}}
        before, after = ({"draining": False, **each.get("spec", {})} for each in (there, manifest))
        generation = there["metadata"]["generation"] + (before != after)
        # Server-side apply removes what the manifest no longer has.
        annotations = manifest["metadata"].get("annotations", {})
        own = {**manifest["metadata"], "annotations": annotations, "generation": generation}
        return {**there, **manifest, "metadata": {**there["metadata"], **own}}

    def pass_tick(self, *, quiet: bool = False) -> None:
        """Let a tick pass, in which one thing happens unless it is quiet."""
        self.tick += 1
        if not quiet:
            self.happen()
        self.observe()
        self.watch()
        turns = [*self.owners, self.random.choice(sorted(self.owners))]
        for name in self.random.sample(turns, len(turns)):
            self.compose(name)

    def heal(self) -> None:
        """Let everything return, and every deployment ask for the good template without a canary."""
        for site in self.sites.values():
            site.answers = site.serves = True
            site.usable, site.drains = NODES, False
        for owner in self.owners.values():
            spec = owner["spec"]
            self._select(spec, large=False)
            self._write_image(spec, "good")
            spec["rollout"]["paused"] = False
            spec["rollout"].pop("canary", None)
            owner["metadata"]["generation"] += 1


def _quota() -> Item:
    """Return a quota that limits nothing and lets a deployment displace those of lower priority."""
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "DeviceQuota",
        "metadata": {"name": "all", "uid": "all", "resourceVersion": "1"},
        "spec": {
            "namespaces": ["ml-team"],
            "classes": [{"className": name, "nominalQuota": 100} for name in ("l4", "h100")],
            "priorityClassNames": list(PRIORITIES),
            "preemption": {"withinCohort": "LowerPriority"},
        },
        "status": {
            "priorityClasses": [
                {"name": name, "value": value, "preempts": True} for name, value in PRIORITIES.items()
            ]
        },
    }


def _condition(replica: Item, type_: str, holds: bool, message: str = "") -> Item:
    return {
        "type": type_,
        "status": str(holds),
        "reason": "ClusterUnreachable" if message else "R",
        "message": message,
        "lastTransitionTime": TIME,
        "observedGeneration": replica["metadata"]["generation"],
    }

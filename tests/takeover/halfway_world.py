"""A simulated fleet whose deployments the code of one checkout composes, and then that of another one."""

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from modelplane.api.schema.decode import convert
from modelplane.compose import owner_status
from modelplane.compose.composition import Composition, Desired, Keep
from modelplane.compose.conditions import Condition
from modelplane.compose.readiness import exists
from modelplane.deciders.cluster_health import Memory
from support.checkouts import environment
from support.replica_worlds import NODES, SMALL, Item, ReplicaWorld, image_of, stays

_LIMIT = 60
"""Ticks within which everything happens."""
_LASTING = ("name", "uid", "generation", "labels", "annotations")


class Composer:
    """The code of one checkout, in a process of its own."""

    def __init__(self, checkout: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("composer.py"))],
            env=environment(checkout),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

        assert self._process.stdout is not None
        self.endpoint_condition = self._process.stdout.readline().decode().strip()
        """Type of the condition by which a replica reports its endpoint."""

    def compose(self, asked: dict[str, Any]) -> Composition:
        """Return the composition of a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(asked) + b"\n")
        self._process.stdin.flush()
        answer = msgspec.json.decode(self._process.stdout.readline())
        children = tuple(
            Desired(child["key"], child["manifest"], exists) if child["manifest"] else Keep(child["key"])
            for child in answer["children"]
        )
        conditions = tuple(convert(condition, Condition) for condition in answer["conditions"])
        return Composition(children=children, status=answer["status"], conditions=conditions)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


class Steady(Random):
    """No chance: whatever a cluster can do at once, it does."""

    def random(self) -> float:
        return 0.0


class World(ReplicaWorld):
    """A fleet whose deployments one code composes, and then another one; its middle is a takeover."""

    def __init__(self, composer: Composer) -> None:
        super().__init__(Steady(0), lambda *_: None)
        self.composer = composer
        self._model = self.owners["d0"]
        self.owners, self.children = {}, {}
        self.has_priorities = False
        self.least = NODES * len(SMALL)

    def deploy(self, name: str, replicas: int, *, large: bool = False, **spec: Any) -> None:
        """Create a deployment."""
        owner = copy.deepcopy(self._model)
        owner["metadata"] |= {"name": name, "uid": name}
        for setting in ("failover", "priorityClassName", "standbyFor"):
            owner["spec"].pop(setting, None)
        owner["spec"] |= {"replicas": replicas, "rollout": {"maxUnavailable": 0, "maxSurge": 1}, **spec}
        self._select(owner["spec"], large=large)
        self.owners[name], self.children[name] = owner, {}

    def edit(self, name: str, image: str = "", **spec: Any) -> None:
        """Change a deployment."""
        owner = self.owners[name]
        owner["metadata"]["generation"] += 1
        owner["spec"] |= spec
        if image:
            self._write_image(owner["spec"], image)

    def compose(self, name: str) -> None:
        """Compose a deployment by the code that acts, and write its children and its status."""
        request = self.request(name)
        owner = self.owners[name]
        composed = self.composer.compose(
            {
                "owner": owner,
                "observed": request.observed,
                "required": request.required,
                "facts": request.facts,
                "now": self.now.isoformat(),
            }
        )
        self._write(name, composed)
        time, told = self.now.strftime("%Y-%m-%dT%H:%M:%SZ"), owner.get("status", {}).get("conditions", ())
        conditions = owner_status.encode_conditions(
            composed.conditions, told, owner["metadata"]["generation"], time
        )
        owner["status"] = {**composed.status, "conditions": conditions}

    def observe(self) -> None:
        """Let the code that acts report replicas on clusters that answer."""
        super().observe()
        for replica in self.list_replicas():
            if self.sites[replica["spec"]["clusterName"]].answers:
                for condition in replica["status"]["conditions"]:
                    if condition["type"] == "RoutingReady":
                        condition["type"] = self.composer.endpoint_condition

    def advance(self) -> None:
        """Let a tick pass, in which nothing happens by itself."""
        self.tick += 1
        self.observe()
        self.watch()
        for name in self.owners:
            self.compose(name)
        self.least = min(self.least, sum(len(self.serving(name)) for name in self.owners))

    def until(self, check: Callable[["World"], bool]) -> None:
        """Let ticks pass until something holds."""
        for _ in range(_LIMIT):
            if check(self):
                return
            self.advance()
        raise AssertionError(self.describe())

    def take_over(self, composer: Composer) -> None:
        """Let another process act, which remembers nothing, and decide on everything at once."""
        self.composer = composer
        self.memory, self.canaries = Memory(), {}
        self.watch()
        for name in self.owners:
            self.compose(name)

    def images(self, name: str = "model") -> list[str]:
        """Return the images of the replicas."""
        return sorted(map(image_of, self.replicas(name).values()))

    def staying(self, name: str = "model") -> list[Item]:
        """Return the replicas that are neither withdrawn nor deleted."""
        return [replica for replica in self.replicas(name).values() if stays(replica)]

    def uids(self, name: str = "model") -> set[str]:
        """Return the uids of the replicas."""
        return {replica["metadata"]["uid"] for replica in self.replicas(name).values()}

    def status(self, name: str = "model") -> Item:
        """Return the status of a deployment."""
        status: Item = self.owners[name].get("status", {})
        return status

    def reason(self, type_: str, name: str = "model") -> str:
        """Return the reason of a condition."""
        conditions = self.status(name).get("conditions", ())
        return next((str(said["reason"]) for said in conditions if said["type"] == type_), "")

    def lasting(self) -> dict[str, Any]:
        """Return what a takeover must not change: a change of a template restarts the pods."""
        return {
            f"{name}/{key}": {
                **{field: child["metadata"].get(field) or {} for field in _LASTING},
                "deleted": child["metadata"].get("deletionTimestamp"),
                "content": child.get("spec", child.get("data")),
            }
            for name, children in self.children.items()
            for key, child in children.items()
        } | {name: self._memory_of(name) for name in self.owners}

    def _memory_of(self, name: str) -> Any:
        """Return what a status remembers of a canary and of a standby."""
        canary = {**self.status(name).get("rollout", {}).get("canary", {})}
        canary.pop("message", None)
        return canary, self.status(name).get("standby")

    def describe(self) -> str:
        """Return the state for whoever reads why a test failed."""
        return (
            f"tick {self.tick}: "
            + repr(
                {
                    key: (image_of(item), item["spec"]["clusterName"], stays(item), self.is_serving(item))
                    for name in self.owners
                    for key, item in self.replicas(name).items()
                }
            )
            + repr({name: self.status(name) for name in self.owners})
        )

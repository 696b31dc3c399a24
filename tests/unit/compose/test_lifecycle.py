"""The table of a replica's life: the page says what it says, and a deployment is placed once."""

import copy
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from modelplane import scheduler
from modelplane.api import labels
from modelplane.compose.composition import Composition, Requirement
from modelplane.compose.deployment.deployment_facts import DeploymentRequest
from modelplane.compose.deployment.replica_lifecycle import Action, Phase
from modelplane.compose.deployment.replica_state import is_surge
from modelplane.deciders.canary import Decision, Observed, Outcome
from modelplane.scheduler import Cause
from support.manifests import cluster
from support.replica_worlds import ReplicaWorld, image_of, stays
from support.rollouts import BETTER, SteppedRollout

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "replica-lifecycle.md"


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of the page."""
    part = PAGE.read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines[1:]]


def plain(text: str) -> str:
    """Return a cell without its links."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)


def test_the_page_has_the_reasons_to_leave_of_the_table_in_the_same_order() -> None:
    told = [[plain(cell) for cell in row[:4]] for row in rows("Reasons to leave")]
    table = [
        [row.title, row.who, row.at_a_time, "Yes" if row.replacement_first else "No"]
        for row in (cause.value for cause in Cause)
    ]
    assert told == table


def test_the_page_has_the_phases_and_the_actions_of_the_table() -> None:
    assert [plain(row[0]) for row in rows("Phases")] == [phase.value.title for phase in Phase]
    assert {row[1] for row in rows("Actions")} == set(Action)


def test_the_example_of_the_page() -> None:
    steps = [{"weight": 10, "durationSeconds": 60}]
    rollout = {"maxSurge": 1, "maxUnavailable": 0, "canary": {"steps": steps}}
    bench = SteppedRollout(3, rollout, nodes=3, others=(cluster("north", nodes=1),))
    bench.settle()
    bench.edit(BETTER)

    def step() -> str:
        """Reconcile, and return each replica with its image; `-` is withdrawn, `+` in addition."""
        bench.reconcile()
        found = " ".join(
            f"{key.removeprefix('replica-')}:{'AB'[image_of(each) == BETTER]}"
            f"{'-' if not stays(each) else '+' if is_surge(each) else ''}"
            for key, each in sorted(bench.replicas().items())
        )
        for key in bench.replicas():
            bench.report(key)
        return found

    assert step() == step() == "east-0:A east-1:B+ north-0:A west-0:A"
    there = bench.find

    def draining(requirement: Requirement) -> Any:
        found = copy.deepcopy(there(requirement))
        for each in found:
            if each["metadata"]["name"] == "west":
                each["spec"]["taints"] = [{"key": labels.DRAIN, "effect": "NoSchedule"}]
                each["metadata"]["resourceVersion"] = "drained"
        return found

    bench.find = draining
    assert step() == "east-0:A east-1:B north-0:A west-0:A-"
    assert step() == "east-0:A east-1:B north-0:A"
    known = bench.owner["status"]["rollout"]["canary"]
    decided = known["revision"], known["step"], known["stepStartTime"]
    bench.canary = Observed(*decided, Decision(Outcome.ENDED, "all well"))
    assert [step() for _ in range(5)] == [
        "east-0:A east-1:B east-2:B+ north-0:A",
        "east-0:B east-1:B east-2:B+ north-0:A",
        "east-0:B east-1:B east-2:B+ north-0:B",
        "east-0:B east-1:B east-2:B- north-0:B",
        "east-0:B east-1:B north-0:B",
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_deployment_is_placed_once_for_each_composition(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a canary with surge, a take-over and drains, where each would need a placement of its own."""
    calls: list[str] = []
    schedule = scheduler.schedule

    def counted(fleet: Any, deployment: scheduler.Deployment, *others: Any) -> scheduler.Placement:
        calls.append(deployment.name)
        return schedule(fleet, deployment, *others)

    def check(
        _world: ReplicaWorld, request: DeploymentRequest, _composed: Composition, _served: set[str]
    ) -> None:
        assert calls == [request.owner.metadata.name]
        calls.clear()

    monkeypatch.setattr(scheduler, "schedule", counted)
    world = ReplicaWorld(Random(seed), check)  # noqa: S311 - not for secrets
    for _ in range(20):
        world.pass_tick()

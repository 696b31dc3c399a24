"""The control loop of canaries, with gateways and local copies that a test sets."""

import datetime as dt
from collections.abc import Iterator
from typing import Any

from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import decode_as
from modelplane.controllers.decision_loops.canary_loop import Canaries
from modelplane.controllers.interests import OwnerKey
from modelplane.deciders.canary import UNDECIDED, Decision, Observed, Outcome
from modelplane.gateway.usage.load import Load, Reading

START = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
STARTED = "2026-06-01T00:00:00Z"


class Copy(dict[str, Any]):
    """A local copy of one kind."""

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self.values()))

    def get(self, name: str, namespace: str = "") -> Any:  # type: ignore[override]  # narrower than a dict's
        return self[name] if name in self.keys() and namespace == "ml" else None

    def in_namespace(self, namespace: str) -> tuple[Any, ...]:
        return tuple(self.values()) if namespace == "ml" else ()


def item(kind: str, name: str, **more: Any) -> dict[str, Any]:
    labels = {"modelplane.ai/deployment": "qwen", **more.pop("labels", {})}
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels}
    return {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind, "metadata": metadata, **more}


class Bench:
    """A deployment in the first step of a canary, and what gateways count."""

    def __init__(self) -> None:
        steps = [{"weight": 5, "durationSeconds": 60}]
        self.status = {"phase": "Running", "revision": "new", "step": 1, "stepStartTime": STARTED}
        template = {"spec": {"containers": [{"name": "engine", "image": "engine:1"}]}}
        spec = {
            "replicas": 2,
            "engines": [{"name": "main", "members": [{"role": "Standalone", "template": template}]}],
            "rollout": {"canary": {"steps": steps, "abortOn": {"minRequests": 10}}},
        }
        self.deployment = item("ModelDeployment", "qwen", spec=spec)
        replicas = {
            name: item("ModelReplica", name, labels={"modelplane.ai/revision": revision})
            for name, revision in (("qwen-1", "new"), ("qwen-2", "old"), ("qwen-3", "older"))
        }
        self.copies = {
            "ModelDeployment": Copy(qwen=self.deployment),
            "ModelReplica": Copy(replicas),
            "ModelEndpoint": Copy(
                {name: item("ModelEndpoint", name) for name in (*replicas, "without-a-replica")}
            ),
        }
        self.copies["ModelEndpoint"]["other"] = item(
            "ModelEndpoint", "other", labels={"modelplane.ai/deployment": "other"}
        )
        self.load_, self.loads = Load({"a": Reading()}), 0
        self.now = START.timestamp()
        self.changed: list[OwnerKey] = []
        self.canaries = self.restarted()

    def restarted(self) -> Canaries:
        self.canaries = Canaries(
            self.copies,  # type: ignore[arg-type]  # what it asks of informers
            self,  # type: ignore[arg-type]  # what it asks of a proxy
            self.changed.append,
            now=lambda: self.now,
        )
        return self.canaries

    async def load(self) -> Load:
        self.loads += 1
        return self.load_

    async def look(self, seconds: float = 2, **counts: tuple[int, int]) -> Decision:
        """Let time pass, count answers and errors so far by endpoint, look, and return the decision."""
        self.now += seconds
        if counts:
            named = {f"ml/{name.replace('_', '-')}": count for name, count in counts.items()}
            self.load_ = Load(
                {
                    "a": Reading(
                        answers={name: count for name, (count, _) in named.items()},
                        errors={name: errors for name, (_, errors) in named.items()},
                    )
                }
            )
        self.deployment["status"] = {"rollout": {"revision": "new", "canary": self.status}}
        await self.canaries.look(self)  # type: ignore[arg-type]  # as above
        return self.state().decision

    def state(self) -> Observed:
        found = self.canaries.state(decode_as(ModelDeployment, self.deployment))
        assert found is not None
        return found


async def test_without_a_canary_no_gateway_is_asked() -> None:
    bench = Bench()
    bench.status = {**bench.status, "phase": "Promoted"}
    await bench.look()
    assert (bench.loads, bench.state()) == (0, UNDECIDED)
    del bench.status["stepStartTime"]
    bench.status["phase"] = "Running"
    await bench.look()
    assert bench.loads == 0


async def test_answers_count_by_revision_from_the_first_look() -> None:
    bench = Bench()
    await bench.look(qwen_1=(1000, 1000), qwen_2=(5, 0))
    assert bench.state() == Observed("new", 1, STARTED)
    decision = await bench.look(
        60, qwen_1=(1020, 1000), qwen_2=(105, 2), qwen_3=(100, 0), other=(9, 9), without_a_replica=(9, 9)
    )
    assert decision == Decision(
        Outcome.ENDED, "new revision 20 answers, 0% errors; old revision 200 answers, 1% errors"
    )
    assert bench.changed == [OwnerKey("ModelDeployment", "ml", "qwen")]


async def test_errors_abort_in_the_middle_of_a_step() -> None:
    bench = Bench()
    await bench.look()
    assert (await bench.look(qwen_1=(9, 9))).outcome is Outcome.GOES_ON
    assert (await bench.look(qwen_1=(10, 10))).outcome is Outcome.ABORTED


async def test_a_gateway_that_does_not_answer_holds_and_nothing_is_lost() -> None:
    bench = Bench()
    await bench.look(qwen_1=(100, 0))
    await bench.look(60, qwen_1=(109, 0))
    whole, bench.load_ = bench.load_, Load(problem="no pod is ready")
    assert await bench.look() == Decision(Outcome.HOLDS, "cannot count responses: no pod is ready")
    bench.load_ = whole
    assert (await bench.look()).outcome is Outcome.HOLDS
    assert (await bench.look(qwen_1=(110, 0))).outcome is Outcome.ENDED


async def test_a_gateway_that_starts_again_counts_from_zero() -> None:
    bench = Bench()
    await bench.look(qwen_1=(1000, 0))
    await bench.look(60, qwen_1=(10, 0))
    assert (
        bench.state().decision.message == "new revision 10 answers, 0% errors; old revision without answers"
    )


async def test_another_step_and_a_restart_begin_anew() -> None:
    bench = Bench()
    await bench.look()
    assert (await bench.look(60, qwen_1=(50, 0))).outcome is Outcome.ENDED
    bench.status = {**bench.status, "stepStartTime": "2026-06-01T00:10:00Z"}
    await bench.look()
    assert bench.state() == Observed("new", 1, "2026-06-01T00:10:00Z")
    bench.restarted()
    assert bench.state() == UNDECIDED
    await bench.look()
    assert (await bench.look(3600)).outcome is Outcome.HOLDS, "what was counted before is not known"


async def test_counts_alone_are_told_seldom() -> None:
    bench = Bench()
    await bench.look()
    for number in range(1, 20):
        await bench.look(1, qwen_1=(number, 0))
    assert len(bench.changed) <= 1
    await bench.look(30, qwen_1=(30, 0))
    assert bench.state().decision.message.startswith("new revision 30 answers")


def test_without_a_gateway_nothing_counts() -> None:
    bench = Bench()
    canaries = Canaries(bench.copies, None, bench.changed.append)  # type: ignore[arg-type]  # as above
    assert canaries.state(decode_as(ModelDeployment, bench.deployment)) is None

"""The controller of InferenceAutoscalers, with gateways and an API server that a test sets."""

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelplane.api.fields.requests.first_token import BOUNDS_S, BUCKETS
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.schema.decode import decode_as
from modelplane.controllers.decision_loops.autoscaling_loop import Autoscaling
from modelplane.controllers.interests import OwnerKey
from modelplane.deciders.autoscaling.autoscaler_state import AutoscalerState, Inert
from modelplane.gateway.usage.load import Load, Reading
from modelplane.kube import errors

LABELS = {"modelplane.ai/deployment": "qwen"}
NO_GATEWAY = Load(problem="the gateway has no ready pod")


def item(kind: str, name: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml", "uid": f"{kind}-{name}", **metadata},
        "spec": spec,
    }


def autoscaler(name: str = "qwen", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> dict[str, Any]:
    asked = {
        "deploymentRef": {"name": "qwen"},
        "minReplicas": 0,
        "maxReplicas": 8,
        "targets": {"requestsPerReplica": 10},
        "windows": {"scaleDownSeconds": 30, "scaleToZeroSeconds": 60},
    }
    return item("InferenceAutoscaler", name, asked | spec, creationTimestamp=created)


class Copy(dict[str, Any]):
    """A local copy of one kind."""

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self.values()))

    def get(self, name: str, namespace: str = "") -> Any:  # type: ignore[override]  # narrower than a dict's
        return self[name] if name in self.keys() and namespace == "ml" else None

    def in_namespace(self, namespace: str) -> tuple[Any, ...]:
        return tuple(self.values()) if namespace == "ml" else ()


class Bench:
    """A deployment, its endpoint and its service, and what gateways count."""

    def __init__(self, *autoscalers: dict[str, Any], replicas: int = 0) -> None:
        engine = {"name": "main", "members": [{"role": "Standalone"}]}
        deployment = item("ModelDeployment", "qwen", {"replicas": replicas, "engines": [engine]})
        selector = {"selector": {"matchLabels": LABELS}}
        self.copies = {
            "InferenceAutoscaler": Copy({each["metadata"]["name"]: each for each in autoscalers}),
            "ModelDeployment": Copy(qwen=deployment),
            "ModelEndpoint": Copy(
                one=item("ModelEndpoint", "qwen-1", {"url": "http://x"}, labels=LABELS),
                other=item("ModelEndpoint", "other", {"url": "http://y"}),
            ),
            "ModelService": Copy(qwen=item("ModelService", "qwen", {"endpoints": [selector]})),
        }
        self.today = datetime(2026, 11, 24, 12, tzinfo=UTC)
        self.now, self.load_ = 0.0, Load({"a": Reading()})
        self.events: list[str] = []
        self.changed: list[OwnerKey] = []
        self.refuses = False
        self.writes: list[float] = []
        self.autoscaling = Autoscaling(
            self,  # type: ignore[arg-type]  # what it asks of a client
            self.copies,  # type: ignore[arg-type]  # what it asks of informers
            self,  # type: ignore[arg-type]  # what it asks of a proxy
            self.changed.append,
            now=lambda: self.now,
            today=lambda: self.today,
        )

    @property
    def replicas(self) -> int:
        return int(self.copies["ModelDeployment"]["qwen"]["spec"]["replicas"])

    async def load(self) -> Load:
        return self.load_

    async def patch(
        self, _resource: Any, name: str, body: Mapping[str, Any], namespace: str, *, subresource: str
    ) -> None:
        assert (name, namespace, subresource) == ("qwen", "ml", "scale")
        self.writes.append(self.now)
        if self.refuses:
            raise errors.Unreachable("no answer")
        self.scale(body["spec"]["replicas"])

    async def create(self, event: Mapping[str, Any]) -> None:
        self.events.append(f"{event['regarding']['name']}: {event['reason']}: {event['note']}")

    def scale(self, replicas: int, ready: int = 0) -> None:
        deployment = self.copies["ModelDeployment"]["qwen"]
        changed = {"spec": deployment["spec"] | {"replicas": replicas}}
        self.copies["ModelDeployment"]["qwen"] = (
            deployment | changed | {"status": {"replicas": {"total": replicas, "ready": ready}}}
        )

    async def look(self, seconds: float = 2.0) -> AutoscalerState:
        """Look every two seconds, and return the state of the first autoscaler."""
        end = self.now + seconds
        while self.now < end:
            self.now += 2
            await self.autoscaling.look(self)  # type: ignore[arg-type]  # as above
        return self.state()

    def state(self, name: str = "qwen") -> AutoscalerState:
        found = self.autoscaling.state(
            decode_as(InferenceAutoscaler, self.copies["InferenceAutoscaler"][name])
        )
        assert found is not None
        return found


async def test_a_held_request_starts_the_first_replica_and_the_start_is_measured() -> None:
    bench = Bench(autoscaler())
    bench.load_ = Load({"a": Reading(held={"ml/qwen": 1, "ml/other": 50})})
    state = await bench.look()
    assert (bench.replicas, state.inert, state.desired) == (1, None, 1)
    assert bench.events == ["qwen: ScaledUp: from 0 to 1: a load of 1 request on average needs 1 replica"]
    await bench.look(40)
    bench.scale(1, ready=1)
    assert (await bench.look()).cold_start_s == 42


async def test_the_autoscaler_of_a_standby_rests_while_that_is_not_active() -> None:
    bench = Bench(autoscaler())
    bench.load_ = Load({"a": Reading(held={"ml/qwen": 30})})
    deployment = bench.copies["ModelDeployment"]["qwen"]
    deployment["spec"]["standbyFor"] = {"name": "first"}
    state = await bench.look(60)
    assert bench.replicas == 0
    assert (state.inert, state.problem) == (
        Inert.STANDBY,
        'the ModelDeployment is a standby for "first" and runs no replicas now',
    )
    deployment["status"] = {"standby": {"active": True}}
    state = await bench.look()
    assert (bench.replicas, state.inert) == (3, None)


async def test_requests_at_endpoints_of_the_deployment_count_over_all_gateways() -> None:
    bench = Bench(autoscaler(), replicas=1)
    one = Reading(in_flight={"ml/qwen-1": 12, "ml/other": 90})
    bench.load_ = Load({"a": one, "b": Reading(in_flight={"ml/qwen-1": 9, "held/ml/qwen": 5})})
    state = await bench.look()
    assert bench.replicas == 3
    assert state.counts is not None
    assert state.counts.in_flight == 26


async def test_late_first_tokens_at_endpoints_of_the_deployment_ask_for_one_more() -> None:
    targets = {"requestsPerReplica": 10, "timeToFirstTokenMilliseconds": 1000}
    bench = Bench(autoscaler(targets=targets), replicas=1)
    bench.scale(1, ready=1)
    late, quick = BOUNDS_S.index(5.0), 0
    for tick in range(32):
        own = [0] * BUCKETS
        own[late] = own[quick] = tick
        # Another deployment's streams count for nothing.
        other = [100 * tick] + [0] * (BUCKETS - 1)
        streams = {"ml/qwen-1": own, "ml/other": other}
        bench.load_ = Load({"a": Reading(in_flight={"ml/qwen-1": 5}, first_tokens=streams)})
        state = await bench.look()
    assert bench.replicas == 2
    assert "longer than 1000 ms for their first token" in state.decision
    assert state.counts is not None
    assert state.counts.first_token_ms == 5000


async def test_silence_ends_the_last_replica_and_an_arrival_keeps_it() -> None:
    bench = Bench(autoscaler(), replicas=1)
    await bench.look(50)
    bench.load_ = Load({"a": Reading(requests={"ml/qwen-1": 1})})
    await bench.look(50)
    assert bench.replicas == 1
    await bench.look(20)
    assert bench.replicas == 0


async def test_a_request_while_the_gateway_was_not_read_is_not_missed() -> None:
    bench = Bench(autoscaler(), replicas=1)
    bench.load_ = Load({"a": Reading(requests={"ml/qwen-1": 1})})
    await bench.look(50)
    bench.load_ = NO_GATEWAY
    await bench.look(4)
    bench.load_ = Load({"a": Reading(requests={"ml/qwen-1": 2})})
    await bench.look(56)
    assert bench.replicas == 1
    await bench.look(10)
    assert bench.replicas == 0


async def test_without_counts_nothing_changes_and_the_state_says_so() -> None:
    bench = Bench(autoscaler(), replicas=3)
    bench.load_ = NO_GATEWAY
    state = await bench.look(600)
    assert (bench.replicas, state.inert) == (3, Inert.NO_METRICS)
    assert state.problem.endswith(NO_GATEWAY.problem)


async def test_a_new_autoscaler_waits_for_the_first_counts_before_it_reports_that_there_are_none() -> None:
    """The gateway may be starting, as it is where both are created at once."""
    bench = Bench(autoscaler(), replicas=3)
    bench.load_ = NO_GATEWAY
    assert bench.state().reading
    assert (await bench.look(28)).reading
    assert not (await bench.look(6)).reading


async def test_counts_that_were_read_once_are_missed_at_once() -> None:
    bench = Bench(autoscaler(), replicas=3)
    assert not (await bench.look()).reading
    bench.load_ = NO_GATEWAY
    state = await bench.look()
    assert (state.reading, state.inert) == (False, Inert.NO_METRICS)


async def test_paused_it_writes_nothing() -> None:
    bench = Bench(autoscaler(paused=True), replicas=20)
    state = await bench.look(600)
    assert (bench.replicas, state.inert, bench.events) == (20, None, [])


async def test_the_oldest_of_two_autoscalers_decides() -> None:
    bench = Bench(autoscaler("qwen", "2026-01-02T00:00:00Z"), autoscaler("old"))
    bench.load_ = Load({"a": Reading(held={"ml/qwen": 1})})
    state = await bench.look()
    assert (bench.replicas, state.inert) == (1, Inert.OTHER_WRITER)
    assert bench.state("old").inert is None


async def test_a_number_that_others_keep_changing_is_left_to_them() -> None:
    bench = Bench(autoscaler(minReplicas=2))
    for _ in range(4):
        await bench.look(4)
        bench.scale(0)
    state = await bench.look(60)
    assert (bench.replicas, state.inert) == (0, Inert.OTHER_WRITER)
    await bench.look(600)
    assert bench.replicas == 2


async def test_one_change_by_a_person_is_no_contest() -> None:
    bench = Bench(autoscaler(minReplicas=2))
    await bench.look(4)
    bench.scale(5)
    assert (await bench.look()).inert is None


async def test_a_write_that_is_not_seen_yet_is_not_another_writer() -> None:
    bench = Bench(autoscaler(minReplicas=2))
    await bench.look()
    for _ in range(3):
        bench.scale(0)
        await bench.look()
        assert bench.state().desired == 2


async def test_a_number_that_cannot_be_written_is_told_and_tried_again() -> None:
    bench = Bench(autoscaler(minReplicas=2))
    bench.refuses = True
    assert (await bench.look()).inert is Inert.NOT_WRITTEN
    bench.refuses = False
    assert ((await bench.look()).inert, bench.replicas) == (None, 2)


async def test_a_number_that_is_refused_again_and_again_is_tried_ever_less_often() -> None:
    bench = Bench(autoscaler(minReplicas=2))
    bench.refuses = True
    assert (await bench.look(300)).inert is Inert.NOT_WRITTEN
    gaps = [later - before for before, later in itertools.pairwise(bench.writes)]
    assert gaps[:5] == [2, 4, 8, 16, 32]
    assert set(gaps[5:]) == {60}
    bench.refuses = False
    assert ((await bench.look(60)).inert, bench.replicas) == (None, 2)
    bench.refuses = True
    bench.scale(0)
    before = len(bench.writes)
    await bench.look(20)
    assert len(bench.writes) - before > 1, "a write that was not refused begins anew"


async def test_more_services_than_are_compared_stop_their_own_deployment_only() -> None:
    bench = Bench(autoscaler(minReplicas=2))
    for number in range(129):
        name = f"all-{number}"
        every: Any = {"endpoints": [{"selector": {"matchLabels": {}}}]}
        bench.copies["ModelService"][name] = item("ModelService", name, every)
    state = await bench.look(60)
    assert (bench.replicas, state.inert) == (0, Inert.TOO_MANY_SERVICES)
    assert "more than 128 ModelService selectors" in state.problem
    bench.copies["ModelService"].popitem()
    bench.copies["ModelService"].popitem()
    assert ((await bench.look()).inert, bench.replicas) == (None, 2)


async def test_a_service_that_has_changed_is_compared_anew() -> None:
    bench = Bench(autoscaler())
    bench.copies["ModelService"].clear()
    bench.load_ = Load({"a": Reading(held={"ml/late": 1})})
    await bench.look()
    assert bench.replicas == 0
    selector = {"selector": {"matchLabels": LABELS}}
    bench.copies["ModelService"]["late"] = item("ModelService", "late", {"endpoints": [selector]})
    await bench.look()
    assert bench.replicas == 1


BUSY = {"name": "busy", "cron": "0 8 * * *", "timeZone": "Europe/Berlin", "durationSeconds": 3600}


async def test_a_window_of_a_schedule_has_bounds_of_its_own() -> None:
    bench = Bench(autoscaler(schedules=[BUSY | {"minReplicas": 3, "maxReplicas": 4}]))
    bench.today = datetime(2026, 11, 24, 6, 59, tzinfo=UTC)
    assert ((await bench.look()).open_schedules, bench.replicas) == ((), 0)
    bench.today += timedelta(minutes=1)
    state = await bench.look()
    assert (state.open_schedules, state.decision, bench.replicas) == (
        ("busy",),
        "from 0 to 3: minReplicas is 3",
        3,
    )
    bench.load_ = Load({"a": Reading(in_flight={"ml/qwen-1": 500})})
    assert (await bench.look(60), bench.replicas)[1] == 4
    bench.today += timedelta(hours=1)
    assert (await bench.look(60)).open_schedules == ()
    assert bench.replicas == 8


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"timeZone": "Mars/Olympus"}, 'uses time zone "Mars/Olympus"'),
        ({"timeZone": "Europe"}, 'uses time zone "Europe"'),
        ({"cron": "0 0 31 2 *"}, 'has the cron expression "0 0 31 2 *"'),
    ],
)
async def test_a_schedule_that_cannot_be_followed_changes_nothing(wrong: Any, problem: str) -> None:
    bench = Bench(autoscaler(minReplicas=2, schedules=[BUSY | {"minReplicas": 3} | wrong]), replicas=1)
    state = await bench.look(60)
    assert (bench.replicas, state.inert) == (1, Inert.INVALID_SCHEDULE)
    assert problem in state.problem
    corrected = autoscaler(minReplicas=2, schedules=[BUSY | {"minReplicas": 3}])
    bench.copies["InferenceAutoscaler"]["qwen"] = corrected
    assert ((await bench.look()).inert, bench.replicas) == (None, 2)


async def test_counts_alone_are_told_seldom() -> None:
    bench = Bench(autoscaler(), replicas=1)
    bench.load_ = Load({"a": Reading(in_flight={"ml/qwen-1": 10})})
    await bench.look(4)
    bench.changed.clear()
    for count in range(60):
        bench.load_ = Load({"a": Reading(in_flight={"ml/qwen-1": 9 + count % 2})})
        await bench.look()
    assert len(bench.changed) <= 4


async def test_a_new_process_keeps_what_the_last_one_has_told() -> None:
    told = {
        "replicas": {"desired": 3, "ready": 2},
        "decision": "from 2 to 3",
        "lastScaleTime": "2026-11-24T10:00:00Z",
        "coldStartSeconds": 41,
    }
    limited = {
        "type": "ScalingLimited",
        "status": "True",
        "reason": "TooManyReplicas",
        "lastTransitionTime": "2026-11-24T10:00:00Z",
    }
    bench = Bench(autoscaler() | {"status": told | {"conditions": [limited]}}, replicas=3)
    for state in (bench.state(), await bench.look()):
        assert (state.desired, state.decision, state.cold_start_s) == (3, "from 2 to 3", 41)
        assert (state.changed, state.limited) == ("2026-11-24T10:00:00Z", True)
    assert (await bench.look(60)).limited is False


async def test_a_deployment_that_is_gone_is_forgotten() -> None:
    bench = Bench(autoscaler(), replicas=1)
    await bench.look(50)
    deployment = bench.copies["ModelDeployment"].pop("qwen")
    assert (await bench.look()).inert is Inert.NO_METRICS
    bench.copies["ModelDeployment"]["qwen"] = deployment
    await bench.look(40)
    assert bench.replicas == 1


@pytest.mark.parametrize("spec", [{"targets": 3}, {"deploymentRef": None}])
async def test_an_autoscaler_that_cannot_be_read_stops_no_other(spec: dict[str, Any]) -> None:
    bench = Bench(autoscaler(minReplicas=1), autoscaler("broken", "2025-01-01T00:00:00Z", **spec))
    await bench.look()
    assert bench.replicas == 1

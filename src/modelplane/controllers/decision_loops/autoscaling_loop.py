"""Autoscaling: reads what the gateways count, decides for each InferenceAutoscaler, and writes scales.

A deployment has the requests in progress at its endpoints, and those that services that select it hold.
Without counts, or while something else writes ``spec.replicas`` too, nothing is changed.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.meta import kind_name
from modelplane.compose.conditions import true
from modelplane.compose.deployment import standby
from modelplane.compose.memo import readable
from modelplane.compose.service.selecting_services import TooMany
from modelplane.controllers.condition_events import Recorder
from modelplane.controllers.decision_loops.autoscaler_memory import CONTEST, AutoscalerMemory
from modelplane.controllers.decision_loops.deployment_load import DeploymentLoad, Indexes
from modelplane.controllers.fleet_resources import MODEL_DEPLOYMENTS
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.runnable import Runnable
from modelplane.deciders.autoscaling.autoscaler_state import AutoscalerState, Counts, Inert
from modelplane.deciders.autoscaling.decision import Decision, ScalingSettings, decide
from modelplane.deciders.autoscaling.evidence import MEAN_S, find_percentile_s
from modelplane.deciders.autoscaling.schedules import Bounds, Invalid
from modelplane.gateway.usage.load import Load
from modelplane.kube import errors, timestamps
from modelplane.kube.client import Client
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy.interface import Proxy

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
_IN_A_ROW = 16
"""Decisions without a turn for others."""
_AT_A_TIME = 16
"""Writes at a time: a slow one delays no other deployment."""
_KIND = kind_name(InferenceAutoscaler)


class _Change(NamedTuple):
    """A number of replicas to ask for."""

    autoscaler: Object
    deployment: Object
    replicas: int
    """The number that is asked for until now."""
    decision: Decision
    ready: int
    counts: Counts
    at: float


class Autoscaling(Runnable):
    """Scales deployments; does nothing without an InferenceAutoscaler."""

    name = "autoscaling"

    def __init__(
        self,
        client: Client,
        informers: Mapping[str, Informer],
        proxy: Proxy | None,
        changed: Callable[[OwnerKey], None],
        now: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``changed`` takes the autoscalers with another state.

        ``now`` is a monotonic clock, in seconds, and ``today`` the time of day.
        """
        self._client = client
        self._informers = informers
        self._proxy = proxy
        self._changed = changed
        self._now = now
        self._today = today
        self._recorder = Recorder(client)
        self._scaled: dict[str, AutoscalerMemory] = {}
        self._before: Load | None = None
        self._indexes: Indexes = {}

    def state(self, autoscaler: InferenceAutoscaler) -> AutoscalerState | None:
        """Return what was decided for an autoscaler; None without a gateway that is read."""
        if self._proxy is None:
            return None
        return (self._scaled.get(autoscaler.metadata.uid) or AutoscalerMemory.of(autoscaler)).state

    async def run(self) -> None:
        """Decide every two seconds, until cancelled."""
        while self._proxy is not None:
            await self.look(self._proxy)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, proxy: Proxy) -> None:
        """Read the counts and decide once for each autoscaler."""
        items = sorted(
            self._informers[_KIND],
            key=lambda item: (item["metadata"].get("creationTimestamp", ""), item["metadata"]["name"]),
        )
        self._scaled = {uid: self._scaled[uid] for uid in map(_uid, items) if uid in self._scaled}
        if not items:
            self._before, self._indexes = None, {}
            return
        try:
            load = await proxy.load()
        except (errors.KubernetesError, OSError) as error:
            load = Load(problem=str(error))
        counted = DeploymentLoad(self._informers, self._before or load, load, self._indexes)
        self._before = load.keep_missing(self._before)
        owners: dict[tuple[str, str], str] = {}
        before: dict[str, AutoscalerState] = {}
        changes: list[_Change] = []
        for at, item in enumerate(items):
            for autoscaler in readable(InferenceAutoscaler)(item):
                if _uid(item) not in self._scaled:
                    self._scaled[_uid(item)] = AutoscalerMemory.of(autoscaler)
                before[_uid(item)] = self._scaled[_uid(item)].state
                target = autoscaler.metadata.namespace, autoscaler.spec.deployment_ref.name
                owner = owners.setdefault(target, autoscaler.metadata.name)
                changes += self._look_at(item, autoscaler, owner, counted)
            if not at % _IN_A_ROW:
                await asyncio.sleep(0)  # many autoscalers do not delay the reconciles
        self._indexes = counted.indexes
        turns = asyncio.Semaphore(_AT_A_TIME)
        await asyncio.gather(*(self._carry_out(change, turns) for change in changes))
        for item in items:
            uid, metadata = _uid(item), item["metadata"]
            if uid in before and before[uid] != self._scaled[uid].state:
                self._changed(OwnerKey(_KIND, metadata["namespace"], metadata["name"]))

    def _look_at(
        self, item: Object, autoscaler: InferenceAutoscaler, owner: str, counted: DeploymentLoad
    ) -> "Iterator[_Change]":
        """Decide, unless the deployment is gone or has another autoscaler, which ``owner`` names."""
        namespace, name = autoscaler.metadata.namespace, autoscaler.spec.deployment_ref.name
        deployment = self._informers[MODEL_DEPLOYMENTS.kind].get(name, namespace)
        if owner != autoscaler.metadata.name:
            problem = f'InferenceAutoscaler "{owner}" is older and scales the ModelDeployment: delete one'
            self._scaled[_uid(item)] = AutoscalerMemory(
                state=AutoscalerState(inert=Inert.OTHER_WRITER, problem=problem)
            )
        elif deployment is None or "deletionTimestamp" in deployment["metadata"]:
            self._scaled[_uid(item)] = AutoscalerMemory()
        elif why := standby.explain_idle(deployment):
            self._scaled[_uid(item)] = AutoscalerMemory(state=self._scaled[_uid(item)].state)
            self._scaled[_uid(item)].hold(Inert.STANDBY, why, desired=0, ready=0)
        else:
            yield from self._decide(item, autoscaler, deployment, counted)

    def _decide(
        self, item: Object, autoscaler: InferenceAutoscaler, deployment: Object, counted: DeploymentLoad
    ) -> "Iterator[_Change]":
        """Yield the change of the number of replicas, if there is to be one now."""
        scaled, now = self._scaled[_uid(item)], self._now()
        replicas = scaled.observe(int(deployment["spec"].get("replicas", 1)), now)
        ready = int((deployment.get("status", {}).get("replicas") or {}).get("ready", 0))
        scaled.note_start(ready, now)
        sample = counted.sample(deployment, now)
        if isinstance(sample, TooMany):
            scaled.hold(
                Inert.TOO_MANY_SERVICES, f"the number of replicas is unchanged: {sample}", replicas, ready
            )
            return
        bounds = scaled.bounds_at(autoscaler, self._today())
        if isinstance(bounds, Invalid):
            scaled.hold(Inert.INVALID_SCHEDULE, f"{bounds}, so nothing changes: correct it", replicas, ready)
            return
        scaled.note_open(bounds.open)
        settings = _settings(autoscaler, bounds)
        scaled.evidence, decision = decide(settings, scaled.evidence, sample, replicas, ready)
        if sample is None:
            if not scaled.is_early(now):
                scaled.hold(Inert.NO_METRICS, f"{decision.message}: {counted.problem}", replicas, ready)
            return
        wanted = replicas if autoscaler.spec.paused else decision.replicas
        if scaled.is_contested(now):
            scaled.hold(Inert.OTHER_WRITER, CONTEST, replicas, ready)
            return
        evidence = scaled.evidence
        first_token_s = find_percentile_s(evidence.count_first_tokens(evidence.now - MEAN_S, evidence.now))
        counts = Counts(
            timestamps.format_now(),
            sample.in_flight,
            sample.held,
            round(evidence.measure_tokens_per_second()),
            None if first_token_s is None else round(first_token_s * 1000),
        )
        if wanted == replicas:
            scaled.tell(wanted, ready, decision.limited, counts, now)
        elif scaled.may_write(now):
            yield _Change(item, deployment, replicas, decision, ready, counts, now)

    async def _carry_out(self, change: "_Change", turns: asyncio.Semaphore) -> None:
        scaled, decision, now = self._scaled[_uid(change.autoscaler)], change.decision, change.at
        async with turns:
            if problem := await self._write(change.deployment, decision.replicas):
                scaled.note_refusal(now)
                scaled.hold(Inert.NOT_WRITTEN, problem, change.replicas, change.ready)
                return
            scaled.note_write(change.replicas, decision.replicas, decision.message, now)
            await self._recorder.record(change.autoscaler, true("Scaled", decision.outcome, decision.message))
        scaled.tell(decision.replicas, change.ready, decision.limited, change.counts, now)

    async def _write(self, deployment: Object, replicas: int) -> str | None:
        """Ask for replicas; return why that cannot be written, and empty if it was."""
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        body = {"spec": {"replicas": replicas}}
        try:
            await self._client.patch(MODEL_DEPLOYMENTS, name, body, namespace, subresource="scale")
        except errors.KubernetesError as error:
            _log.warning("cannot scale ModelDeployment %s/%s: %s", namespace, name, error)
            return f"cannot write the number of replicas: {error}"
        return None


def _settings(autoscaler: InferenceAutoscaler, bounds: Bounds) -> ScalingSettings:
    spec = autoscaler.spec
    goal = spec.targets.time_to_first_token_milliseconds
    return ScalingSettings(
        bounds.least,
        bounds.most,
        requests=spec.targets.requests_per_replica,
        tokens_per_second=spec.targets.tokens_per_second_per_replica,
        first_token_s=goal / 1000 if goal else None,
        scale_down_window_s=spec.windows.scale_down_seconds,
        scale_to_zero_window_s=spec.windows.scale_to_zero_seconds,
    )


def _uid(item: Object) -> str:
    return str(item["metadata"]["uid"])

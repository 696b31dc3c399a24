"""Canaries: counts the answers of both revisions of deployments with a canary, and decides on its step.

The step and its start are in the status. Answers are counted from the time at which this process first sees a
step, so that after a restart a decision needs new ones.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from modelplane.api import labels
from modelplane.api.fields.deployment.rollout_settings import CanaryPhase
from modelplane.api.meta import kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.deployment.canary import has_revision, timestamp
from modelplane.compose.memo import readable
from modelplane.controllers.interests import OwnerKey
from modelplane.controllers.runnable import Runnable
from modelplane.deciders.canary import (
    COUNTS_EVERY_S,
    UNDECIDED,
    Answers,
    Evidence,
    Limits,
    Observed,
    Sample,
    decide,
)
from modelplane.gateway.usage.load import Load
from modelplane.kube import errors
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.proxy.interface import Proxy

LOOK_EVERY_S = 2.0
_DEPLOYMENT = kind_name(ModelDeployment)


@dataclass
class _Step:
    """Memory of the present step of a canary."""

    state: Observed
    before: Load
    evidence: Evidence = field(default_factory=Evidence)
    problem: str = ""
    """Problem of the last reading."""
    told: float = 0.0
    """Time at which the state changed last."""


class Canaries(Runnable):
    """Decides on canaries; does nothing without one."""

    name = "canaries"

    def __init__(
        self,
        informers: Mapping[str, Informer],
        proxy: Proxy | None,
        changed: Callable[[OwnerKey], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """``changed`` takes the deployments with another decision; ``now`` is the time of day, in seconds."""
        self._informers = informers
        self._proxy = proxy
        self._changed = changed
        self._now = now
        self._steps: dict[str, _Step] = {}
        self._endpoints: dict[str, dict[str, list[Object]]] = {}

    def state(self, deployment: ModelDeployment) -> Observed | None:
        """Return the last decision on a deployment's canary; None without a gateway that is read."""
        if self._proxy is None:
            return None
        step = self._steps.get(deployment.metadata.uid)
        return step.state if step else UNDECIDED

    async def run(self) -> None:
        """Decide every two seconds, until cancelled."""
        while self._proxy is not None:
            await self.look(self._proxy)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self, proxy: Proxy) -> None:
        """Read the counts and decide once for each canary whose step is in progress."""
        items = [item for item in self._informers[_DEPLOYMENT] if _is_running(item)]
        known = {str(item["metadata"]["uid"]) for item in items}
        self._steps = {uid: step for uid, step in self._steps.items() if uid in known}
        self._endpoints = {}
        if not items:
            return
        try:
            load = await proxy.load()
        except (errors.KubernetesError, OSError) as error:
            load = Load(problem=str(error))
        for item in items:
            for deployment in readable(ModelDeployment)(item):
                self._look_at(deployment, load)
            await asyncio.sleep(0)  # many canaries do not delay the reconciles

    def _look_at(self, deployment: ModelDeployment, load: Load) -> None:
        rollout, status = deployment.spec.rollout, deployment.status.rollout
        settings, canary = rollout and rollout.canary, status and status.canary
        if not settings or not canary or canary.step_start_time is None:
            return
        uid, now = deployment.metadata.uid, self._now()
        state = Observed(canary.revision, canary.step, timestamp(canary.step_start_time))
        step = self._steps.get(uid)
        if step is None or replace(step.state, decision=state.decision) != state:
            # What came before belongs to no step that this process has seen.
            self._steps[uid] = _Step(state, load)
            return
        abort_on = settings.abort_on
        limits = Limits(
            Fraction(abort_on.error_rate.removesuffix("%")) / 100,
            Fraction(abort_on.latency_ratio) if abort_on.latency_ratio else None,
            abort_on.min_requests,
        )
        sample = self._sample(deployment, canary.revision, step.before, load, now)
        step.evidence = step.evidence.add_sample(sample, limits.least)
        step.before = load.keep_missing(step.before)
        duration_s = settings.steps[min(canary.step, len(settings.steps)) - 1].duration_seconds
        left_s = canary.step_start_time.timestamp() + duration_s - now
        decision = decide(step.evidence, limits, left_s=left_s, problem=load.problem)
        is_news = decision.outcome is not step.state.decision.outcome or load.problem != step.problem
        step.problem = load.problem
        if is_news or (decision != step.state.decision and now - step.told >= COUNTS_EVERY_S):
            step.state, step.told = replace(step.state, decision=decision), now
            self._changed(OwnerKey(_DEPLOYMENT, deployment.metadata.namespace, deployment.metadata.name))

    def _sample(
        self, deployment: ModelDeployment, revision: str, before: Load, now: Load, at: float
    ) -> Sample:
        """Return the answers of a deployment's endpoints between two readings, by revision."""
        namespace, name = deployment.metadata.namespace, deployment.metadata.name
        new: list[Object] = []
        old: list[Object] = []
        for item in self._endpoints_in(namespace).get(name, ()):
            replica = self._informers[kind_name(ModelReplica)].get(item["metadata"]["name"], namespace)
            if replica is not None:
                (new if has_revision(replica, revision) else old).append(item)
        return Sample(at, _answers(new, before, now), _answers(old, before, now))

    def _endpoints_in(self, namespace: str) -> Mapping[str, list[Object]]:
        """Return the endpoints of a namespace by deployment, read once for all of its canaries."""
        if namespace not in self._endpoints:
            found: dict[str, list[Object]] = {}
            for item in self._informers[kind_name(ModelEndpoint)].in_namespace(namespace):
                owner = item["metadata"].get("labels", {}).get(labels.DEPLOYMENT, "")
                found.setdefault(owner, []).append(item)
            self._endpoints[namespace] = found
        return self._endpoints[namespace]


def _answers(endpoints: Iterable[Object], before: Load, now: Load) -> Answers:
    counted = Answers()
    for item in endpoints:
        name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
        counts = (
            now.count_since(before, text, name) for text in ("answers", "errors", "timed", "milliseconds")
        )
        counted += Answers(*counts)
    return counted


def _is_running(item: Mapping[str, Any]) -> bool:
    """Return True if a step of a deployment's canary is in progress."""
    canary = ((item.get("status") or {}).get("rollout") or {}).get("canary") or {}
    return canary.get("phase") == CanaryPhase.RUNNING and bool(canary.get("stepStartTime"))

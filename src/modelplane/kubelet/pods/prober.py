"""Probes of one attempt to run a container: startup, then readiness and liveness.

Readiness is reported; a failed startup or liveness probe ends the attempt.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from modelplane.kube import timestamps
from modelplane.kubelet.pod_events import Reason
from modelplane.kubelet.pods import probes
from modelplane.kubelet.pods.http_check import Answer
from modelplane.kubelet.pods.reporting import ContainerReport
from modelplane.kubelet.pods.termination import Termination, find_grace_s, start_countdown
from modelplane.kubelet.records import Attempt
from modelplane.kubelet.runtime.runtime_choice import Runtimes

_log = logging.getLogger(__name__)


class Prober:
    """Runs the probes of one pod's container."""

    def __init__(self, report: ContainerReport, runtimes: Runtimes, termination: Termination) -> None:
        self._report = report
        self._runtimes = runtimes
        self._termination = termination

    async def run(self, attempt: Attempt) -> None:
        """Probe an attempt until it fails for good, or for as long as this is not cancelled."""
        startup = probes.probe(self._report.spec, "startupProbe")
        started = self._report.view.started
        if startup is not None and not started and not await self._started_up(startup, attempt):
            return
        readiness = probes.probe(self._report.spec, "readinessProbe")
        self._report.set(started=True, ready=readiness is None or self._report.view.ready)
        async with asyncio.TaskGroup() as tasks:
            if readiness is not None:
                tasks.create_task(self._watch_readiness(readiness, attempt))
            if liveness := probes.probe(self._report.spec, "livenessProbe"):
                tasks.create_task(self._watch_liveness(liveness, attempt))

    async def _started_up(self, startup: probes.Probe, attempt: Attempt) -> bool:
        ask = partial(self._ask, attempt)
        async for verdict in probes.observe_verdicts(startup, ask, _running_s(attempt)):
            if not verdict.ok:
                await self._end_failed(attempt, startup, "startup", verdict)
            return verdict.ok
        return False

    async def _watch_readiness(self, readiness: probes.Probe, attempt: Attempt) -> None:
        ask = partial(self._ask, attempt)
        async for verdict in probes.observe_verdicts(readiness, ask, _running_s(attempt)):
            self._report.set(ready=verdict.ok)
            if not verdict.ok:
                self._report.record_event(Reason.UNHEALTHY, f"the readiness probe failed: {verdict.problem}")

    async def _watch_liveness(self, liveness: probes.Probe, attempt: Attempt) -> None:
        ask = partial(self._ask, attempt)
        async for verdict in probes.observe_verdicts(liveness, ask, _running_s(attempt)):
            if not verdict.ok:
                await self._end_failed(attempt, liveness, "liveness", verdict)
                return

    async def _end_failed(
        self, attempt: Attempt, asked: probes.Probe, kind: str, verdict: probes.Verdict
    ) -> None:
        name = self._report.spec["name"]
        self._report.record_event(Reason.UNHEALTHY, f"the {kind} probe failed: {verdict.problem}")
        self._report.record_event(
            Reason.KILLING, f'container "{name}" failed its {kind} probe: restarting it'
        )
        pod = self._report.pod["metadata"]["name"]
        _log.warning('pod "%s": the %s probe failed (%s): restarting', pod, kind, verdict.problem)
        most_s = float(find_grace_s(self._report.pod) if asked.grace_s is None else asked.grace_s)
        await self._termination.end(attempt, start_countdown(most_s))

    async def _ask(self, attempt: Attempt, handler: Mapping[str, Any], timeout_s: float) -> Answer:
        return await self._runtimes.find(attempt).ask(attempt, handler, self._report.spec, timeout_s)


def _running_s(attempt: Attempt) -> float:
    if not attempt.started_at:
        return 0.0
    return max(time.time() - timestamps.parse(attempt.started_at).timestamp(), 0.0)

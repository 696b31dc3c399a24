"""The life of one container of a pod: its attempts, their probes, restarts, and its end.

State that must outlive the agent is on disk, so a new worker continues where the last one stopped.

Of the probes, startup comes first, then readiness and liveness. Readiness is reported; a failed startup or
liveness probe ends the attempt.

Init containers and sidecars start one after the other, then the main containers start together. They end in
the reverse order: main containers together, then the sidecars one after the other (Kubernetes, "Sidecar
Containers").

The first restart of a container that ended is immediate; from the second on the delay is 10 s, doubling to
5 min, and forgotten once an attempt has run for 10 min (Kubernetes, "Pod Lifecycle", restart policy).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from modelplane.kube import timestamps
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pod_events import Reason
from modelplane.kubelet.pods import probes
from modelplane.kubelet.pods.probes import Answer
from modelplane.kubelet.pods.reporting import ContainerReport, ContainerStatus
from modelplane.kubelet.pods.termination import Termination, get_grace_s, start_countdown
from modelplane.kubelet.pods.views import BACK_OFF, ContainerView, PodView, Role, Running, Waiting
from modelplane.kubelet.records import Attempt, Exit, PodRecord
from modelplane.kubelet.runtime.container_cli import ContainerRuntimeError
from modelplane.kubelet.runtime.pod_network import PodNetwork
from modelplane.kubelet.runtime.runtime_choice import Runtimes

FIRST_RETRY_S = 0.5
"""Delay before a failed start, removal or deletion is tried again; it doubles up to ``LAST_RETRY_S``."""
LAST_RETRY_S = 10.0
_FIRST_RESTART_DELAY_S = 10.0
"""Delay of the second restart of a container that ended; it doubles up to ``_LAST_RESTART_DELAY_S``."""
_LAST_RESTART_DELAY_S = 300.0
_LASTING_RUN_S = 600.0
"""An attempt that ran for so long makes earlier ends count no more."""
_log = logging.getLogger(__name__)


class ContainerWorker:
    """Runs one container of a pod."""

    def __init__(
        self, machine: Machine, record: PodRecord, report: ContainerReport, network: PodNetwork | None
    ) -> None:
        self.record = record
        self._report = report
        self._name: str = report.spec["name"]
        self.directory = machine.directory.get_pod(record.uid).get_container(self._name)
        # Agents that ran one container in a pod gave it ids without its name.
        is_first = self._name == report.whole.pod["spec"]["containers"][0]["name"]
        self._runtimes = Runtimes(machine, record, "" if is_first else self._name, network)
        self._status = ContainerStatus(report, self._runtimes, self.directory)
        self._termination = Termination(report, self._runtimes)
        self._prober = Prober(report, self._runtimes, self._termination)
        self._another_image = asyncio.Event()
        self._image: str = report.spec["image"]

    @property
    def view(self) -> ContainerView:
        """The present knowledge of the container."""
        return self._report.view

    def update(self) -> None:
        """Take in that the pod's object has changed."""
        if self._report.spec["image"] != self._image:
            self._image = self._report.spec["image"]
            self._another_image.set()

    async def take_in(self) -> None:
        """Report what is on disk of the last attempt, which another agent may have started."""
        attempt = self.directory.find_latest()
        if attempt is None:
            return
        if attempt.exit is not None:
            await self._note_end(attempt, attempt.exit)
        elif not (isinstance(self.view.state, Running) and self.view.restarts == attempt.number):
            await self._status.report_running(attempt)

    def log(self, attempt: Attempt, selection: Selection, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Yield the log of an attempt; with ``follow``, until the attempt ends."""
        return self._runtimes.find(attempt).log(attempt, selection, follow=follow)

    # Living ---------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Run attempts, each when it may start, until the container has ended for good."""
        attempt = self.directory.find_latest()
        ends = 0
        while True:
            if attempt is None:
                await self._report.whole.wait_until(partial(may_start, name=self._name))
                attempt = await self._start()
            if attempt.exit is None:
                await self._status.report_running(attempt)
                ended = await self._attend(attempt)
            else:
                ended = await self._wait(attempt)
            if not await self._note_end(attempt, ended):
                return
            if not self._is_outdated(attempt):
                began, over = attempt.started_at, timestamps.parse(ended.finished_at)
                ran_s = (over - timestamps.parse(began)).total_seconds() if began else 0.0
                ends = count_ends_in_row(ends, ran_s)
                await self._back_off(compute_delay_s(ends), ended)
            attempt = None

    async def _note_end(self, attempt: Attempt, ended: Exit) -> bool:
        """Report the end of an attempt; return True if another one follows."""
        policy = get_restart_policy(self._report.pod["spec"].get("restartPolicy", "Always"), self.view.role)
        again = self._is_outdated(attempt) or must_restart(policy, ended.code)
        await self._status.report_end(attempt, ended, finished=not again)
        return again

    async def _start(self) -> Attempt:
        """Start the next attempt; for as long as that is impossible, say why and try again."""
        retry_s, reported = FIRST_RETRY_S, None
        while True:
            self._another_image.clear()
            try:
                runtime = await self._runtimes.choose(self.directory, self._report.whole.pod)
                attempt = await runtime.start(self._report.pod, self.directory, self._tell)
            except CannotStart as error:
                rejected = error.rejected
            else:
                if attempt.started_at:
                    self._report.record_event(Reason.STARTED, f'container "{self._name}" started')
                return attempt
            if rejected != reported:
                self._report.record_event(Reason.FAILED_TO_START, rejected.message)
            reported = rejected
            self._tell(Waiting(rejected.reason, rejected.message))
            await wait_at_most(self._another_image.wait(), retry_s)
            retry_s = min(retry_s * 2, LAST_RETRY_S)

    def _tell(self, state: Waiting) -> None:
        before, pulling = self.view.state, WaitingReason.PULLING
        if state.reason == pulling and not (isinstance(before, Waiting) and before.reason == pulling):
            self._report.record_event(Reason.PULLING, state.message)
        self._report.set(state=state, image="", ready=False, started=False)

    def _is_outdated(self, attempt: Attempt) -> bool:
        """Return True if the pod has been given another image since an attempt began.

        The work of an init container is not done again.
        """
        return self.view.role is not Role.INIT and attempt.image not in {"", self._report.spec["image"]}

    async def _attend(self, attempt: Attempt) -> Exit:
        """Probe an attempt until it ends, which another image brings about too."""
        beside = {asyncio.create_task(self._end_outdated(attempt))}
        if self.view.role is not Role.INIT:
            beside.add(asyncio.create_task(self._prober.run(attempt)))
        try:
            return await self._wait(attempt)
        finally:
            for task in beside:
                task.cancel()
            # A bug in these must not look like the end of the container.
            await asyncio.wait(beside)
            for task in beside:
                if not task.cancelled() and (error := task.exception()):
                    _log.error('cannot attend to pod "%s"', self.record.name, exc_info=error)

    async def _wait(self, attempt: Attempt) -> Exit:
        return await self._runtimes.find(attempt).wait(attempt)

    async def _end_outdated(self, attempt: Attempt) -> None:
        while not self._is_outdated(attempt):
            self._another_image.clear()
            await self._another_image.wait()
        self._report.record_event(
            Reason.KILLING, f'the image of container "{self._name}" changed: restarting it'
        )
        await self._termination.end(attempt, start_countdown(get_grace_s(self._report.pod)))

    async def _back_off(self, delay_s: float, ended: Exit) -> None:
        left_s = delay_s - max(time.time() - timestamps.parse(ended.finished_at).timestamp(), 0.0)
        if left_s <= 0:
            return
        lines = self.view.last.message.splitlines() if self.view.last else []
        how = f"which ended with exit code {ended.code}" + (f": {lines[-1]}" if lines else "")
        message = f"back-off {delay_s:.0f}s restarting the container, {how}"
        self._report.record_event(Reason.BACK_OFF, f'back-off restarting container "{self._name}", {how}')
        self._report.set(state=Waiting(BACK_OFF, message))
        self._another_image.clear()
        await wait_at_most(self._another_image.wait(), left_s)

    # Leaving --------------------------------------------------------------------------------------

    async def end(self, left_s: Callable[[], float]) -> None:
        """End the container for good, in its turn, for as long as there is time left."""
        attempt = self.directory.find_latest()
        if attempt is not None:
            if attempt.exit is None:
                self._report.record_event(Reason.KILLING, f'stopping container "{self._name}"')
                await self._termination.end(attempt, left_s, partial(may_end, name=self._name))
            await self._status.report_end(attempt, await self._wait(attempt), finished=True)
        if unfinished := self.directory.find_unfinished():
            await self._forget(unfinished)

    async def forget(self) -> None:
        """Release the container's resources outside the pod's directory."""
        for attempt in self.directory.list_attempts():
            await self._forget(attempt)

    async def _forget(self, attempt: Attempt) -> None:
        await retry_removal(lambda: self._runtimes.find(attempt).forget(attempt), self.record)


async def retry_removal(remove: Callable[[], Coroutine[Any, Any, None]], record: PodRecord) -> None:
    """Try to remove a container of a pod until its container runtime has confirmed that."""
    retry_s, reported = FIRST_RETRY_S, ""
    while True:
        try:
            return await remove()
        except ContainerRuntimeError as error:
            if str(error) != reported:
                reported = str(error)
                _log.warning('cannot remove a container of pod "%s": %s', record.name, reported)
        await asyncio.sleep(retry_s)
        retry_s = min(retry_s * 2, LAST_RETRY_S)


async def wait_at_most(work: Coroutine[Any, Any, object], timeout_s: float) -> None:
    """Wait for some work, at most so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await work


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
        async for verdict in self._observe(startup, attempt):
            if not verdict.ok:
                await self._end_failed(attempt, startup, "startup", verdict)
            return verdict.ok
        return False

    async def _watch_readiness(self, readiness: probes.Probe, attempt: Attempt) -> None:
        async for verdict in self._observe(readiness, attempt):
            self._report.set(ready=verdict.ok)
            if not verdict.ok:
                self._report.record_event(Reason.UNHEALTHY, f"the readiness probe failed: {verdict.problem}")

    async def _watch_liveness(self, liveness: probes.Probe, attempt: Attempt) -> None:
        async for verdict in self._observe(liveness, attempt):
            if not verdict.ok:
                await self._end_failed(attempt, liveness, "liveness", verdict)
                return

    async def _end_failed(self, attempt: Attempt, asked: probes.Probe, kind: str, verdict: Answer) -> None:
        name = self._report.spec["name"]
        self._report.record_event(Reason.UNHEALTHY, f"the {kind} probe failed: {verdict.problem}")
        self._report.record_event(
            Reason.KILLING, f'container "{name}" failed its {kind} probe: restarting it'
        )
        pod = self._report.pod["metadata"]["name"]
        _log.warning('pod "%s": the %s probe failed (%s): restarting', pod, kind, verdict.problem)
        most_s = float(get_grace_s(self._report.pod) if asked.grace_s is None else asked.grace_s)
        await self._termination.end(attempt, start_countdown(most_s))

    def _observe(self, asked: probes.Probe, attempt: Attempt) -> AsyncIterator[Answer]:
        async def ask(handler: Mapping[str, Any], timeout_s: float) -> Answer:
            return await self._runtimes.find(attempt).ask(attempt, handler, self._report.spec, timeout_s)

        started_at = attempt.started_at
        running_s = time.time() - timestamps.parse(started_at).timestamp() if started_at else 0.0
        return probes.observe_verdicts(asked, ask, max(running_s, 0.0))


def may_start(view: PodView, name: str) -> bool:
    """Return True if the next attempt of a container may start."""
    container = view.find_container(name)
    if view.over or container.finished:
        return False
    if view.initialized:
        return container.role is not Role.INIT
    before = view.containers[: view.containers.index(container)]
    return container.role is not Role.MAIN and all(earlier.passed for earlier in before)


def may_end(view: PodView, name: str) -> bool:
    """Return True if a container may get its stop signal when the pod ends: nothing runs that uses it."""
    container = view.find_container(name)
    after = view.containers[view.containers.index(container) + 1 :]
    return container.role is not Role.SIDECAR or not any(later.runs for later in after)


def get_restart_policy(pod_policy: str, role: Role) -> str:
    """Return the restart policy of a container of a pod."""
    if role is Role.SIDECAR:
        return "Always"
    return "OnFailure" if role is Role.INIT and pod_policy == "Always" else pod_policy


def must_restart(policy: str, exit_code: int) -> bool:
    """Return True if a restart policy asks for another attempt after this exit."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def count_ends_in_row(before: int, ran_s: float) -> int:
    """Return how many ends in a row count, the one of an attempt that ran so long included."""
    return 1 if ran_s >= _LASTING_RUN_S else before + 1


def compute_delay_s(ends: int) -> float:
    """Return how long after the last of so many ends the next attempt starts."""
    if ends <= 1:
        return 0.0
    return float(min(_FIRST_RESTART_DELAY_S * 2.0 ** min(ends - 2, 10), _LAST_RESTART_DELAY_S))

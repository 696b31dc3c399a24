"""The life of one container of a pod: its attempts, their probes, restarts, and its end.

State that must outlive the agent is on disk, so a new worker continues where the last one stopped.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import Any

from modelplane.kube import timestamps
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.logs.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pod_events import Reason
from modelplane.kubelet.pods import ordering
from modelplane.kubelet.pods.prober import Prober
from modelplane.kubelet.pods.reporting import ContainerReport, ContainerStatus
from modelplane.kubelet.pods.termination import Termination, find_grace_s, start_countdown
from modelplane.kubelet.pods.views import BACK_OFF, ContainerView, Role, Running, Waiting
from modelplane.kubelet.records import Attempt, Exit, PodRecord
from modelplane.kubelet.runtime.containers.cli import ContainerRuntimeError
from modelplane.kubelet.runtime.containers.pod_network import PodNetwork
from modelplane.kubelet.runtime.runtime_choice import Runtimes

FIRST_RETRY_S = 0.5
LAST_RETRY_S = 10.0

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
                await self._report.whole.wait_until(partial(ordering.may_start, name=self._name))
                attempt = await self._start()
            if attempt.exit is None:
                await self._status.report_running(attempt)
                ended = await self._attend(attempt)
            else:
                ended = await self._wait(attempt)
            if not await self._note_end(attempt, ended):
                return
            if not self._is_outdated(attempt):
                ends = ordering.count_ends_in_row(
                    ends, _seconds_between(attempt.started_at, ended.finished_at)
                )
                await self._back_off(ordering.compute_delay_s(ends), ended)
            attempt = None

    async def _note_end(self, attempt: Attempt, ended: Exit) -> bool:
        """Report the end of an attempt; return True if another one follows."""
        policy = ordering.find_restart_policy(
            self._report.pod["spec"].get("restartPolicy", "Always"), self.view.role
        )
        again = self._is_outdated(attempt) or ordering.must_restart(policy, ended.code)
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
        """Report what a start waits for."""
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
        await self._termination.end(attempt, start_countdown(find_grace_s(self._report.pod)))

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
                await self._termination.end(attempt, left_s, partial(ordering.may_end, name=self._name))
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


def _seconds_between(started_at: str, finished_at: str) -> float:
    if not started_at:
        return 0.0
    return (timestamps.parse(finished_at) - timestamps.parse(started_at)).total_seconds()


async def wait_at_most(work: Coroutine[Any, Any, object], timeout_s: float) -> None:
    """Wait for some work, at most so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await work

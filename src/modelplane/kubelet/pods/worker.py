"""The life of one pod on this machine, from binding to deletion.

Two activities, and a third that reports their results to the API. *Living*: wait until the pod may start,
run attempts of its container, probe them, restart. *Leaving*: once the pod is being deleted or is gone, run
its hook, end the container, and only then release its object. State that must outlive the agent is on disk,
so a new worker continues where the last one stopped.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from modelplane.host import addresses, folders
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.resources import Object
from modelplane.kubelet import node
from modelplane.kubelet.events import Reason
from modelplane.kubelet.logs.log_files import Selection
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import pod_status, restarts
from modelplane.kubelet.pods.container_status import ContainerStatus
from modelplane.kubelet.pods.pod_status import PodView, Waiting
from modelplane.kubelet.pods.prober import Prober
from modelplane.kubelet.pods.reporting import Report
from modelplane.kubelet.pods.termination import Termination, countdown
from modelplane.kubelet.records import Attempt, Exit, PodRecord
from modelplane.kubelet.refusals import Refusal
from modelplane.kubelet.runtime import launch
from modelplane.kubelet.runtime.choice import Runtimes
from modelplane.kubelet.runtime.containers.cli import ContainerRuntimeError
from modelplane.kubelet.runtime.containers.images import PULLING
from modelplane.kubelet.volumes import volumes

_FIRST_RETRY_S = 0.5
_LAST_RETRY_S = 10.0
_ENDED = frozenset({"Succeeded", "Failed"})

_log = logging.getLogger(__name__)


class PodWorker:
    """Runs one pod, by uid; a later pod of the same name has a worker of its own."""

    def __init__(self, machine: Machine, pod: Object, record: PodRecord) -> None:
        self.record = record
        self._machine = machine
        view = PodView(
            address=addresses.reported(record.address),
            node_address=node.ADDRESS,
            start_time=pod.get("status", {}).get("startTime") or timestamps.now(),
        )
        self._report = Report(machine.client, machine.events, pod, view)
        self.container = machine.directory.pod(record.uid).container(self._report.spec["name"])
        self._runtimes = Runtimes(machine, record)
        self._status = ContainerStatus(self._report, self._runtimes, self.container)
        self._termination = Termination(self._report, self._runtimes)
        self._prober = Prober(self._report, self._runtimes, self._termination)
        self._another_image = asyncio.Event()
        self._leaving = asyncio.Event()

    @property
    def pod(self) -> Object:
        """The newest known state of the pod's object."""
        return self._report.pod

    @property
    def view(self) -> PodView:
        """The present knowledge of the pod."""
        return self._report.view

    def update(self, pod: Object) -> None:
        """Take in a state of the pod's object."""
        before = self._report.spec["image"]
        self._report.update(pod)
        if self._report.spec["image"] != before:
            self._another_image.set()
        self._wake()

    def lose(self) -> None:
        """Take in that the pod's object is gone."""
        self._report.lose()
        self._wake()

    def _wake(self) -> None:
        if self._report.gone or "deletionTimestamp" in self.pod["metadata"]:
            self._leaving.set()

    async def run(self) -> None:
        """Run the pod until its object is gone and nothing of it runs any more.

        Cancelling leaves everything running, for the next worker to take over.
        """
        self._machine.directory.pod(self.record.uid).write(self.record)
        self._wake()
        ended = self.container.latest() is None and self.pod.get("status", {}).get("phase") in _ENDED
        async with asyncio.TaskGroup() as tasks:
            # A pod that was terminated before this worker started has nothing to run or to report.
            activities = [] if ended else [tasks.create_task(self._live())]
            reporting = None if ended else tasks.create_task(self._report.keep_sent())
            await self._leaving.wait()
            for activity in activities:
                activity.cancel()
                await asyncio.wait({activity})
            await self._leave(ended)
            if reporting is not None:
                reporting.cancel()
        await self._forget()
        self._machine.directory.pod(self.record.uid).remove()

    def log(self, attempt: Attempt, selection: Selection, *, follow: bool) -> AsyncGenerator[bytes, None]:
        """Yield the log of an attempt; with ``follow``, until the attempt ends."""
        return self._runtimes.of(attempt).log(attempt, selection, follow=follow)

    # Living ---------------------------------------------------------------------------------------

    async def _live(self) -> None:
        attempt = self.container.latest()
        ends = 0
        while True:
            if attempt is None:
                attempt = await self._start()
            if attempt.exit is None:
                await self._status.note_running(attempt)
                ended = await self._attend(attempt)
            else:
                ended = await self._wait(attempt)
            replaced = self._is_outdated(attempt)
            policy = self.pod["spec"].get("restartPolicy", "Always")
            again = replaced or restarts.restarts(policy, ended.code)
            await self._status.note_end(attempt, ended, finished=not again)
            if not again:
                return
            if not replaced:
                ends = restarts.ends_in_row(ends, _seconds_between(attempt.started_at, ended.finished_at))
                await self._back_off(restarts.delay_s(ends), ended)
            attempt = None

    async def _start(self) -> Attempt:
        """Start the next attempt; for as long as that is impossible, say why and try again."""
        retry_s, told = _FIRST_RETRY_S, None
        while True:
            self._another_image.clear()
            try:
                runtime = await self._runtimes.choose(self.container, self.pod)
                attempt = await runtime.start(self.pod, self.container, self._tell)
            except launch.NotYet as not_yet:
                refusal = not_yet.refusal
            else:
                if attempt.started_at:
                    self._report.event(Reason.STARTED, f'container "{self._report.spec["name"]}" started')
                return attempt
            if refusal != told:
                self._report.event(Reason.FAILED_TO_START, refusal.message)
            told = refusal
            self._tell(refusal)
            await _first_of(self._another_image.wait(), retry_s)
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    def _tell(self, refusal: Refusal) -> None:
        """Report what a start waits for."""
        before, state = self.view.state, Waiting(refusal.reason, refusal.message)
        if state.reason == PULLING and not (isinstance(before, Waiting) and before.reason == PULLING):
            self._report.event(Reason.PULLING, state.message)
        self._report.set(state=state, image="", ready=False, started=False)

    def _is_outdated(self, attempt: Attempt) -> bool:
        """Return True if the pod has been given another image since an attempt began."""
        return attempt.image not in {"", self._report.spec["image"]}

    async def _attend(self, attempt: Attempt) -> Exit:
        """Probe an attempt until it ends, which another image brings about too."""
        beside = {
            asyncio.create_task(self._prober.run(attempt)),
            asyncio.create_task(self._end_outdated(attempt)),
        }
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
        return await self._runtimes.of(attempt).wait(attempt)

    async def _end_outdated(self, attempt: Attempt) -> None:
        while not self._is_outdated(attempt):
            self._another_image.clear()
            await self._another_image.wait()
        self._report.event(
            Reason.KILLING, f'the image of container "{self._report.spec["name"]}" changed: restarting it'
        )
        await self._termination.end(attempt, countdown(self._termination.grace_s()))

    async def _back_off(self, delay_s: float, ended: Exit) -> None:
        left_s = delay_s - max(time.time() - timestamps.parse(ended.finished_at).timestamp(), 0.0)
        if left_s <= 0:
            return
        lines = self.view.last.message.splitlines() if self.view.last else []
        how = f"which ended with exit code {ended.code}" + (f": {lines[-1]}" if lines else "")
        message = f"back-off {delay_s:.0f}s restarting the container, {how}"
        self._report.event(
            Reason.BACK_OFF, f'back-off restarting container "{self._report.spec["name"]}", {how}'
        )
        self._report.set(state=Waiting(pod_status.BACK_OFF, message))
        self._another_image.clear()
        await _first_of(self._another_image.wait(), left_s)

    # Leaving --------------------------------------------------------------------------------------

    async def _leave(self, ended: bool) -> None:
        """End the container within the grace period, then let the pod's object go."""
        attempt = self.container.latest()
        if attempt is not None:
            if attempt.exit is None:
                self._report.event(Reason.KILLING, f'stopping container "{self._report.spec["name"]}"')
                began = time.monotonic()
                if isinstance(self.view.state, Waiting):  # another agent started it
                    await self._status.note_running(attempt)
                await self._termination.end(attempt, lambda: self._termination.left_s(began))
            await self._status.note_end(attempt, await self._wait(attempt), finished=True)
        if unfinished := self.container.unfinished():
            await self._forget_one(unfinished)
        await self._clear_volumes()
        retry_s = _FIRST_RETRY_S
        while not self._report.gone:
            try:
                if not ended:
                    await self._report.send()
                await self._machine.client.delete(
                    resources.PODS,
                    self.record.name,
                    self.record.namespace,
                    uid=self.record.uid,
                    grace_period_s=0,
                )
            except (errors.Conflict, errors.NotFound):
                return  # the name is another pod's by now
            except errors.KubernetesError as error:
                _log.warning('cannot delete pod "%s": %s', self.record.name, error)
            # A finalizer may hold the object, or its end be slow to arrive.
            self._report.changed.clear()
            if not self._report.gone:
                await _first_of(self._report.changed.wait(), retry_s)
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    async def _clear_volumes(self) -> None:
        """Remove the pod's volumes: no Secret outlives its pod on disk."""
        own = volumes.of_pod(self._machine.directory.pod(self.record.uid))
        # Failures are retried and reported with the rest of the pod's directory.
        with contextlib.suppress(OSError):
            await asyncio.to_thread(folders.remove, own.path)

    async def _forget(self) -> None:
        """Release the container's resources outside the pod's directory."""
        for attempt in self.container.attempts():
            await self._forget_one(attempt)

    async def _forget_one(self, attempt: Attempt) -> None:
        retry_s, said = _FIRST_RETRY_S, ""
        while True:
            try:
                return await self._runtimes.of(attempt).forget(attempt)
            except ContainerRuntimeError as error:
                if str(error) != said:
                    said = str(error)
                    _log.warning('cannot remove a container of pod "%s": %s', self.record.name, said)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, _LAST_RETRY_S)


def _seconds_between(started_at: str, finished_at: str) -> float:
    if not started_at:
        return 0.0
    return (timestamps.parse(finished_at) - timestamps.parse(started_at)).total_seconds()


async def _first_of(work: Coroutine[Any, Any, object], timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await work

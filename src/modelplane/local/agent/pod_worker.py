"""The life of one pod on this machine, from binding to deletion.

Two activities, and a third that tells the API what the two have come to. *Living*: wait until
the pod may start, run attempts of its container, probe them, start again. *Leaving*: once the pod
is being deleted or is gone, run its hook, end the container, and only then let its object go. What
must outlive the agent is on disk, so a worker that starts anew goes on where the last one was.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from modelplane.kube import errors, resources, timestamps
from modelplane.kube.resources import Object
from modelplane.local import addresses
from modelplane.local.agent import folders, launch, node, pod_status, probes, restarts, volumes
from modelplane.local.agent.container_engines import EngineError
from modelplane.local.agent.events import Reason
from modelplane.local.agent.http_check import Answer
from modelplane.local.agent.images import PULLING
from modelplane.local.agent.log_files import Selection
from modelplane.local.agent.machine import Machine
from modelplane.local.agent.pod_status import PodView, Running, Terminated, Waiting
from modelplane.local.agent.records import Attempt, Exit, PodRecord
from modelplane.local.agent.refusals import Refusal
from modelplane.local.agent.reporting import Report
from modelplane.local.agent.runtimes import Runtimes

_FIRST_RETRY_S = 0.5
_LAST_RETRY_S = 10.0
_LEAST_GRACE_S = 2.0
_GONE_GRACE_S = 5.0
_DEFAULT_GRACE_S = 30
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
        self._report = Report(machine.client, pod, view)
        self.container = machine.directory.pod(record.uid).container(self._spec["name"])
        self._runtimes = Runtimes(machine, record)
        self._gone = False
        self._changed = asyncio.Event()
        self._another_image = asyncio.Event()
        self._leaving = asyncio.Event()
        self._deadline = ("", 0.0)

    @property
    def pod(self) -> Object:
        """The newest known state of the pod's object."""
        return self._report.pod

    @property
    def view(self) -> PodView:
        """What is known of the pod now."""
        return self._report.view

    @property
    def _spec(self) -> Mapping[str, Any]:
        """The pod's one container; its image may change while it runs."""
        spec: Mapping[str, Any] = self.pod["spec"]["containers"][0]
        return spec

    def update(self, pod: Object) -> None:
        """Take in a state of the pod's object."""
        before = self._spec["image"]
        self._report.update(pod)
        if self._spec["image"] != before:
            self._another_image.set()
        self._wake()

    def lose(self) -> None:
        """Take in that the pod's object is gone."""
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        if self._gone or "deletionTimestamp" in self.pod["metadata"]:
            self._leaving.set()
        self._changed.set()

    def _event(self, reason: Reason, note: str) -> None:
        if not self._gone:
            self._machine.events.record(self.pod, reason, note)

    async def run(self) -> None:
        """Run the pod until its object is gone and nothing of it runs any more.

        Cancelling leaves everything running, for the next worker to take over.
        """
        self._machine.directory.pod(self.record.uid).write(self.record)
        self._wake()
        ended = self.container.latest() is None and self.pod.get("status", {}).get("phase") in _ENDED
        async with asyncio.TaskGroup() as tasks:
            # One that had ended for good before this worker's time left nothing to run or to report.
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
        """Yield what an attempt wrote, and what it writes if that is wanted."""
        return self._runtimes.of(attempt).log(attempt, selection, follow=follow)

    # Living ---------------------------------------------------------------------------------------

    async def _live(self) -> None:
        attempt = self.container.latest()
        ends = 0
        while True:
            if attempt is None:
                attempt = await self._start()
            if attempt.exit is None:
                await self._note_running(attempt)
                ended = await self._attend(attempt)
            else:
                ended = await self._wait(attempt)
            replaced = self._is_outdated(attempt)
            policy = self.pod["spec"].get("restartPolicy", "Always")
            again = replaced or restarts.restarts(policy, ended.code)
            await self._note_end(attempt, ended, finished=not again)
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
                    self._event(Reason.STARTED, f'container "{self._spec["name"]}" started')
                return attempt
            if refusal != told:
                self._event(Reason.FAILED_TO_START, refusal.message)
            told = refusal
            self._tell(refusal)
            await _first_of(self._another_image.wait(), retry_s)
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    def _tell(self, refusal: Refusal) -> None:
        """Take in what a start waits for."""
        before, state = self.view.state, Waiting(refusal.reason, refusal.message)
        if state.reason == PULLING and not (isinstance(before, Waiting) and before.reason == PULLING):
            self._event(Reason.PULLING, state.message)
        self._report.set(state=state, image="", ready=False, started=False)

    def _is_outdated(self, attempt: Attempt) -> bool:
        """Whether the pod has been given another image since an attempt began."""
        return attempt.image not in {"", self._spec["image"]}

    async def _attend(self, attempt: Attempt) -> Exit:
        """Probe an attempt until it ends, which another image brings about too."""
        beside = {
            asyncio.create_task(self._probe(attempt)),
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
        self._event(Reason.KILLING, f'the image of container "{self._spec["name"]}" changed: restarting it')
        await self._end(attempt, _countdown(self._grace_s()))

    async def _probe(self, attempt: Attempt) -> None:
        startup = probes.probe(self._spec, "startupProbe")
        if startup is not None and not await self._started_up(startup, attempt):
            return
        readiness = probes.probe(self._spec, "readinessProbe")
        self._report.set(started=True, ready=readiness is None)
        async with asyncio.TaskGroup() as tasks:
            if readiness is not None:
                tasks.create_task(self._watch_readiness(readiness, attempt))
            if liveness := probes.probe(self._spec, "livenessProbe"):
                tasks.create_task(self._watch_liveness(liveness, attempt))

    async def _started_up(self, startup: probes.Probe, attempt: Attempt) -> bool:
        ask = partial(self._ask, attempt)
        async for verdict in probes.verdicts(startup, ask, _running_s(attempt)):
            if not verdict.ok:
                await self._end_failed(attempt, startup, "startup", verdict)
            return verdict.ok
        return False

    async def _watch_readiness(self, readiness: probes.Probe, attempt: Attempt) -> None:
        ask = partial(self._ask, attempt)
        async for verdict in probes.verdicts(readiness, ask, _running_s(attempt)):
            self._report.set(ready=verdict.ok)
            if not verdict.ok:
                self._event(Reason.UNHEALTHY, f"the readiness probe failed: {verdict.problem}")

    async def _watch_liveness(self, liveness: probes.Probe, attempt: Attempt) -> None:
        ask = partial(self._ask, attempt)
        async for verdict in probes.verdicts(liveness, ask, _running_s(attempt)):
            if not verdict.ok:
                await self._end_failed(attempt, liveness, "liveness", verdict)
                return

    async def _end_failed(
        self, attempt: Attempt, asked: probes.Probe, kind: str, verdict: probes.Verdict
    ) -> None:
        name = self._spec["name"]
        self._event(Reason.UNHEALTHY, f"the {kind} probe failed: {verdict.problem}")
        self._event(Reason.KILLING, f'container "{name}" failed its {kind} probe: restarting it')
        _log.warning(
            'pod "%s": the %s probe failed (%s): restarting', self.record.name, kind, verdict.problem
        )
        grace_s = float(self._grace_s() if asked.grace_s is None else asked.grace_s)
        await self._end(attempt, _countdown(grace_s))

    async def _ask(self, attempt: Attempt, handler: Mapping[str, Any], timeout_s: float) -> Answer:
        return await self._runtimes.of(attempt).ask(attempt, handler, self._spec, timeout_s)

    async def _back_off(self, delay_s: float, ended: Exit) -> None:
        left_s = delay_s - max(time.time() - timestamps.parse(ended.finished_at).timestamp(), 0.0)
        if left_s <= 0:
            return
        lines = self.view.last.message.splitlines() if self.view.last else []
        how = f"which ended with exit code {ended.code}" + (f": {lines[-1]}" if lines else "")
        message = f"back-off {delay_s:.0f}s restarting the container, {how}"
        self._event(Reason.BACK_OFF, f'back-off restarting container "{self._spec["name"]}", {how}')
        self._report.set(state=Waiting(pod_status.BACK_OFF, message))
        self._another_image.clear()
        await _first_of(self._another_image.wait(), left_s)

    async def _note_running(self, attempt: Attempt) -> None:
        runtime = self._runtimes.of(attempt)
        self._report.set(
            # One whose engine has not started is reported by its end.
            state=Running(timestamps.to_seconds(attempt.started_at)) if attempt.started_at else Waiting(),
            last=await self._before(attempt),
            restarts=attempt.number,
            container_id=runtime.container_id(attempt),
            image=attempt.image,
            image_id=runtime.image_id(attempt),
            started=False,
            ready=False,
            finished=False,
        )

    async def _note_end(self, attempt: Attempt, ended: Exit, *, finished: bool) -> None:
        terminated = await self._terminated(attempt, ended)
        self._report.set(
            state=terminated,
            last=await self._before(attempt) if finished else terminated,
            restarts=attempt.number,
            container_id=terminated.container_id,
            image=attempt.image,
            image_id=self._runtimes.of(attempt).image_id(attempt),
            started=False,
            ready=False,
            finished=finished,
        )

    async def _before(self, attempt: Attempt) -> Terminated | None:
        """Return how the attempt before one ended."""
        before = self.container.attempt(attempt.number - 1)
        ended = before.exit
        return await self._terminated(before, ended) if ended else None

    async def _terminated(self, attempt: Attempt, ended: Exit) -> Terminated:
        runtime = self._runtimes.of(attempt)
        message = ended.message
        if not ended.supervised and not message:
            message = "the process that supervised the container was killed"
        # What never started has nothing to say.
        if (
            ended.code
            and attempt.started_at
            and self._spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        ):
            message = await runtime.last_words(attempt) or message
        finished_at = timestamps.to_seconds(ended.finished_at)
        return Terminated(
            exit_code=ended.code,
            signal=ended.signal,
            message=message,
            started_at=timestamps.to_seconds(attempt.started_at) if attempt.started_at else finished_at,
            finished_at=finished_at,
            container_id=runtime.container_id(attempt),
            cause=ended.reason,
        )

    # Leaving --------------------------------------------------------------------------------------

    async def _leave(self, ended: bool) -> None:
        """End the container within the grace period, then let the pod's object go."""
        attempt = self.container.latest()
        if attempt is not None:
            if attempt.exit is None:
                self._event(Reason.KILLING, f'stopping container "{self._spec["name"]}"')
                began = time.monotonic()
                if isinstance(self.view.state, Waiting):  # another agent started it
                    await self._note_running(attempt)
                await self._end(attempt, lambda: self._left_s(began))
            await self._note_end(attempt, await self._wait(attempt), finished=True)
        if unfinished := self.container.unfinished():
            await self._forget_one(unfinished)
        await self._clear_volumes()
        retry_s = _FIRST_RETRY_S
        while not self._gone:
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
            self._changed.clear()
            if not self._gone:
                await _first_of(self._changed.wait(), retry_s)
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    async def _clear_volumes(self) -> None:
        """Remove what the pod was given: where its object is gone, no Secret of it is on disk any more."""
        own = volumes.of_pod(self._machine.directory.pod(self.record.uid))
        # What cannot be removed is tried again, and told, with the rest of the pod's directory.
        with contextlib.suppress(OSError):
            await asyncio.to_thread(folders.remove, own.path)

    async def _end(self, attempt: Attempt, left_s: Callable[[], float]) -> None:
        """Run the hook and end the engine, for as long as there is time left."""
        hook = self._spec.get("lifecycle", {}).get("preStop")
        if hook and not self._gone:
            await self._within(self._pre_stop(attempt, hook), left_s)
        runtime = self._runtimes.of(attempt)
        await self._within(runtime.terminate(attempt), left_s)
        if not await self._within(runtime.wait(attempt), left_s):
            await runtime.kill(attempt)

    async def _forget(self) -> None:
        """Let go of what is kept of the container outside of the pod's directory."""
        for attempt in self.container.attempts():
            await self._forget_one(attempt)

    async def _forget_one(self, attempt: Attempt) -> None:
        retry_s, said = _FIRST_RETRY_S, ""
        while True:
            try:
                return await self._runtimes.of(attempt).forget(attempt)
            except EngineError as error:
                if str(error) != said:
                    said = str(error)
                    _log.warning('cannot remove a container of pod "%s": %s', self.record.name, said)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    async def _pre_stop(self, attempt: Attempt, hook: Mapping[str, Any]) -> None:
        if "sleep" in hook:
            await asyncio.sleep(float(hook["sleep"]["seconds"]))
        elif {"httpGet", "tcpSocket", "exec"} & hook.keys():
            answer = await self._ask(attempt, hook, float(self._grace_s()))
            if not answer.ok:
                _log.warning('the preStop hook of pod "%s" failed: %s', self.record.name, answer.problem)

    async def _within(self, work: Coroutine[Any, Any, object], left_s: Callable[[], float]) -> bool:
        """Let some work go on until the time is over, which may be cut short meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                seconds = left_s()
                if seconds <= 0:
                    return False
                self._changed.clear()
                woken = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({task, woken}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
        finally:
            task.cancel()
            await asyncio.wait({task})
        return True

    def _left_s(self, began: float) -> float:
        """Return how long the container may still take to end, which began at a time of the monotonic clock.

        The API server says until when by the clock on the wall, which is looked at once for each word
        of the server's, because it may be set meanwhile.
        """
        now = time.monotonic()
        if self._gone:
            return began + _GONE_GRACE_S - now
        stamp = self.pod["metadata"]["deletionTimestamp"]
        if self._deadline[0] != stamp:
            # The API server cuts off the fraction of its second.
            by_clock = timestamps.parse(stamp).timestamp() + 1.0 - time.time()
            left_s = max(min(by_clock, self._grace_s() + 1.0), _LEAST_GRACE_S - (now - began))
            self._deadline = (stamp, now + left_s)
        return self._deadline[1] - now

    def _grace_s(self) -> int:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        grace = metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds"))
        return _DEFAULT_GRACE_S if grace is None else int(grace)


def _countdown(seconds: float) -> Callable[[], float]:
    deadline = time.monotonic() + seconds
    return lambda: deadline - time.monotonic()


def _running_s(attempt: Attempt) -> float:
    if not attempt.started_at:
        return 0.0
    return max(time.time() - timestamps.parse(attempt.started_at).timestamp(), 0.0)


def _seconds_between(started_at: str, finished_at: str) -> float:
    if not started_at:
        return 0.0
    return (timestamps.parse(finished_at) - timestamps.parse(started_at)).total_seconds()


async def _first_of(work: Coroutine[Any, Any, object], timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await work

"""Status of an attempt to run a container (core/v1 ``ContainerStatus``)."""

from modelplane.kube import timestamps
from modelplane.kubelet.pods import pod_status
from modelplane.kubelet.pods.reporting import ContainerReport
from modelplane.kubelet.pods.views import Role, Running, Terminated, Waiting
from modelplane.kubelet.records import Attempt, ContainerDirectory, Exit
from modelplane.kubelet.runtime.runtime_choice import Runtimes


class ContainerStatus:
    """Reports the attempts of one pod's container."""

    def __init__(self, report: ContainerReport, runtimes: Runtimes, container: ContainerDirectory) -> None:
        self._report = report
        self._runtimes = runtimes
        self._container = container

    async def note_running(self, attempt: Attempt) -> None:
        """Report that an attempt runs."""
        runtime = self._runtimes.of(attempt)
        container_id = runtime.container_id(attempt)
        # A container that was ready when the previous agent ended stays ready until a probe fails.
        started, ready = pod_status.told(self._report.whole.pod, container_id)
        self._report.set(
            # An attempt without a started engine is reported by its exit.
            state=Running(timestamps.to_seconds(attempt.started_at)) if attempt.started_at else Waiting(),
            last=await self._before(attempt),
            restarts=attempt.number,
            container_id=container_id,
            image=attempt.image,
            image_id=runtime.image_id(attempt),
            started=started,
            ready=ready,
            finished=False,
        )

    async def note_end(self, attempt: Attempt, ended: Exit, *, finished: bool) -> None:
        """Report that an attempt has ended, and whether it was the last one."""
        terminated = await self._terminated(attempt, ended)
        self._report.set(
            state=terminated,
            last=await self._before(attempt) if finished else terminated,
            restarts=attempt.number,
            container_id=terminated.container_id,
            image=attempt.image,
            image_id=self._runtimes.of(attempt).image_id(attempt),
            started=False,
            # An init container that has done its work counts as ready.
            ready=self._report.view.role is Role.INIT and ended.code == 0,
            finished=finished,
        )

    async def _before(self, attempt: Attempt) -> Terminated | None:
        """Return how the attempt before one ended."""
        before = self._container.attempt(attempt.number - 1)
        ended = before.exit
        return await self._terminated(before, ended) if ended else None

    async def _terminated(self, attempt: Attempt, ended: Exit) -> Terminated:
        runtime = self._runtimes.of(attempt)
        message = ended.message
        if not ended.supervised and not message:
            message = "the process that supervised the container was killed"
        # An attempt that never started has no log.
        if (
            ended.code
            and attempt.started_at
            and self._report.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        ):
            message = await runtime.termination_message(attempt) or message
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

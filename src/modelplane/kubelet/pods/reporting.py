"""Reports of a pod's status to the API, retried until they are accepted.

The status is set at once and sent when the server accepts it; only the latest is sent.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from modelplane.kube import errors, resources, timestamps
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.kubelet.pod_events import Reason, Recorder
from modelplane.kubelet.pods import pod_status, views
from modelplane.kubelet.pods.views import ContainerView, PodView, Role, Running, Terminated, Waiting
from modelplane.kubelet.records import Attempt, ContainerDirectory, Exit
from modelplane.kubelet.runtime.runtime_choice import Runtimes

_FIRST_RETRY_S = 0.5
_LAST_RETRY_S = 10.0

_log = logging.getLogger(__name__)


class PodReport:
    """Reports of one pod: its last known object, its desired status, its events."""

    def __init__(self, client: Client, recorder: Recorder, pod: Object, view: PodView) -> None:
        self.pod = pod
        self.view = view
        self.gone = False
        """True if the object is gone."""
        self.changed = asyncio.Event()
        """Set, and replaced by another one, with each change of the object or of what is known of the pod."""
        self._client = client
        self.recorder = recorder
        self._unsent = asyncio.Event()
        self._unsent.set()

    def set(self, container: ContainerView) -> None:
        """Update the knowledge of a container."""
        self.view = self.view.replace_container(container)
        self._unsent.set()
        self._notify()

    async def wait_until(self, holds: Callable[[PodView], bool]) -> None:
        """Return as soon as something holds of the pod."""
        while not holds(self.view):
            await self.changed.wait()

    def update(self, pod: Object) -> None:
        """Take in a state of the pod's object, unless a newer one is known from a write."""
        self._keep_newer(pod)
        self._unsent.set()
        self._notify()

    def mark_gone(self) -> None:
        """Take in that the pod's object is gone."""
        self.gone = True
        self._notify()

    def _notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def _keep_newer(self, pod: Object) -> None:
        if int(pod["metadata"]["resourceVersion"]) >= int(self.pod["metadata"]["resourceVersion"]):
            self.pod = pod

    async def keep_sent(self) -> None:
        """Send every change until cancelled."""
        retry_s = _FIRST_RETRY_S
        while True:
            await self._unsent.wait()
            self._unsent.clear()
            try:
                await self.send()
                retry_s = _FIRST_RETRY_S
            except (errors.NotFound, errors.Conflict):
                continue  # gone, or the name is another pod's: the informer will say so
            except errors.KubernetesError as error:
                _log.warning('cannot report the status of pod "%s": %s', self.pod["metadata"]["name"], error)
                self._unsent.set()
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, _LAST_RETRY_S)

    async def send(self) -> None:
        """Send the status if the pod's differs."""
        changed = pod_status.find_changes(
            self.pod, pod_status.build_status(self.pod, self.view, timestamps.format_now())
        )
        if not changed:
            return
        metadata = self.pod["metadata"]
        answer = await self._client.patch(
            resources.PODS,
            metadata["name"],
            {"metadata": {"uid": metadata["uid"]}, "status": changed},
            metadata["namespace"],
            kind="strategic",
            subresource="status",
        )
        self._keep_newer(answer)


class ContainerReport:
    """The part of a pod's reports that is about one container."""

    def __init__(self, whole: PodReport, name: str) -> None:
        self.whole = whole
        self._name = name

    @property
    def pod(self) -> Object:
        """The pod's last known object, narrowed to the container."""
        return views.select_container(self.whole.pod, self._name)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The container; its image may change while it runs."""
        spec: Mapping[str, Any] = self.pod["spec"]["containers"][0]
        return spec

    @property
    def view(self) -> ContainerView:
        """The present knowledge of the container."""
        return self.whole.view.find_container(self._name)

    def set(self, **fields: Any) -> None:
        """Update the knowledge of the container."""
        self.whole.set(replace(self.view, **fields))

    def record_event(self, reason: Reason, note: str) -> None:
        """Record an event about the container, unless its pod's object is gone."""
        if not self.whole.gone:
            field = "containers" if self.view.role is Role.MAIN else "initContainers"
            self.whole.recorder.record(self.pod, reason, note, field)


class ContainerStatus:
    """Reports the attempts of one pod's container."""

    def __init__(self, report: ContainerReport, runtimes: Runtimes, container: ContainerDirectory) -> None:
        self._report = report
        self._runtimes = runtimes
        self._container = container

    async def report_running(self, attempt: Attempt) -> None:
        """Report that an attempt runs."""
        runtime = self._runtimes.find(attempt)
        container_id = runtime.get_container_id(attempt)
        # A container that was ready when the previous agent ended stays ready until a probe fails.
        started, ready = pod_status.read_flags(self._report.whole.pod, container_id)
        self._report.set(
            # An attempt without a started engine is reported by its exit.
            state=Running(timestamps.to_seconds(attempt.started_at)) if attempt.started_at else Waiting(),
            last=await self._describe_previous_end(attempt),
            restarts=attempt.number,
            container_id=container_id,
            image=attempt.image,
            image_id=runtime.get_image_id(attempt),
            started=started,
            ready=ready,
            finished=False,
        )

    async def report_end(self, attempt: Attempt, ended: Exit, *, finished: bool) -> None:
        """Report that an attempt has ended, and whether it was the last one."""
        terminated = await self._describe_end(attempt, ended)
        self._report.set(
            state=terminated,
            last=await self._describe_previous_end(attempt) if finished else terminated,
            restarts=attempt.number,
            container_id=terminated.container_id,
            image=attempt.image,
            image_id=self._runtimes.find(attempt).get_image_id(attempt),
            started=False,
            # An init container that has done its work counts as ready.
            ready=self._report.view.role is Role.INIT and ended.code == 0,
            finished=finished,
        )

    async def _describe_previous_end(self, attempt: Attempt) -> Terminated | None:
        """Return how the attempt before one ended."""
        before = self._container.get_attempt(attempt.number - 1)
        ended = before.exit
        return await self._describe_end(before, ended) if ended else None

    async def _describe_end(self, attempt: Attempt, ended: Exit) -> Terminated:
        runtime = self._runtimes.find(attempt)
        message = ended.message
        if not ended.supervised and not message:
            message = "the process that supervised the container was killed"
        # An attempt that never started has no log.
        if (
            ended.code
            and attempt.started_at
            and self._report.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        ):
            message = await runtime.read_termination_message(attempt) or message
        finished_at = timestamps.to_seconds(ended.finished_at)
        return Terminated(
            exit_code=ended.code,
            signal=ended.signal,
            message=message,
            started_at=timestamps.to_seconds(attempt.started_at) if attempt.started_at else finished_at,
            finished_at=finished_at,
            container_id=runtime.get_container_id(attempt),
            cause=ended.reason,
        )

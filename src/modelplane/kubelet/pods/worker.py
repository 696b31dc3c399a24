"""The life of one pod on this machine, from binding to deletion.

Two activities, and a third that reports their results to the API. *Living*: each container has a worker of
its own, and ``ordering`` says when it may start. *Leaving*: once the pod is being deleted or is gone, end the
containers in their order, and only then release the pod's object. A pod that is over ends its sidecars alike.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from modelplane.host import addresses, folders
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.resources import Object
from modelplane.kubelet import node
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods import views
from modelplane.kubelet.pods.container_worker import (
    FIRST_RETRY_S,
    LAST_RETRY_S,
    ContainerWorker,
    retry_removal,
    wait_at_most,
)
from modelplane.kubelet.pods.reporting import ContainerReport, Report
from modelplane.kubelet.pods.termination import Deadline, find_grace_s, start_countdown
from modelplane.kubelet.pods.views import PodView
from modelplane.kubelet.records import PodRecord
from modelplane.kubelet.runtime.containers import pod_network
from modelplane.kubelet.volumes import volumes

_ENDED = frozenset({"Succeeded", "Failed"})

_log = logging.getLogger(__name__)


class PodWorker:
    """Runs one pod, by uid; a later pod of the same name has a worker of its own."""

    def __init__(self, machine: Machine, pod: Object, record: PodRecord) -> None:
        self.record = record
        self._machine = machine
        view = PodView(
            address=addresses.find_reported(record.address),
            node_address=node.ADDRESS,
            start_time=pod.get("status", {}).get("startTime") or timestamps.format_now(),
            containers=views.build_views(pod),
        )
        self._report = Report(machine.client, machine.events, pod, view)
        self._network = pod_network.find_network(machine, record, pod)
        self._containers = {
            container.name: ContainerWorker(
                machine, record, ContainerReport(self._report, container.name), self._network
            )
            for container in view.containers
        }
        self._deadline = Deadline(self._report)
        self._leaving = asyncio.Event()

    @property
    def pod(self) -> Object:
        """The newest known state of the pod's object."""
        return self._report.pod

    def find_container(self, name: str) -> ContainerWorker | None:
        """Return the worker of one container."""
        return self._containers.get(name)

    def update(self, pod: Object) -> None:
        """Take in a state of the pod's object."""
        self._report.update(pod)
        for container in self._containers.values():
            container.update()
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
        directory = self._machine.directory.get_pod(self.record.uid)
        directory.write(self.record)
        self._wake()
        has_attempt = any(worker.directory.find_latest() for worker in self._containers.values())
        ended = not has_attempt and self.pod.get("status", {}).get("phase") in _ENDED
        await self._take_in()
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
        for container in self._containers.values():
            await container.forget()
        if self._network is not None:
            await retry_removal(self._network.forget, self.record)
        directory.remove()

    async def _take_in(self) -> None:
        for container in self._containers.values():
            await container.take_in()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            living = [tasks.create_task(container.live()) for container in self._containers.values()]
            await self._report.wait_until(lambda view: view.over)
            for task in living:
                task.cancel()
        await self._end(start_countdown(find_grace_s(self.pod)))

    async def _end(self, left_s: Callable[[], float]) -> None:
        """End the containers that run."""
        await self._take_in()  # one may have started a moment ago
        async with asyncio.TaskGroup() as tasks:
            for container in self._containers.values():
                tasks.create_task(container.end(left_s))

    async def _leave(self, ended: bool) -> None:
        """End the containers within the grace period, then let the pod's object go."""
        began = time.monotonic()
        await self._end(lambda: self._deadline.compute_left_s(began))
        await self._clear_volumes()
        retry_s = FIRST_RETRY_S
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
            changed = self._report.changed
            if not self._report.gone:
                await wait_at_most(changed.wait(), retry_s)
            retry_s = min(retry_s * 2, LAST_RETRY_S)

    async def _clear_volumes(self) -> None:
        """Remove the pod's volumes: no Secret outlives its pod on disk."""
        pod_volumes = volumes.find_folder(self._machine.directory.get_pod(self.record.uid))
        # Failures are retried and reported with the rest of the pod's directory.
        with contextlib.suppress(OSError):
            await asyncio.to_thread(folders.remove, pod_volumes.path)

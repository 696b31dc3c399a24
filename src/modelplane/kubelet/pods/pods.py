"""The pods of this machine: the life of each, and the termination of pods that are gone from the API.

The worker of a pod has two activities, and a third that reports their results to the API. *Living*: each
container has a worker of its own, and ``may_start`` says when it may start. *Leaving*: once the pod is being
deleted or is gone, end the containers in their order, and only then release the pod's object. A pod that is
over ends its sidecars alike.
"""

import asyncio
import contextlib
import errno
import logging
import time
import zlib
from collections.abc import Callable, Collection
from ipaddress import IPv4Network
from pathlib import Path

from modelplane.host import addresses, file_system
from modelplane.kube import errors, resources, timestamps
from modelplane.kube.informer import Informer
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
from modelplane.kubelet.pods.reporting import ContainerReport, PodReport
from modelplane.kubelet.pods.termination import Deadline, get_grace_s, start_countdown
from modelplane.kubelet.pods.views import PodView
from modelplane.kubelet.records import AgentDirectory, PodDirectory, PodRecord
from modelplane.kubelet.runtime import garbage_collection, host_processes, pod_network
from modelplane.kubelet.runtime.container_cli import ContainerRuntimeError
from modelplane.kubelet.volumes import volumes

_ORPHAN_GRACE_S = 5.0
_AFTER_BUG_S = 10.0
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
        self._report = PodReport(machine.client, machine.events, pod, view)
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

    def mark_gone(self) -> None:
        """Take in that the pod's object is gone."""
        self._report.mark_gone()
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
        phase = self.pod.get("status", {}).get("phase")
        ended = not has_attempt and phase in {"Succeeded", "Failed"}
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
        await self._end(start_countdown(get_grace_s(self.pod)))

    async def _end(self, left_s: Callable[[], float]) -> None:
        await self._take_in()  # one may have started a moment ago
        async with asyncio.TaskGroup() as tasks:
            for container in self._containers.values():
                tasks.create_task(container.end(left_s))

    async def _leave(self, ended: bool) -> None:
        """End the containers within the grace period, then let the pod's object go."""
        began = time.monotonic()
        await self._end(lambda: self._deadline.compute_left_s(began))
        # No Secret outlives its pod on disk.
        pod_volumes = volumes.get_folder(self._machine.directory.get_pod(self.record.uid))
        # Failures are retried and reported with the rest of the pod's directory.
        with contextlib.suppress(OSError):
            await asyncio.to_thread(file_system.remove_folder, pod_volumes.path)
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


def stop_all(directory: Path, grace_s: float) -> int:
    """Block until no engine of an agent's directory runs any more; return how many there were.

    Needs no API server and no agent; engines get SIGTERM and, after ``grace_s`` seconds, SIGKILL.
    What the API knows of the pods is not changed: they run again when their node does.
    """
    attempts = [attempt for pod in AgentDirectory(directory).list_pods() for attempt in pod.list_attempts()]
    running = [
        attempt
        for attempt in attempts
        if not (attempt.settled or attempt.holds_network) and (attempt.shim or attempt.container)
    ]
    try:
        host_processes.stop_attempts(running, grace_s)
    except OSError as error:
        # All have ended. Without room for that to be recorded, the next agent finds and records it.
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
    finally:
        garbage_collection.stop(attempts, grace_s)
        garbage_collection.remove_networks(AgentDirectory(directory))
    return len(running)


class Pods:
    """Every pod bound to this node."""

    def __init__(self, machine: Machine, node: str, addresses: IPv4Network) -> None:
        self._machine = machine
        self._addresses = addresses
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._informer = Informer(machine.client, resources.PODS, fields=f"spec.nodeName={node}")

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """Return the worker of a pod; of several of one name, that of the newest."""
        workers = [
            worker
            for worker in self._workers.values()
            if (worker.record.namespace, worker.record.name) == (namespace, name)
        ]
        return max(workers, key=lambda worker: worker.pod["metadata"]["creationTimestamp"], default=None)

    async def run(self) -> None:
        """Run the pods until cancelled; running containers stay."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._informer.run())
                await self._informer.wait_until_synced()
                tasks.create_task(self._clear_orphans())
                # Running pods first, so that their addresses are known to be taken.
                for item in self._informer:
                    if self._record(item["metadata"]["uid"]):
                        self._change(item)
                self._informer.add_handler(self._change)
        finally:
            workers = list(self._tasks.values())
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def _record(self, uid: str) -> PodRecord | None:
        return self._machine.directory.get_pod(uid).record

    def _change(self, changed: Object) -> None:
        metadata = changed["metadata"]
        current = self._informer.get(metadata["name"], metadata["namespace"])
        for worker in list(self._workers.values()):
            if (worker.record.namespace, worker.record.name) != (metadata["namespace"], metadata["name"]):
                continue
            if current is not None and current["metadata"]["uid"] == worker.record.uid:
                worker.update(current)
            else:
                worker.mark_gone()
        if current is not None and current["metadata"]["uid"] not in self._workers:
            self._add(current)

    def _add(self, pod: Object) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        record = self._record(uid)
        if record is None:
            taken = {worker.record.address for worker in self._workers.values()}
            address = choose_address(uid, taken, self._addresses)
            record = PodRecord(metadata["namespace"], metadata["name"], uid, address)
        worker = PodWorker(self._machine, pod, record)
        self._workers[uid] = worker
        self._tasks[uid] = asyncio.create_task(self._run(worker), name=f"pod {metadata['name']}")

    async def _run(self, worker: PodWorker) -> None:
        while True:
            try:
                await worker.run()
            except OSError as error:
                pod = (worker.record.name, worker.record.namespace)
                _log.warning('cannot go on with pod "%s" of namespace "%s", and try again: %s', *pod, error)
                await asyncio.sleep(_AFTER_BUG_S)
            except Exception:  # noqa: BLE001 - a bug in one pod must not take the others along
                _log.exception('pod "%s" of namespace "%s"', worker.record.name, worker.record.namespace)
                await asyncio.sleep(_AFTER_BUG_S)
            else:
                self._workers.pop(worker.record.uid, None)
                self._tasks.pop(worker.record.uid, None)
                return

    async def _clear_orphans(self) -> None:
        """Terminate pods that were deleted while no agent ran."""
        bound = {item["metadata"]["uid"] for item in self._informer}
        orphans = [pod for pod in self._machine.directory.list_pods() if pod.path.name not in bound]
        await self._sweep()
        while orphans := await asyncio.to_thread(_end, orphans):
            await asyncio.sleep(_AFTER_BUG_S)

    async def _sweep(self) -> None:
        """Remove containers without a pod directory."""

        def is_known(uid: str) -> bool:
            # A pod's directory exists before its container and outlives it.
            return self._machine.directory.get_pod(uid).path.exists()

        try:
            if runtime := await self._machine.container_runtimes.find_answering():
                await garbage_collection.sweep(runtime, self._machine.directory.id, is_known)
        except ContainerRuntimeError as error:
            _log.warning("cannot look for containers that were left behind: %s", error)


def _end(orphans: list[PodDirectory]) -> list[PodDirectory]:
    """Terminate some pods; return those that still run."""
    try:
        host_processes.stop_attempts(
            [attempt for pod in orphans for attempt in pod.list_attempts()], _ORPHAN_GRACE_S
        )
    except OSError as error:
        _log.warning("cannot record the end of pods that were deleted, and try again: %s", error)
        return orphans
    left = []
    for pod in orphans:
        if garbage_collection.stop(pod.list_attempts(), _ORPHAN_GRACE_S):
            left.append(pod)
        else:
            pod.remove()
    return left


def choose_address(uid: str, taken: Collection[str], within: IPv4Network) -> str:
    """Return a free address for a pod; raise ``RuntimeError`` if there is none.

    An address follows from the pod's uid, so it is the same after a restart, and a released one is not reused
    at once while proxies may still send traffic to it. Nodes that share a machine have separate ranges.
    """
    start, count = zlib.crc32(uid.encode()), within.num_addresses
    for step in range(count):
        reported = within[(start + step) % count]
        address = addresses.find_bound(str(reported))
        # Some programs take an address that ends in 0 or 255 for a network's.
        if reported.packed[-1] not in {0, 255} and address not in taken:
            return address
    raise RuntimeError(
        f"cannot assign an address to pod {uid!r}: all addresses in {within} are in use: delete pods "
        "on this node"
    )

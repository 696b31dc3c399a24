"""The pods of this machine: a worker for each, and the termination of pods that are gone from the API."""

import asyncio
import logging
import zlib
from collections.abc import Collection
from ipaddress import IPv4Network
from pathlib import Path

from modelplane.host import addresses
from modelplane.kube import resources
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pods.worker import PodWorker
from modelplane.kubelet.records import AgentDirectory, PodDirectory, PodRecord
from modelplane.kubelet.runtime.containers import garbage_collection
from modelplane.kubelet.runtime.containers.cli import ContainerRuntimeError
from modelplane.kubelet.runtime.host import process_attempt

_ORPHAN_GRACE_S = 5.0
_AFTER_BUG_S = 10.0

_log = logging.getLogger(__name__)


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
        process_attempt.stop(running, grace_s)
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
        """Update, end or start the worker of a changed pod."""
        metadata = changed["metadata"]
        current = self._informer.get(metadata["name"], metadata["namespace"])
        for worker in list(self._workers.values()):
            if (worker.record.namespace, worker.record.name) != (metadata["namespace"], metadata["name"]):
                continue
            if current is not None and current["metadata"]["uid"] == worker.record.uid:
                worker.update(current)
            else:
                worker.lose()
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
        try:
            if runtime := await self._machine.container_runtimes.find_answering():
                await garbage_collection.sweep(runtime, self._machine.directory.id, self._is_known)
        except ContainerRuntimeError as error:
            _log.warning("cannot look for containers that were left behind: %s", error)

    def _is_known(self, uid: str) -> bool:
        # A pod's directory exists before its container and outlives it.
        return self._machine.directory.get_pod(uid).path.exists()


def _end(orphans: list[PodDirectory]) -> list[PodDirectory]:
    """Terminate some pods; return those that still run."""
    try:
        process_attempt.stop([attempt for pod in orphans for attempt in pod.list_attempts()], _ORPHAN_GRACE_S)
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
        address = addresses.bound(str(reported))
        # Some programs take an address that ends in 0 or 255 for a network's.
        if reported.packed[-1] not in {0, 255} and address not in taken:
            return address
    raise RuntimeError(
        f"cannot give pod {uid!r} an address: all of {within} are taken: delete pods of this node"
    )

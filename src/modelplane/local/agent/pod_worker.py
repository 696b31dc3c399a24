"""The life of one pod on this machine, from binding to deletion.

Two activities, and a third that tells the API what the two have come to. *Living*: wait until
the pod may start, run attempts of its container, probe them, start again. *Leaving*: once the pod
is being deleted or is gone, run its hook, end the container, and only then let its object go. What
must outlive the agent is on disk, so a worker that starts anew goes on where the last one was.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from modelplane.kube import errors, resources
from modelplane.kube.client import Client
from modelplane.kube.resources import Object
from modelplane.local import addresses
from modelplane.local.agent import (
    claims,
    container,
    devices,
    environment,
    http_check,
    launchers,
    llama_cpp,
    log_files,
    node,
    pod_status,
    probes,
    refusals,
    restarts,
    timestamps,
)
from modelplane.local.agent.devices import DiscoveredDevice
from modelplane.local.agent.http_check import Answer
from modelplane.local.agent.pod_status import PodView, Running, Terminated, Waiting
from modelplane.local.agent.records import AgentDirectory, Attempt, Exit, PodRecord
from modelplane.local.agent.refusals import Refusal

_FIRST_RETRY_S = 0.5
_LAST_RETRY_S = 10.0
_LEAST_GRACE_S = 2.0
_GONE_GRACE_S = 5.0
_DEFAULT_GRACE_S = 30

# What an engine takes over from the agent's own environment; secrets of the agent are not among it.
_INHERITED = (
    "CUDA_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "SSL_CERT_FILE",
    "TMPDIR",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
)

_log = logging.getLogger(__name__)


class _NotYet(Exception):
    """The container cannot start now; it may later."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Machine:
    """What all pods of this machine share."""

    client: Client
    directory: AgentDirectory
    devices: tuple[DiscoveredDevice, ...]


class PodWorker:
    """Runs one pod, by uid; a later pod of the same name has a worker of its own."""

    def __init__(self, machine: Machine, pod: Object, record: PodRecord) -> None:
        self.record = record
        self.pod = pod
        self._machine = machine
        self._spec = pod["spec"]["containers"][0]
        self.container = machine.directory.pod(record.uid).container(self._spec["name"])
        self._view = PodView(
            address=addresses.reported(record.address),
            node_address=node.ADDRESS,
            start_time=pod.get("status", {}).get("startTime") or timestamps.now(),
            engine=launchers.engine_of(self._spec["image"]),
        )
        self._gone = False
        self._changed = asyncio.Event()
        self._leaving = asyncio.Event()
        self._unreported = asyncio.Event()

    @property
    def view(self) -> PodView:
        """What is known of the pod now."""
        return self._view

    def update(self, pod: Object) -> None:
        """Take in a state of the pod's object, unless a newer one is known from a write."""
        if int(pod["metadata"]["resourceVersion"]) >= int(self.pod["metadata"]["resourceVersion"]):
            self.pod = pod
        self._wake()

    def lose(self) -> None:
        """Take in that the pod's object is gone."""
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        if self._gone or "deletionTimestamp" in self.pod["metadata"]:
            self._leaving.set()
        self._changed.set()
        self._unreported.set()

    def _set(self, **fields: Any) -> None:
        self._view = replace(self._view, **fields)
        self._unreported.set()

    async def run(self) -> None:
        """Run the pod until its object is gone and nothing of it runs any more.

        Cancelling leaves everything running, for the next worker to take over.
        """
        self._machine.directory.pod(self.record.uid).write(self.record)
        self._wake()
        async with asyncio.TaskGroup() as tasks:
            reporting = tasks.create_task(self._keep_reported())
            living = tasks.create_task(self._live())
            await self._leaving.wait()
            living.cancel()
            await asyncio.wait({living})
            await self._leave()
            reporting.cancel()
        self._machine.directory.pod(self.record.uid).remove()

    # Living ---------------------------------------------------------------------------------------

    async def _live(self) -> None:
        attempt = self.container.latest()
        if attempt is None and self.pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
            return
        ends = 0
        while True:
            if attempt is None:
                attempt = await self._start()
            self._note_running(attempt)
            ended = await self._attend(attempt)
            again = restarts.restarts(self.pod["spec"].get("restartPolicy", "Always"), ended.code)
            self._note_end(attempt, ended, finished=not again)
            if not again:
                return
            ends = restarts.ends_in_row(ends, _seconds_between(attempt.started_at, ended.finished_at))
            await self._back_off(restarts.delay_s(ends), ended)
            attempt = None

    async def _start(self) -> Attempt:
        """Start the next attempt; for as long as that is impossible, say why and try again."""
        retry_s = _FIRST_RETRY_S
        while True:
            try:
                launch = await self._launch()
                return await container.start(self.container, launch)
            except _NotYet as not_yet:
                refusal = not_yet.refusal
            except launchers.CannotLaunch as cannot:
                refusal = cannot.refusal
            except environment.Unresolvable as error:
                refusal = Refusal("CreateContainerConfigError", str(error))
            except claims.ClaimNotReady as error:
                refusal = error.refusal
            except container.CannotStart as error:
                refusal = Refusal("CreateContainerError", str(error))
            except errors.KubernetesError as error:
                refusal = Refusal(
                    "CreateContainerConfigError", f"cannot read what the pod refers to: {error}"
                )
            self._set(state=Waiting(refusal.reason, refusal.message), ready=False, started=False)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    async def _launch(self) -> container.Launch:
        for refusal in refusals.refusals(self.pod):
            raise _NotYet(refusal)
        launchers.launcher_of(self._spec["image"])
        allocated = await claims.devices_of(self._machine.client, self.pod, self._machine.devices)
        own = environment.resolve(
            self._spec, self.pod, self.record.address, node.ADDRESS, await self._sources()
        )
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        variables = {
            **inherited,
            "HOSTNAME": self.record.name,
            llama_cpp.POD_ADDRESS_VARIABLE: self.record.address,
            llama_cpp.MODELS_VARIABLE: str(self._machine.directory.models),
            **devices.environment(self._machine.devices, allocated),
            **own,
        }
        command = launchers.command_line(self._spec, own, self.record.address)
        self._check_ports()
        return container.Launch(command, variables)

    async def _sources(self) -> environment.Sources:
        wanted = environment.references(self._spec)
        client, namespace = self._machine.client, self.record.namespace
        secrets = {name: await client.get(resources.SECRETS, name, namespace) for name in wanted.secrets}
        maps = {name: await client.get(resources.CONFIG_MAPS, name, namespace) for name in wanted.config_maps}
        return environment.Sources(
            {name: found for name, found in secrets.items() if found is not None},
            {name: found for name, found in maps.items() if found is not None},
        )

    def _check_ports(self) -> None:
        """Refuse to start where another program already listens on a port that the pod declares."""
        for declared in self._spec.get("ports", ()):
            if declared.get("protocol", "TCP") != "TCP":
                continue
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self.record.address, declared["containerPort"]))
                except OSError as error:
                    raise _NotYet(
                        _port_refusal(self.record.address, declared["containerPort"], error)
                    ) from error

    async def _attend(self, attempt: Attempt) -> Exit:
        """Probe an attempt until it ends."""
        probing = asyncio.create_task(self._probe(attempt))
        try:
            return await container.wait(attempt)
        finally:
            probing.cancel()
            # A bug in probing must not look like the end of the container.
            await asyncio.wait({probing})
            if not probing.cancelled() and (error := probing.exception()):
                _log.error('cannot probe pod "%s"', self.record.name, exc_info=error)

    async def _probe(self, attempt: Attempt) -> None:
        startup = probes.probe(self._spec, "startupProbe")
        if startup is not None and not await self._started_up(startup, attempt):
            return
        readiness = probes.probe(self._spec, "readinessProbe")
        self._set(started=True, ready=readiness is None)
        async with asyncio.TaskGroup() as tasks:
            if readiness is not None:
                tasks.create_task(self._watch_readiness(readiness, attempt))
            if liveness := probes.probe(self._spec, "livenessProbe"):
                tasks.create_task(self._watch_liveness(liveness, attempt))

    async def _started_up(self, startup: probes.Probe, attempt: Attempt) -> bool:
        async for verdict in probes.verdicts(startup, self._ask, _running_s(attempt)):
            if not verdict.ok:
                await self._end_failed(attempt, startup, "startup", verdict)
            return verdict.ok
        return False

    async def _watch_readiness(self, readiness: probes.Probe, attempt: Attempt) -> None:
        async for verdict in probes.verdicts(readiness, self._ask, _running_s(attempt)):
            self._set(ready=verdict.ok)

    async def _watch_liveness(self, liveness: probes.Probe, attempt: Attempt) -> None:
        async for verdict in probes.verdicts(liveness, self._ask, _running_s(attempt)):
            if not verdict.ok:
                await self._end_failed(attempt, liveness, "liveness", verdict)
                return

    async def _end_failed(
        self, attempt: Attempt, asked: probes.Probe, kind: str, verdict: probes.Verdict
    ) -> None:
        _log.warning(
            'pod "%s": the %s probe failed (%s): restarting', self.record.name, kind, verdict.problem
        )
        grace_s = float(self._grace_s() if asked.grace_s is None else asked.grace_s)
        container.terminate(attempt)
        await asyncio.sleep(grace_s)
        container.kill(attempt)

    async def _ask(self, handler: Mapping[str, Any], timeout_s: float) -> Answer:
        return await http_check.ask(handler, self._spec, self.record.address, timeout_s)

    async def _back_off(self, delay_s: float, ended: Exit) -> None:
        left_s = delay_s - max(time.time() - timestamps.parse(ended.finished_at).timestamp(), 0.0)
        if left_s <= 0:
            return
        message = f"back-off {delay_s:.0f}s restarting the container, which ended with exit code {ended.code}"
        self._set(state=Waiting(pod_status.BACK_OFF, message))
        await asyncio.sleep(left_s)

    def _note_running(self, attempt: Attempt) -> None:
        before = self.container.attempt(attempt.number - 1)
        ended = before.exit
        self._set(
            # One whose engine has not started is reported by its end.
            state=Running(timestamps.to_seconds(attempt.started_at)) if attempt.started_at else Waiting(),
            last=self._terminated(before, ended) if ended else self._view.last,
            restarts=attempt.number,
            container_id=_container_id(self.record, attempt),
            started=False,
            ready=False,
            finished=False,
        )

    def _note_end(self, attempt: Attempt, ended: Exit, *, finished: bool) -> None:
        terminated = self._terminated(attempt, ended)
        self._set(
            state=terminated,
            last=self._view.last if finished else terminated,
            restarts=attempt.number,
            container_id=terminated.container_id,
            started=False,
            ready=False,
            finished=finished,
        )

    def _terminated(self, attempt: Attempt, ended: Exit) -> Terminated:
        message = "" if ended.supervised else "the process that supervised the container was killed"
        if ended.code and self._spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = log_files.ending(attempt.log) or message
        finished_at = timestamps.to_seconds(ended.finished_at)
        return Terminated(
            exit_code=ended.code,
            signal=ended.signal,
            message=message,
            started_at=timestamps.to_seconds(attempt.started_at) if attempt.started_at else finished_at,
            finished_at=finished_at,
            container_id=_container_id(self.record, attempt),
        )

    # Leaving --------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """End the container within the grace period, then let the pod's object go."""
        began = time.time()
        attempt = self.container.latest()
        if attempt is not None:
            if attempt.exit is None:
                await self._end(attempt, began)
            self._note_end(attempt, await container.wait(attempt), finished=True)
        retry_s = _FIRST_RETRY_S
        while not self._gone:
            try:
                await self._report()
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

    async def _end(self, attempt: Attempt, began: float) -> None:
        hook = self._spec.get("lifecycle", {}).get("preStop")
        if hook and not self._gone:
            await self._within_grace(self._pre_stop(hook), began)
        container.terminate(attempt)
        if not await self._within_grace(container.wait(attempt), began):
            container.kill(attempt)

    async def _pre_stop(self, hook: Mapping[str, Any]) -> None:
        if "sleep" in hook:
            await asyncio.sleep(float(hook["sleep"]["seconds"]))
        elif "httpGet" in hook or "tcpSocket" in hook:
            answer = await self._ask(hook, float(self._grace_s()))
            if not answer.ok:
                _log.warning('the preStop hook of pod "%s" failed: %s', self.record.name, answer.problem)

    async def _within_grace(self, work: Coroutine[Any, Any, object], began: float) -> bool:
        """Let some work go on until the grace period is over, which may be cut short meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                left_s = self._deadline(began) - time.time()
                if left_s <= 0:
                    return False
                self._changed.clear()
                woken = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({task, woken}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                woken.cancel()
        finally:
            task.cancel()
            await asyncio.wait({task})
        return True

    def _deadline(self, began: float) -> float:
        """When a container must have ended, in seconds since the epoch."""
        if self._gone:
            return began + _GONE_GRACE_S
        stamp = self.pod["metadata"]["deletionTimestamp"]
        # The API server cuts off the fraction of its second.
        return max(timestamps.parse(stamp).timestamp() + 1.0, began + _LEAST_GRACE_S)

    def _grace_s(self) -> int:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        grace = metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds"))
        return _DEFAULT_GRACE_S if grace is None else int(grace)

    # Reporting ------------------------------------------------------------------------------------

    async def _keep_reported(self) -> None:
        retry_s = _FIRST_RETRY_S
        while True:
            await self._unreported.wait()
            self._unreported.clear()
            try:
                await self._report()
                retry_s = _FIRST_RETRY_S
            except (errors.NotFound, errors.Conflict):
                continue  # gone, or the name is another pod's: the informer will say so
            except errors.KubernetesError as error:
                _log.warning('cannot report the status of pod "%s": %s', self.record.name, error)
                self._unreported.set()
                await asyncio.sleep(retry_s)
                retry_s = min(retry_s * 2, _LAST_RETRY_S)

    async def _report(self) -> None:
        if self._gone or self._unknown_after_end():
            return
        wanted = pod_status.status(self.pod, self._view, timestamps.now())
        changed = pod_status.changes(self.pod, wanted)
        if not changed:
            return
        body = {"metadata": {"uid": self.record.uid}, "status": changed}
        self.pod = await self._machine.client.patch(
            resources.PODS,
            self.record.name,
            body,
            self.record.namespace,
            kind="strategic",
            subresource="status",
        )

    def _unknown_after_end(self) -> bool:
        """Whether the pod had ended for good before this worker's time, and left no record to report from."""
        phase = self.pod.get("status", {}).get("phase")
        return phase in {"Succeeded", "Failed"} and self.container.latest() is None


def _port_refusal(address: str, port: int, error: OSError) -> Refusal:
    if error.errno == errno.EADDRINUSE:
        return Refusal(
            "PortInUse",
            f"another program of this machine listens on port {port} of {address} or of every address: "
            "stop it, or have the pod use another port",
        )
    return Refusal("CreateContainerError", f"cannot use port {port} of {address}: {error.strerror}")


def _container_id(record: PodRecord, attempt: Attempt) -> str:
    return f"process://{record.uid}/{attempt.number}"


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

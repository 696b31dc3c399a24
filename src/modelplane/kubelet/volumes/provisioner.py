"""Provisioner of this machine's PersistentVolumes: executes the steps of ``provisioning``."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from modelplane.api.rejected import Rejected
from modelplane.host import file_system
from modelplane.kube import errors, events, resources, timestamps
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.pod_events import AGENT
from modelplane.kubelet.volumes import provisioning, volumes
from modelplane.kubelet.volumes.provisioning import (
    PROVISIONER,
    CreateVolume,
    DeleteVolume,
    ReleaseVolume,
    ResizeClaim,
    ResizeVolume,
    Step,
)

_CLAIMS = resources.PERSISTENT_VOLUME_CLAIMS
_VOLUMES = resources.PERSISTENT_VOLUMES

_log = logging.getLogger(__name__)


class Provisioner:
    """Creates, resizes and removes the volumes of one node."""

    def __init__(self, machine: Machine, node: str) -> None:
        self._machine = machine
        self._client = machine.client
        self._node = node
        self._root = volumes.get_claim_folders(machine.directory)
        self._changed = asyncio.Event()
        self._claims = Informer(machine.client, _CLAIMS, on_change=self._wake)
        self._volumes = Informer(machine.client, _VOLUMES, on_change=self._wake)
        self._emitted: dict[str, str] = {}
        """The note of each claim's last event, by uid."""
        self._logged: dict[str, str] = {}
        """The last logged problem with each object, by uid."""

    def _wake(self, _changed: Object) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Serve the claims until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._claims, self._volumes):
                tasks.create_task(informer.run())
            for informer in (self._claims, self._volumes):
                await informer.wait_until_synced()
            while True:
                self._changed.clear()
                self._forget_deleted()
                done = [await self._try(item, step) for item, step in self._steps()]
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if all(done) else 2.0):
                        await self._changed.wait()

    def _forget_deleted(self) -> None:
        present = {item["metadata"]["uid"] for informer in (self._claims, self._volumes) for item in informer}
        self._emitted = {uid: note for uid, note in self._emitted.items() if uid in present}
        self._logged = {uid: problem for uid, problem in self._logged.items() if uid in present}

    def _steps(self) -> Iterator[tuple[Object, Step]]:
        for claim in self._claims:
            volume = self._volumes.get(provisioning.name_volume(claim))
            if step := provisioning.choose_step(claim, volume, self._node, self._root):
                yield claim, step
        for volume in self._volumes:
            if step := provisioning.choose_reclaim_step(volume, self._root):
                yield volume, step

    async def _try(self, item: Object, step: Step) -> bool:
        """Execute a step; return False if it must be tried again."""
        try:
            return await self._execute(item, step)
        except errors.Conflict:
            return True  # the copy is old: the watch brings the new state
        except (errors.KubernetesError, OSError) as error:
            self._log_once(item, step, str(error))
        except Exception:  # noqa: BLE001 - a bug here must not take the pods along
            _log.exception("cannot %s", _describe(item, step))
        return False

    def _log_once(self, item: Object, step: Step, problem: str) -> None:
        uid = item["metadata"]["uid"]
        if self._logged.get(uid) != problem:
            self._logged[uid] = problem
            _log.warning("cannot %s, retrying: %s", _describe(item, step), problem)

    async def _execute(self, item: Object, step: Step) -> bool:
        """Execute a step; return False if it must wait."""
        metadata = item["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace")
        match step:
            case CreateVolume(manifest):
                self._volumes.remember(await self._client.create(manifest))
            case Rejected():
                await self._emit_event(item, step.message)
            case ResizeVolume(volume, capacity):
                await self._client.patch(_VOLUMES, volume, {"spec": {"capacity": capacity}})
            case ResizeClaim(capacity):
                status = {"status": {"capacity": capacity}}
                await self._client.patch(_CLAIMS, name, status, namespace, subresource="status")
            case DeleteVolume():
                await self._client.delete(_VOLUMES, name, uid=metadata["uid"])
            case ReleaseVolume(folder):
                if folder is not None:
                    if volumes.is_in_use(self._machine.directory, folder.name):
                        return False
                    await asyncio.to_thread(file_system.remove_folder, folder)
                left = [finalizer for finalizer in metadata["finalizers"] if finalizer != PROVISIONER]
                body = {"metadata": {"finalizers": left, "resourceVersion": metadata["resourceVersion"]}}
                await self._client.patch(_VOLUMES, name, body)
        return True

    async def _emit_event(self, claim: Object, note: str) -> None:
        metadata = claim["metadata"]
        if self._emitted.get(metadata["uid"]) == note:
            return
        about = {key: metadata[key] for key in ("namespace", "name", "uid")}
        await self._client.create(
            events.build_event(
                {"apiVersion": "v1", "kind": _CLAIMS.kind, **about},
                at=timestamps.format_now_micro(),
                warning=True,
                reason="ProvisioningFailed",
                action="Provisioning",
                note=note,
                controller=AGENT,
                instance=self._node,
            )
        )
        self._emitted[metadata["uid"]] = note


_DOING = {
    CreateVolume: "create the volume of",
    Rejected: "emit an event about",
    ResizeVolume: "resize the volume of",
    ResizeClaim: "report the capacity of",
    DeleteVolume: "delete",
    ReleaseVolume: "remove the folder of",
}


def _describe(item: Object, step: Step) -> str:
    metadata = item["metadata"]
    if namespace := metadata.get("namespace"):
        return f'{_DOING[type(step)]} {_CLAIMS.kind} "{namespace}/{metadata["name"]}"'
    return f'{_DOING[type(step)]} {_VOLUMES.kind} "{metadata["name"]}"'

"""PersistentVolumes of this machine: a folder for each claim of its StorageClass (see ``storage``).

The rule: no folder without its volume. The PersistentVolume is made first, and its folder when a pod first
mounts it; the folder is removed first, and only then the finalizer that holds the PersistentVolume. So
whatever is interrupted, what is there has an object that names it. Binding is Kubernetes' own business.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from modelplane.host import folders
from modelplane.kube import errors, events, resources, timestamps
from modelplane.kube.informer import Informer
from modelplane.kube.resources import Object
from modelplane.kubelet.events import AGENT
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.volumes import volumes
from modelplane.kubelet.volumes.storage_class import PROVISIONER, STORAGE_CLASS

_WANTED_FROM = "volume.kubernetes.io/storage-provisioner"
_MADE_BY = "pv.kubernetes.io/provisioned-by"
_RETRY_S = 2.0

_log = logging.getLogger(__name__)


def wants_volume(claim: Mapping[str, Any]) -> bool:
    """Return True if a claim waits for a volume of this machine's StorageClass."""
    metadata, spec = claim["metadata"], claim["spec"]
    return (
        spec.get("storageClassName") == STORAGE_CLASS
        # Kubernetes asks for it once it knows that no volume that is there will do.
        and metadata.get("annotations", {}).get(_WANTED_FROM) == PROVISIONER
        and not spec.get("volumeName")
        and "deletionTimestamp" not in metadata
    )


def refusal(claim: Mapping[str, Any]) -> str:
    """Return why a folder is not what a claim asks for; empty where it is."""
    spec = claim["spec"]
    if spec.get("volumeMode") == "Block":
        return "a folder is no block device: leave volumeMode out"
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        return "a folder is not made from a snapshot or another claim: leave dataSource and dataSourceRef out"
    if spec.get("selector"):
        return "a volume that is made for a claim has no labels to select it by: leave the selector out"
    return ""


def volume(claim: Mapping[str, Any], node: str, above: Path) -> Object:
    """Return the PersistentVolume for a claim; its name makes a second one for the same claim impossible."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_MADE_BY: PROVISIONER}, "finalizers": [PROVISIONER]},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": _request(claim)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": str(above / name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": STORAGE_CLASS,
            "volumeMode": "Filesystem",
        },
    }


def folder(found: Mapping[str, Any], above: Path) -> Path | None:
    """Return the folder of a PersistentVolume; None for one that is not this machine's."""
    path = above / found["metadata"]["name"]
    made_by = found["metadata"].get("annotations", {}).get(_MADE_BY)
    same = found["spec"].get("local", {}).get("path") == str(path)
    return path if same and made_by == PROVISIONER else None


def _request(claim: Mapping[str, Any]) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


class Provisioner:
    """Makes, enlarges and removes the volumes of one node."""

    def __init__(self, machine: Machine, node: str) -> None:
        self._machine = machine
        self._client = machine.client
        self._node = node
        self._above = volumes.folders_of_claims(machine.directory)
        self._changed = asyncio.Event()
        self._claims = Informer(machine.client, resources.PERSISTENT_VOLUME_CLAIMS, on_change=self._wake)
        self._volumes = Informer(machine.client, resources.PERSISTENT_VOLUMES, on_change=self._wake)
        self._told: set[str] = set()
        self._logged: set[str] = set()

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
                done = [await self._try(self._serve(claim)) for claim in self._claims]
                done += [await self._try(self._clear(found)) for found in self._volumes]
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if all(done) else _RETRY_S):
                        await self._changed.wait()

    async def _try(self, work: Coroutine[Any, Any, bool]) -> bool:
        """Return whether some work is done; what fails is tried again."""
        try:
            return await work
        except errors.Conflict:
            return True  # the copy is old: the watch brings the new state
        except (errors.KubernetesError, OSError) as error:
            if str(error) not in self._logged:
                self._logged.add(str(error))
                _log.warning("cannot serve a claim, and try again: %s", error)
        except Exception:  # noqa: BLE001 - a bug here must not take the pods along
            _log.exception("cannot serve a claim")
        return False

    async def _serve(self, claim: Object) -> bool:
        """Give a claim its volume, or what it asks for beyond what it has."""
        if wants_volume(claim):
            wanted = volume(claim, self._node, self._above)
            if why := refusal(claim):
                await self._tell(claim, why)
            elif self._volumes.get(wanted["metadata"]["name"]) is None:
                self._volumes.remember(await self._client.create(wanted))
            return True
        found = self._volumes.get(claim["spec"].get("volumeName", ""))
        if found is None or folder(found, self._above) is None or claim["status"].get("phase") != "Bound":
            return True
        room = {"storage": _request(claim)}
        if found["spec"]["capacity"] != room:
            name = found["metadata"]["name"]
            await self._client.patch(resources.PERSISTENT_VOLUMES, name, {"spec": {"capacity": room}})
        if claim["status"].get("capacity") != room:
            metadata = claim["metadata"]
            await self._client.patch(
                resources.PERSISTENT_VOLUME_CLAIMS,
                metadata["name"],
                {"status": {"capacity": room}},
                metadata["namespace"],
                subresource="status",
            )
        return True

    async def _tell(self, claim: Object, why: str) -> None:
        metadata = claim["metadata"]
        if metadata["uid"] in self._told:
            return
        about = {key: metadata[key] for key in ("namespace", "name", "uid")}
        await self._client.create(
            events.event(
                {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **about},
                at=timestamps.now_micro(),
                warning=True,
                reason="ProvisioningFailed",
                action="Provisioning",
                note=why,
                controller=AGENT,
                instance=self._node,
            )
        )
        self._told.add(metadata["uid"])

    async def _clear(self, found: Object) -> bool:
        """Remove what nobody claims any more; False where that has to wait."""
        path = folder(found, self._above)
        if path is None or found["status"].get("phase") == "Bound":
            return True
        metadata, is_kept = found["metadata"], found["spec"]["persistentVolumeReclaimPolicy"] != "Delete"
        if "deletionTimestamp" not in metadata:
            if found["status"].get("phase") == "Released" and not is_kept:
                await self._client.delete(resources.PERSISTENT_VOLUMES, metadata["name"], uid=metadata["uid"])
            return True
        if PROVISIONER not in metadata.get("finalizers", ()):
            return True
        if not is_kept:
            if volumes.in_use(self._machine.directory, path.name):
                return False
            await asyncio.to_thread(folders.remove, path)
        left = [finalizer for finalizer in metadata["finalizers"] if finalizer != PROVISIONER]
        body = {"metadata": {"finalizers": left, "resourceVersion": metadata["resourceVersion"]}}
        await self._client.patch(resources.PERSISTENT_VOLUMES, metadata["name"], body)
        return True

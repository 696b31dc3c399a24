"""The volumes of a pod as files and folders of this machine (Kubernetes, "Volumes").

    DIR/pods/UID/.volumes/empty/NAME      an emptyDir
    DIR/pods/UID/.volumes/files/NAME      files from ConfigMaps, Secrets and the pod, for their owner only
    DIR/pods/UID/.volumes/claims/NAME     a link to the folder of a claim that the pod uses
    DIR/pods/UID/.volumes/account         the files of its service account (see ``service_account``)
    DIR/pods/UID/.volumes/home/CONTAINER  the home directory of one container
    DIR/pods/UID/.volumes/run/CONTAINER   files of one attempt to run a container, such as its /tmp
    DIR/volumes/NAME                      the data of a PersistentVolume (see ``provisioner``)

All but the last are removed with the pod. Files are written before each start.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelplane.api.rejected import Rejected
from modelplane.api.values import quantity
from modelplane.host import file_system
from modelplane.host.file_system import write_private
from modelplane.kube import resources
from modelplane.kubelet import pod_refusals
from modelplane.kubelet.cannot_start import CannotStart, WaitingReason
from modelplane.kubelet.machine import Machine
from modelplane.kubelet.records import AgentDirectory, PodDirectory, PodRecord
from modelplane.kubelet.runtime.container_environment import Sources, expand
from modelplane.kubelet.volumes import mount_namespace, mounts, volume_files
from modelplane.kubelet.volumes.mounts import SHARED_MEMORY, Mount
from modelplane.kubelet.volumes.provisioning import STORAGE_CLASS
from modelplane.kubelet.volumes.volume_files import File


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The folder of a pod's own volumes."""

    path: Path

    def make_empty(self, name: str) -> Path:
        """Return the folder of an emptyDir."""
        return self.path / "empty" / name

    def write_files(self, name: str) -> Path:
        """Return the folder of a volume with files from objects."""
        return self.path / "files" / name

    def claim(self, volume: str) -> Path:
        """Return the link that marks the folder of a PersistentVolume as used by the pod."""
        return self.path / "claims" / volume

    @property
    def account(self) -> Path:
        """The folder with the files of the pod's service account."""
        return self.path / "account"

    def get_home(self, container: str) -> Path:
        """Return the home directory of one container."""
        return self.path / "home" / container

    def run(self, container: str) -> Path:
        """Return the folder of one attempt to run a container."""
        return self.path / "run" / container


def get_folder(pod: PodDirectory) -> PodVolumes:
    """Return the folder of a pod's volumes; no container can have its name."""
    return PodVolumes(pod.path / ".volumes")


def get_claim_folders(directory: AgentDirectory) -> Path:
    """Return the directory of this machine's PersistentVolumes."""
    return directory.path / "volumes"


def is_in_use(directory: AgentDirectory, volume: str) -> bool:
    """Return True if a running container mounts the folder of a PersistentVolume."""
    return any(
        not attempt.settled and not attempt.holds_network
        for pod in directory.list_pods()
        if get_folder(pod).claim(volume).is_symlink()
        for attempt in pod.list_attempts()
    )


@dataclass(frozen=True, slots=True)
class _Volume:
    path: Path
    read_only: bool = False
    of_machine: bool = False
    """True for a path that somebody else made."""
    of_pod: bool = False
    """True for a path of the machine that the author of the pod chose."""
    real: Path | None = None
    """The path without links as it was checked; None if it was not."""
    in_memory: bool = False


async def build_mounts(
    machine: Machine,
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    record: PodRecord,
    environment: Mapping[str, str],
    sources: Sources,
) -> tuple[Mount, ...]:
    """Prepare the volumes of a container and return its mounts.

    Raise ``CannotStart`` for the first volume that is not ready.
    """
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
    mounted = []
    for entry in pod_refusals.list_volume_mounts(container):
        volume = volumes[entry["name"]]
        target = pod_refusals.mount_path(entry)
        if "emptyDir" in volume and target == str(SHARED_MEMORY):
            # The machine's own is enough if nothing else has to be mounted.
            size = _size_bytes(volume)
            mounted.append(Mount(SHARED_MEMORY, target, read_only=False, in_memory=True, size_bytes=size))
            continue
        below = entry.get("subPath") or expand(entry.get("subPathExpr", ""), environment)
        try:
            folder = await _prepare(machine, pod, volume, record, sources)
            path = _sub_path(folder, volume["name"], below) if below else folder.path
        except OSError as error:
            raise _refuse(
                f'volume "{volume["name"]}"', f'cannot have "{error.filename}": {error.strerror}'
            ) from error
        read_only = folder.read_only or bool(entry.get("readOnly"))
        real = path if below else folder.real or path.resolve()
        # A pod must not change the programs of this machine.
        is_writable = folder.of_machine and not read_only and not machine.host_commands
        if is_writable and _overlaps(real, machine.programs):
            fault = f'would let the pod write to "{real}", which contains this machine\'s programs'
            remedy = "set readOnly in its volumeMount, or use another path"
            raise _refuse(f'volume "{volume["name"]}"', fault, remedy)
        if folder.of_pod:
            _check_host_path(machine, real, volume["name"], read_only=read_only)
        in_memory = folder.in_memory and not below
        size = _size_bytes(volume) if in_memory else 0
        mounted.append(Mount(path, target, read_only, in_memory, size, real))
    return tuple(mounted)


async def _prepare(
    machine: Machine, pod: Mapping[str, Any], volume: Mapping[str, Any], record: PodRecord, sources: Sources
) -> _Volume:
    name, pod_volumes = volume["name"], get_folder(machine.directory.get_pod(record.uid))
    if "hostPath" in volume:
        return _host_path(machine, name, volume["hostPath"])
    if "persistentVolumeClaim" in volume:
        return await _claimed(machine, name, volume["persistentVolumeClaim"], record, pod_volumes)
    if volume_files.KINDS & volume.keys():
        files = volume_files.build_files(volume, pod, sources)
        if isinstance(files, Rejected):
            raise CannotStart(files)
        _write(pod_volumes.write_files(name), files)
        return _Volume(pod_volumes.write_files(name), read_only=True)
    _make_for_any_user(pod_volumes.make_empty(name))
    return _Volume(pod_volumes.make_empty(name), in_memory=volume["emptyDir"].get("medium") == "Memory")


def _size_bytes(volume: Mapping[str, Any]) -> int:
    """Return the most bytes that an emptyDir may have; 0 if it has no limit."""
    limit = volume["emptyDir"].get("sizeLimit")
    return -(-quantity.parse(limit).nano // 10**9) if limit else 0


def _write(folder: Path, files: Mapping[str, File]) -> None:
    """Write files to a folder and remove all others; each file is replaced in one step."""
    present = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    if present - files.keys():
        file_system.remove_folder(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for relative, file in files.items():
        path = folder / relative
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, file.content)
        path.chmod(file.mode)


_TYPES: Mapping[str, tuple[str, Callable[[Path], bool]]] = {
    "": ("file or directory", Path.exists),
    "BlockDevice": ("block device", Path.is_block_device),
    "CharDevice": ("character device", Path.is_char_device),
    "Directory": ("directory", Path.is_dir),
    "DirectoryOrCreate": ("directory", Path.is_dir),
    "File": ("file", Path.is_file),
    "FileOrCreate": ("file", Path.is_file),
    "Socket": ("socket", Path.is_socket),
}
_MAKERS: Mapping[str, Callable[[Path], None]] = {
    "DirectoryOrCreate": lambda path: path.mkdir(mode=0o755, parents=True),
    "FileOrCreate": lambda path: path.touch(mode=0o644),
}


def _host_path(machine: Machine, name: str, body: Mapping[str, Any]) -> _Volume:
    """Return a hostPath volume; create its path only if its type allows that."""
    path, kind = Path(body["path"]), body.get("type") or ""
    real = _checked(machine, path, name)
    what, is_one = _TYPES[kind]
    if kind in _MAKERS and not path.exists():
        _check_host_path(machine, path.resolve(), name, read_only=False)
        _MAKERS[kind](path)
    if not is_one(path):
        raise _refuse(f'volume "{name}"', f'requires the {what} "{path}" on this machine', "make it")
    return _Volume(path, of_machine=True, of_pod=True, real=real)


def _checked(machine: Machine, path: Path, name: str) -> Path | None:
    """Return a path of the machine with its links followed, which may lead elsewhere later."""
    if machine.host_commands:
        return None
    place = path.resolve()
    if _overlaps(place, (directory.resolve() for directory in machine.hidden)):
        fault = f'would expose the fleet\'s files, which are in "{path}"'
        raise _refuse(f'volume "{name}"', fault, "use another path")
    return place


def _check_host_path(machine: Machine, path: Path, name: str, *, read_only: bool) -> None:
    """Refuse a path that gives the author of a pod this machine: whoever creates pods need not own it."""
    if machine.host_commands:
        return
    if why := mounts.find_host_path_problem(path, machine.closed, read_only=read_only):
        instead = "" if read_only else "set readOnly in its volumeMount, "
        remedy = f"{instead}use another path, or allow commands on this machine itself with --host-commands"
        raise _refuse(f'volume "{name}"', f'must not be "{path}" of this machine: {why}', remedy)


def _overlaps(place: Path, directories: Iterable[Path]) -> bool:
    return any(
        place.is_relative_to(directory) or directory.is_relative_to(place) for directory in directories
    )


async def _claimed(
    machine: Machine, name: str, body: Mapping[str, Any], record: PodRecord, pod_volumes: PodVolumes
) -> _Volume:
    what = f'PersistentVolumeClaim "{body["claimName"]}"'
    claim = await machine.client.get(resources.PERSISTENT_VOLUME_CLAIMS, body["claimName"], record.namespace)
    if claim is None:
        raise _refuse(what, "does not exist", "create it")
    if claim.get("status", {}).get("phase") != "Bound":
        raise _refuse(what, "is not bound to a volume yet")
    volume = await machine.client.get(resources.PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
    spec = volume["spec"] if volume else {}
    kind = next((kind for kind in ("local", "hostPath") if kind in spec), "")
    if not kind or spec.get("volumeMode") == "Block":
        remedy = f'use one of the StorageClass "{STORAGE_CLASS}"'
        raise _refuse(what, "is bound to a volume that is not a folder on this machine", remedy)
    path, read_only = Path(spec[kind]["path"]), bool(body.get("readOnly"))
    if path.parent == get_claim_folders(machine.directory):
        # The link first: removal of the folder checks for it.
        link = pod_volumes.claim(path.name)
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(path)
        _make_for_any_user(path)
        return _Volume(path, read_only)
    real = _checked(machine, path, name)
    return _find_elsewhere(_Volume(path, read_only, of_machine=True, real=real), what)


def _find_elsewhere(volume: _Volume, what: str) -> _Volume:
    """Return the volume of a claim that is a folder which somebody else made."""
    if not volume.path.exists():
        raise _refuse(what, f'is bound to "{volume.path}", which does not exist on this machine', "make it")
    return volume


def _make_for_any_user(path: Path) -> None:
    """Make a folder for containers of any user; no user of the machine reaches the agent's directory."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):
        path.chmod(0o777)


def _sub_path(volume: _Volume, name: str, below: str) -> Path:
    """Return a path within a volume; create a directory if it does not exist."""
    root = volume.real or volume.path.resolve()
    path = (root / below).resolve()
    if not path.is_relative_to(root):
        raise _refuse(f'the subPath "{below}"', f'leads out of volume "{name}"', "name one within it")
    if not path.exists():
        if volume.read_only:
            raise _refuse(f'volume "{name}"', f'has nothing at the subPath "{below}"')
        # Not through a link that a pod has put there since.
        os.close(mount_namespace.open_unlinked(path, is_directory=True))
    return path


def list_mounted(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the volumes that a container mounts."""
    names = {entry["name"] for entry in pod_refusals.list_volume_mounts(container)}
    return (volume for volume in pod["spec"].get("volumes", ()) if volume["name"] in names)


def _refuse(subject: str, detail: str, remedy: str = "") -> CannotStart:
    return CannotStart(Rejected(WaitingReason.VOLUME_NOT_READY, subject, detail, remedy))

"""Paths of this machine that a pod may name: those of its mounts as a process, and those of hostPath volumes.

Such a process runs programs and libraries of the machine. A volume over them, or at a path that they search,
would run the code of whoever fills the volume. So a mount path is below one of the directories that are for
volumes, or new, and then in a place where nothing of the machine looks.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import modelplane
from modelplane.api.rejected import Rejected
from modelplane.kubelet import pod_refusals
from modelplane.kubelet.cannot_start import WaitingReason

_FOR_VOLUMES = tuple(map(Path, ("/data", "/mnt", "/models", "/cache", "/dev/shm")))  # noqa: S108 - mount paths

_OF_THE_MACHINE = frozenset(
    {
        *("bin", "boot", "dev", "etc", "gnu", "home", "media", "nix", "opt", "proc", "root", "run", "sbin"),
        *("selinux", "snap", "sys", "tmp", "usr", "var"),
    }
)
"""Directories of the root that belong to the system and its users, whether or not the machine has them.

So do those that begin with ``lib``.
"""

_ACTING = frozenset({"dev", "proc", "run", "sys"})
"""Directories of the root whose files are devices, sockets and settings, which act also if only read."""

_TEMPORARY = "tmp"
_SHARED_LEVELS = 3
"""The root, /tmp and its entries, among them sockets of the desktop and of agents for keys."""

_REMEDY = (
    "use a new path, or one below /data, /mnt, /models or /cache, start a container runtime (docker, podman "
    "or nerdctl), or allow commands on this machine itself with --host-commands"
)


def list_programs(environment: Mapping[str, str]) -> frozenset[Path]:
    """Return the directories that the programs of this machine are in, as far as this process knows them."""
    searched = [*environment.get("PATH", "").split(":"), *environment.get("LD_LIBRARY_PATH", "").split(":")]
    named = [environment.get(name, "") for name in ("CUDA_HOME", "VIRTUAL_ENV")]
    directories = {
        Path(directory) for directory in (*searched, *named, *sys.path) if directory.startswith("/")
    }
    directories |= {Path(sys.prefix), Path(sys.base_prefix), Path(modelplane.__file__).parents[1]}
    # The libraries of an environment are beside its programs. A home directory is none.
    directories |= {directory.parent for directory in directories if directory.name in ("bin", "sbin")} - {
        Path("~").expanduser()
    }
    return frozenset({*directories, *(directory.resolve() for directory in directories)} - {Path("/")})


def find_refusals(containers: Iterable[Mapping[str, Any]], private: Iterable[Path]) -> Iterator[Rejected]:
    """Yield why mounts of containers are refused; ``private`` directories are not for volumes."""
    closed = frozenset(private) - {Path("/")}
    for container in containers:
        for mount in pod_refusals.list_volume_mounts(container):
            if why := find_problem(pod_refusals.mount_path(mount), closed):
                fault = f'cannot be mounted at "{mount["mountPath"]}" for a process of this machine: {why}'
                subject = f'volume "{mount["name"]}"'
                yield Rejected(WaitingReason.UNSUPPORTED_POD, subject, fault, _REMEDY)


def find_problem(path: str, private: frozenset[Path]) -> str | None:
    """Return why a volume must not be mounted at a normalized path; None if it may."""
    place = Path(path)
    # A directory for volumes may itself be a link, and so may what is above a new path.
    for candidate in (place, Path(os.path.realpath(path))):
        if candidate != Path("/dev/shm") and (why := _problem(candidate, private)):  # noqa: S108 - a mount path
            return why
    return None


def find_host_path_problem(place: Path, private: frozenset[Path], *, read_only: bool) -> str | None:
    """Return why a pod must not have a path of this machine, without links, as a volume; None if it may.

    ``private`` directories may only be read.
    """
    first = place.parts[1].casefold() if place.parts[1:] else ""
    is_shared = first == _TEMPORARY and len(place.parts) <= _SHARED_LEVELS
    if not first or first in _ACTING or is_shared or place.is_socket():
        return "that reaches programs of this machine"
    if read_only:
        return None
    if any(place.is_relative_to(directory) or directory.is_relative_to(place) for directory in private):
        return "that is a place of the fleet, of its programs or of the user who started it"
    is_of_system = first in _OF_THE_MACHINE - {_TEMPORARY} or first.startswith("lib")
    return "that is a place of the system" if is_of_system else None


def _problem(place: Path, private: frozenset[Path]) -> str | None:
    if any(place.is_relative_to(directory) or directory.is_relative_to(place) for directory in private):
        return "that is a place of the fleet, of its programs or of the user who started it"
    if any(place.is_relative_to(directory) for directory in _FOR_VOLUMES):
        return None
    first = place.parts[1].casefold()
    if first in _OF_THE_MACHINE or first.startswith("lib"):
        return "that is a place of the system"
    if os.path.lexists(place):
        return "the machine itself has that path"
    return None

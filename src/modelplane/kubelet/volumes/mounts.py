"""Mounts of a container: the paths that they may have, and their visibility to a process of the host.

A pod without mounts needs nothing of the kernel. The mounts of any other pod are tried before it starts, so
that its status says what is missing (see ``mount_namespace``).

A process of the host runs programs and libraries of the machine. A volume over them, or at a path that they
search, would run the code of whoever fills the volume. So a mount path is below one of the directories that
are for volumes, or new, and then in a place where nothing of the machine looks.
"""

import asyncio
import errno
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import modelplane
from modelplane.api.rejected import Rejected
from modelplane.host import file_system
from modelplane.kubelet import pod_refusals
from modelplane.kubelet.cannot_start import WaitingReason
from modelplane.kubelet.volumes import mount_namespace

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

_TMP = "tmp"
_SHARED_LEVELS = 3
"""The root, /tmp and its entries, among them sockets of the desktop and of agents for keys."""

_REMEDY = (
    "use a new path, or one below /data, /mnt, /models or /cache, start a container runtime (docker, podman "
    "or nerdctl), or allow commands on this machine itself with --host-commands"
)

_TEMPORARY = Path("/tmp")  # noqa: S108 - the path that is replaced for the pod, not a file of ours
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the machine's own, not a file of ours
_TRY_S = 30.0
_REFUSED = frozenset({errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS, errno.ENOSYS, errno.EINVAL})
_PATHS = {
    "clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "apparmor": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "most": "/proc/sys/user/max_user_namespaces",
}

_SECCOMP = (
    "a system call filter, such as a container runtime's, forbids mounts",
    "run Modelplane outside of the container, or give the container CAP_SYS_ADMIN and an unconfined profile",
)

_UNKNOWN = (
    "the kernel does not allow private mounts for this user",
    "allow unprivileged user namespaces in the kernel",
)


@dataclass(frozen=True, slots=True)
class Mount:
    """One file or directory of this machine at a path of a container."""

    source: Path
    target: str
    """Its mountPath: absolute, without ``..``."""
    read_only: bool
    in_memory: bool = False
    """True for memory in its place, which is lost when the container ends."""
    size_bytes: int = 0
    """Most bytes of memory; 0: no limit of its own."""
    real: Path | None = field(default=None, compare=False)
    """The source without links, as it was checked."""

    def plan(self, *, is_closed: bool) -> dict[str, Any]:
        """Return the mount for the program that makes it, which follows no link if it ``is_closed``."""
        source = (self.real or self.source) if is_closed else self.source
        return {
            "source": str(source),
            "target": self.target,
            "read_only": self.read_only,
            "in_memory": self.in_memory,
            "size_bytes": self.size_bytes,
        }


def must_have_namespace(mounts: Iterable[Mount]) -> bool:
    """Return True if a process of the host needs a namespace to see these mounts."""
    return any(mount.read_only or str(mount.source) != mount.target for mount in mounts)


async def build_prefix(
    mounts: tuple[Mount, ...], directory: Path, shown: Iterable[Path], hidden: Iterable[Path] = ()
) -> tuple[str, ...] | Rejected:
    """Return the prefix of a command that sets up mounts for it; ``Rejected`` if it cannot.

    The reason is ``NAMESPACE_REFUSED`` if the kernel refuses this user mounts at all.

    ``directory`` is the container's own and is emptied, so nothing of the container may run. It holds the
    container's /tmp: programs made for containers write under fixed names below /tmp. ``hidden`` directories
    are empty for the command, and where there are some, it can write to its mounts only; ``shown`` paths in
    them and in the machine's /tmp, and this program's own, remain visible.
    """
    directory = directory.resolve()  # noqa: ASYNC240 - a few directories of this machine
    scratch, temporary = directory / "root", directory / "tmp"
    try:
        await asyncio.to_thread(_make_anew, directory, (scratch, temporary))
    except OSError as error:
        return _fail(f'cannot make "{error.filename}", which its volumes need: {error.strerror}')
    covered = sorted({path.resolve() for path in hidden})
    mounts_of_pod = [Mount(temporary, str(_TEMPORARY), read_only=False), *_shown(shown, covered)]
    if covered:
        mounts_of_pod.append(Mount(SHARED_MEMORY, str(SHARED_MEMORY), read_only=False, in_memory=True))
    # The pod's own mounts last: they take precedence at the same path.
    planned = [mount.plan(is_closed=bool(covered)) for mount in (*mounts_of_pod, *mounts)]
    plan = json.dumps({"mounts": planned, "hidden": covered}, default=str)
    program = (sys.executable, "-I", "-S", mount_namespace.__file__, str(scratch), plan)
    return await _try(program) or program


def _make_anew(directory: Path, below: Iterable[Path]) -> None:
    file_system.remove_folder(directory)
    for path in below:
        path.mkdir(mode=0o700, parents=True)


def _shown(paths: Iterable[Path], covered: Collection[Path]) -> tuple[Mount, ...]:
    # Packages can be outside of the environment: a .pth file names them.
    packages = (path for path in map(Path, sys.path) if path.is_absolute() and path.is_dir())
    installation = (
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(modelplane.__file__).parents[1],
        *packages,
    )
    paths_shown = {path.resolve() for path in (*installation, *paths)}
    above = (_TEMPORARY.resolve(), *covered)
    below = sorted(path for path in paths_shown if any(path.is_relative_to(covered) for covered in above))
    return tuple(Mount(path, str(path), read_only=bool(covered)) for path in below)


async def _try(program: Iterable[str]) -> Rejected | None:
    process = await asyncio.create_subprocess_exec(
        *program, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, cwd="/"
    )
    try:
        async with asyncio.timeout(_TRY_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return _fail(
            f"the mounts did not complete within {_TRY_S:.0f} s: a file server might not be responding"
        )
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode == 0:
        return None
    report = json.loads(output) if output else {"kind": "", "message": "the program that mounts was killed"}
    if report["kind"] == mount_namespace.CANNOT_ENTER and report["errno"] in _REFUSED:
        return refuse_namespace(str(report["message"]), _settings())
    return _fail(str(report["message"]))


def _fail(fault: str) -> Rejected:
    return Rejected(WaitingReason.MOUNT_FAILED, detail=fault)


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """The kernel's setting for namespaces of ordinary users; None if it has no such setting."""

    clone: str | None
    apparmor: str | None
    most: str | None
    seccomp: str | None


def _settings() -> KernelSettings:
    def read(path: str) -> str | None:
        try:
            return Path(path).read_text(encoding="ascii").strip()
        except OSError:
            return None

    status = read("/proc/self/status") or ""
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return KernelSettings(
        **{name: read(path) for name, path in _PATHS.items()}, seccomp=fields.get("Seccomp")
    )


def refuse_namespace(cause: str, settings: KernelSettings) -> Rejected:
    """Return why the kernel refuses a namespace: the setting, and its remedy."""
    # In the order of the kernel's checks.
    table = (
        (settings.seccomp not in {None, "0"}, _SECCOMP),
        (settings.clone == "0", _sysctl("kernel.unprivileged_userns_clone", "0", "1")),
        (settings.most == "0", _sysctl("user.max_user_namespaces", "0", "15000")),
        (settings.apparmor == "1", _sysctl("kernel.apparmor_restrict_unprivileged_userns", "1", "0")),
    )
    why, remedy = next((words for holds, words in table if holds), _UNKNOWN)
    return Rejected(WaitingReason.NAMESPACE_REFUSED, detail=f"{why} ({cause})", remedy=remedy)


def _sysctl(name: str, actual: str, needed: str) -> tuple[str, str]:
    return (
        f"the kernel allows private mounts only for root, because {name} is {actual}",
        f"set it with `sudo sysctl -w {name}={needed}`",
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
    is_shared = first == _TMP and len(place.parts) <= _SHARED_LEVELS
    if not first or first in _ACTING or is_shared or place.is_socket():
        return "the path reaches this machine's programs"
    if read_only:
        return None
    if any(place.is_relative_to(directory) or directory.is_relative_to(place) for directory in private):
        return "the path belongs to the fleet, its programs, or the user who started it"
    is_of_system = first in _OF_THE_MACHINE - {_TMP} or first.startswith("lib")
    return "the path belongs to the system" if is_of_system else None


def _problem(place: Path, private: frozenset[Path]) -> str | None:
    if any(place.is_relative_to(directory) or directory.is_relative_to(place) for directory in private):
        return "the path belongs to the fleet, its programs, or the user who started it"
    if any(place.is_relative_to(directory) for directory in _FOR_VOLUMES):
        return None
    first = place.parts[1].casefold()
    if first in _OF_THE_MACHINE or first.startswith("lib"):
        return "the path belongs to the system"
    if os.path.lexists(place):
        return "the path exists on the machine itself"
    return None

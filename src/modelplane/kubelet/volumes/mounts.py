"""Mounts of a container, and their visibility to a process of the host (see ``mount_namespace``).

A pod without mounts needs nothing of the kernel. The mounts of any other pod are tried before it starts, so
that its status says what is missing.
"""

import asyncio
import errno
import json
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import modelplane
from modelplane.api.rejected import Rejected
from modelplane.host import folders
from modelplane.kubelet.cannot_start import WaitingReason
from modelplane.kubelet.volumes import mount_namespace

_TEMPORARY = Path("/tmp")  # noqa: S108 - the path that is replaced for the pod, not a file of ours
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the machine's own, not a file of ours
_TRY_S = 30.0
_REFUSED = frozenset({errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS, errno.ENOSYS, errno.EINVAL})


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
    folders.remove(directory)
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
        return _fail(f"the mounts were not done after {_TRY_S:.0f} s: a file server may not answer")
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


_PATHS = {
    "clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "apparmor": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "most": "/proc/sys/user/max_user_namespaces",
}


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
        f"the kernel lets only root have mounts of his own, because {name} is {actual}",
        f"set it with `sudo sysctl -w {name}={needed}`",
    )


_SECCOMP = (
    "a system call filter, as container runtimes set it, forbids mounts",
    "run Modelplane outside of the container, or give the container CAP_SYS_ADMIN and an unconfined profile",
)
_UNKNOWN = (
    "the kernel does not let this user have mounts of his own",
    "allow unprivileged user namespaces in the kernel",
)

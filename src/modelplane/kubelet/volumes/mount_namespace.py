"""Mounts for the process of a pod: a mount namespace, entered before the engine's program.

    mount_namespace.py SCRATCH MOUNTS [COMMAND [ARGUMENT ...]]

SCRATCH is an empty directory, MOUNTS a list in JSON. Without a command the mounts are only tried, and a
failure is printed as JSON.

The machine's own directories are never written to. If a mountPath does not exist, its nearest existing
directory is replaced, in this namespace only, by a tmpfs with the same entries, and the rest of the path is
created there. Only below another mount of the pod is the path created in place, as container runtimes do.

The module is run by path, isolated and without site packages, before the engine and in the engine's own
process: standard library only.
"""

import ctypes
import json
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

CANNOT_ENTER = "enter"
"""Kind of failure: the namespace itself, which the kernel may refuse to all users."""

CANNOT_MOUNT = "mount"
"""Kind of failure: one of the mounts."""

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126

# linux/sched.h, linux/mount.h
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
_DETACH = 2
_LOCKED = {
    os.ST_NOSUID: _NOSUID,
    os.ST_NODEV: _NODEV,
    os.ST_NOEXEC: 8,
    os.ST_NOATIME: 1024,
    os.ST_NODIRATIME: 2048,
    os.ST_RELATIME: 1 << 21,
}
"""Flags that a remount must repeat, as statvfs(3) and mount(2) name them."""

_libc = ctypes.CDLL(None, use_errno=True)
_Result = TypeVar("_Result")


class Failed(Exception):
    """A step that the operating system refused."""

    def __init__(self, kind: str, doing: str, error: OSError) -> None:
        super().__init__(f"cannot {doing}: {error.strerror}")
        self.kind = kind
        self.number = error.errno


def _do(kind: str, doing: str, step: Callable[..., _Result], *arguments: Any) -> _Result:
    try:
        return step(*arguments)
    except OSError as error:
        raise Failed(kind, doing, error) from error


def _call(name: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0 on success."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mount(source: Path | str, target: Path | str, kind: str | None, flags: int, options: str = "") -> None:
    encoded = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _call("mount", *encoded, ctypes.c_ulong(flags), options.encode())


def _tmpfs(target: Path, mode: int) -> None:
    _mount("tmpfs", target, "tmpfs", _NOSUID | _NODEV, f"mode={mode:o}")


def _enter_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        # A user who may mount needs no user namespace, and keeps access to the files of other users.
        _call("unshare", _CLONE_NEWNS)
    except PermissionError:
        _call("unshare", _CLONE_NEWNS | _CLONE_NEWUSER)
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
            os.write(descriptor, line.encode())
            os.close(descriptor)
    # Later mounts of the machine propagate to this namespace, and none propagates back.
    _mount("none", "/", None, _REC | _SLAVE)


class _View:
    """The file system as this namespace sees it, while it is being changed."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._grown: set[int] = set()
        self._targets: list[Path] = []

    def grow_root(self) -> None:
        """Replace the root itself, which cannot be mounted over."""
        self._lay_twin(Path("/"), self._scratch)
        os.chdir(self._scratch)
        _call("pivot_root", b".", b".")
        _call("umount2", b".", _DETACH)
        os.chdir("/")
        # The tmpfs is also mounted at the copy of the scratch directory.
        _libc.umount2(os.fsencode(self._scratch), _DETACH)

    def _lay_twin(self, directory: Path, place: Path) -> None:
        """Mount a tmpfs with the entries of a directory."""
        held = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            with os.scandir(directory) as found:
                entries = [
                    (entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in found
                ]
        except PermissionError:
            entries = []  # this user could not list them before either
        _tmpfs(place, stat.S_IMODE(os.fstat(held).st_mode))
        self._grown.add(place.stat().st_dev)
        for name, is_link, is_directory in entries:
            source, target = Path(f"/proc/self/fd/{held}", name), place / name
            try:
                if is_link:
                    target.symlink_to(source.readlink())
                else:
                    _make(target, is_directory)
                    _mount(source, target, None, _BIND | _REC)
            except (FileNotFoundError, PermissionError):
                pass  # removed meanwhile, or not accessible to this user
        os.close(held)

    def mount(self, source: int, mount: dict[str, Any]) -> None:
        """Mount an opened source."""
        path = self._mount_point(mount["target"], stat.S_ISDIR(os.fstat(source).st_mode))
        if mount["in_memory"]:
            _tmpfs(path, 0o1777)
        else:
            _mount(Path(f"/proc/self/fd/{source}"), path, None, _BIND | _REC)
        if mount["read_only"]:
            flags = os.statvfs(path).f_flag
            locked = sum(flag for name, flag in _LOCKED.items() if flags & name)
            _mount("none", path, None, _REMOUNT | _BIND | _RDONLY | locked)
        self._targets.append(path)

    def _mount_point(self, target: str, is_directory: bool) -> Path:
        """Return the path to mount at; create it if it is missing."""
        path = Path(target).resolve()
        nearest = nearest_existing(path)
        if nearest == path:
            return path
        in_place = any(nearest.is_relative_to(above) for above in self._targets)
        if not in_place and nearest.stat().st_dev not in self._grown:
            self._lay_twin(nearest, nearest)
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path, is_directory)
        return path


def _make(path: Path, is_directory: bool) -> None:
    if is_directory:
        path.mkdir()
    else:
        path.touch(mode=0o600, exist_ok=False)


def nearest_existing(path: Path) -> Path:
    """Return a path, or its nearest existing ancestor."""
    return path if os.path.lexists(path) else nearest_existing(path.parent)


def enter(scratch: Path, mounts: list[dict[str, Any]]) -> None:
    """Move this process, which must have one thread, into a namespace with these mounts."""
    work_directory = Path.cwd()
    _do(CANNOT_ENTER, "enter a mount namespace", _enter_namespace)
    view = _View(scratch)
    if any(nearest_existing(Path(mount["target"]).resolve()) == Path("/") for mount in mounts):
        _do(CANNOT_MOUNT, "replace the root directory", view.grow_root)
    # Open all sources first: a mount may cover the source of another.
    sources = [
        _do(CANNOT_MOUNT, f'open "{mount["source"]}"', os.open, mount["source"], os.O_PATH)
        for mount in mounts
    ]
    # Parents before children.
    for source, mount in sorted(zip(sources, mounts, strict=True), key=lambda each: _depth(each[1])):
        doing = f'mount "{mount["source"]}" at "{mount["target"]}"'
        _do(CANNOT_MOUNT, doing, view.mount, source, mount)
    # The path may lead to another directory now.
    _do(CANNOT_MOUNT, f'change to "{work_directory}"', os.chdir, work_directory)


def _depth(mount: dict[str, Any]) -> int:
    return len(Path(mount["target"]).parts)


def _become(command: list[str]) -> int:
    # Python ignores these signals, and the next program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - a pod's command is run as it is given, without a shell
    except OSError as error:
        os.write(2, f"cannot start {command[0]!r}: {error.strerror}\n".encode())
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE


def main(arguments: list[str]) -> int:
    """Enter the namespace and become the command; without a command, print a failure."""
    scratch, mounts, *command = arguments
    try:
        enter(Path(scratch), json.loads(mounts))
    except Failed as failed:
        if command:
            os.write(2, f"{failed}\n".encode())
        else:
            report = {"kind": failed.kind, "message": str(failed), "errno": failed.number}
            os.write(1, json.dumps(report).encode())
        return _NOT_EXECUTABLE
    return _become(command) if command else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

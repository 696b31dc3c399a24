"""Mounts for the process of a pod: a mount namespace, entered before the engine's program.

    mount_namespace.py SCRATCH PLAN [COMMAND [ARGUMENT ...]]

SCRATCH is an empty directory, PLAN an object of JSON: the ``mounts``, and the directories to be ``hidden``.
Without a command the mounts are only tried, and a failure is printed as JSON.

The machine's own directories are never written to. If a mountPath does not exist, its nearest existing
directory is replaced, in this namespace only, by a tmpfs with the same entries, and the rest of the path is
created there. Only below another mount of the pod is the path created in place, as container runtimes do.

A process from which directories are hidden also has a user namespace of its own: it can neither read the
memory and the environment of other processes, nor reach the hidden files through them, nor undo the mounts.
If the kernel has Landlock, it cannot signal them either.

The module is run by path, isolated and without site packages, before the engine and in the engine's own
process: standard library only.
"""

import ctypes
import json
import os
import signal
import stat
import struct
import sys
from collections.abc import Callable, Sequence
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

# linux/capability.h, linux/prctl.h, linux/landlock.h
_SETGID, _SETUID = 6, 7
_UNDOING = (2, 16, 17, 19, 21, 25, 27, 39)
"""The capabilities that reach other processes, devices or files behind mounts: CAP_DAC_READ_SEARCH,
CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_TIME, CAP_MKNOD, CAP_BPF."""
_DROP_FROM_BOUNDING_SET, _SET_NO_NEW_PRIVILEGES = 24, 38
_CREATE_RULESET, _RESTRICT_SELF, _VERSION = 444, 446, 1
_SCOPES, _SCOPES_SINCE = 0b11, 6
"""Abstract Unix sockets and signals, since this version of Landlock."""
_HIDDEN_MODE = 0o555
_HIDDEN_BYTES = "64k"
_WORK_DIRECTORY = "/tmp"  # noqa: S108 - of the namespace

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


def _tmpfs(target: Path, mode: int, options: str = "") -> None:
    _mount("tmpfs", target, "tmpfs", _NOSUID | _NODEV, f"mode={mode:o}{options}")


def _enter_namespace(*, own_user: bool) -> None:
    if own_user and _may_map_users():
        _enter_with_every_user()
    elif own_user:
        _enter_with_one_user()
    else:
        try:
            # A user who may mount needs no user namespace, and keeps access to the files of other users.
            _call("unshare", _CLONE_NEWNS)
        except PermissionError:
            _enter_with_one_user()
    # Later mounts of the machine propagate to this namespace, and none propagates back.
    _mount("none", "/", None, _REC | _SLAVE)


def _may_map_users() -> bool:
    fields = Path("/proc/self/status").read_bytes().split()
    wanted = 1 << _SETUID | 1 << _SETGID
    return int(fields[fields.index(b"CapEff:") + 1], 16) & wanted == wanted


def _enter_with_one_user() -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _CLONE_NEWNS | _CLONE_NEWUSER)
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        _write("self", name, line)


def _enter_with_every_user() -> None:
    """Enter a user namespace in which each user is the one outside, so that root keeps access to files."""
    process, (gate, opening) = os.getpid(), os.pipe()
    maps = {name: _identity_map(name) for name in ("uid_map", "gid_map")}
    helper = os.fork()
    if helper == 0:
        # Only a process outside of the namespace may write these maps.
        os.close(opening)
        try:
            if os.read(gate, 1):
                for name, lines in maps.items():
                    _write(str(process), name, lines)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    os.close(gate)
    try:
        _call("unshare", _CLONE_NEWNS | _CLONE_NEWUSER)
        os.write(opening, b"g")
    finally:
        os.close(opening)
        _, status = os.waitpid(helper, 0)
    if number := os.waitstatus_to_exitcode(status):
        raise OSError(number, os.strerror(number))


def _identity_map(name: str) -> str:
    ranges = (line.split() for line in Path(f"/proc/self/{name}").read_bytes().decode().splitlines())
    return "\n".join(f"{first} {first} {count}" for first, _, count in ranges)


def _write(process: str, name: str, lines: str) -> None:
    descriptor = os.open(f"/proc/{process}/{name}", os.O_WRONLY)
    try:
        os.write(descriptor, lines.encode())
    finally:
        os.close(descriptor)


class _View:
    """The file system as this namespace sees it, while it is being changed."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._grown: set[int] = set()
        self._targets: list[Path] = []
        self._covers: list[int] = []

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

    def cover(self, directory: Path) -> None:
        """Mount an empty directory over one."""
        _tmpfs(directory, _HIDDEN_MODE, f",size={_HIDDEN_BYTES}")
        self._covers.append(os.open(directory, os.O_PATH | os.O_DIRECTORY))
        self._grown.add(directory.stat().st_dev)

    def close_covers(self) -> None:
        """Make the empty directories read-only, once the mounts below them are made."""
        for cover in self._covers:
            _mount("none", f"/proc/self/fd/{cover}", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
            os.close(cover)

    def mount(self, source: int, mount: dict[str, Any]) -> None:
        """Mount an opened source."""
        path = self._mount_point(mount["target"], stat.S_ISDIR(os.fstat(source).st_mode))
        if mount["in_memory"]:
            _tmpfs(path, 0o1777, f",size={mount['size_bytes']}" if mount["size_bytes"] else "")
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


def enter(scratch: Path, mounts: list[dict[str, Any]], hidden: Sequence[str] = ()) -> None:
    """Move this process, which must have one thread, into a namespace with these mounts.

    ``hidden`` directories are empty in it, but for the mounts below them.
    """
    work_directory = Path(_WORK_DIRECTORY) if hidden else Path.cwd()
    _do(CANNOT_ENTER, "enter a mount namespace", lambda: _enter_namespace(own_user=bool(hidden)))
    view = _View(scratch)
    if any(nearest_existing(Path(mount["target"]).resolve()) == Path("/") for mount in mounts):
        _do(CANNOT_MOUNT, "replace the root directory", view.grow_root)
    # Open all sources first: a mount may cover the source of another.
    sources = [
        _do(CANNOT_MOUNT, f'open "{mount["source"]}"', os.open, mount["source"], os.O_PATH)
        for mount in mounts
    ]
    for directory in hidden:
        if Path(directory).is_dir():
            _do(CANNOT_MOUNT, f'hide "{directory}"', view.cover, Path(directory))
    # Parents before children.
    for source, mount in sorted(zip(sources, mounts, strict=True), key=lambda each: _depth(each[1])):
        doing = f'mount "{mount["source"]}" at "{mount["target"]}"'
        _do(CANNOT_MOUNT, doing, view.mount, source, mount)
    _do(CANNOT_MOUNT, "close the hidden directories", view.close_covers)
    # The path may lead to another directory now.
    _do(CANNOT_MOUNT, f'change to "{work_directory}"', os.chdir, work_directory)
    if hidden:
        _do(CANNOT_ENTER, "give up capabilities", _give_up)


def _give_up() -> None:
    """Give up what could undo the mounts or reach the processes outside."""
    unused = (ctypes.c_ulong(0),) * 3
    _call("prctl", _SET_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), *unused)
    for capability in _UNDOING:
        _call("prctl", _DROP_FROM_BOUNDING_SET, ctypes.c_ulong(capability), *unused)
    if _libc.syscall(_CREATE_RULESET, None, 0, _VERSION) < _SCOPES_SINCE:
        return
    attributes = struct.pack("QQQ", 0, 0, _SCOPES)
    rules = _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules >= 0:
        _libc.syscall(_RESTRICT_SELF, rules, 0)
        os.close(rules)


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
    scratch, plan, *command = arguments
    try:
        enter(Path(scratch), **json.loads(plan))
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

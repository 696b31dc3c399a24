"""Mounts for the process of a pod: a mount namespace, entered before the engine's program.

    mount_namespace.py SCRATCH PLAN [COMMAND [ARGUMENT ...]]

SCRATCH is an empty directory, PLAN an object of JSON: the ``mounts``, and the directories to be ``hidden``.
Without a command the mounts are only tried, and a failure is printed as JSON.

The machine's own directories are never written to. If a mountPath does not exist, its nearest existing
directory is replaced, in this namespace only, by a tmpfs with the same entries, and the rest of the path is
created there. Only below another mount of the pod is the path created in place, as container runtimes do.
Links of the machine are followed, and never those of a volume, whose files are a pod's.

A process from which directories are hidden can write to its own mounts only: everything else is read-only,
also for programs that root runs. It has a user namespace of its own: it can neither read the memory and the
environment of other processes, nor reach the hidden files through them, nor undo the mounts. If the kernel
has Landlock, it cannot signal them either.

The module is run by path, isolated and without site packages, before the engine and in the engine's own
process: standard library only.
"""

import contextlib
import ctypes
import errno
import json
import os
import signal
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

CANNOT_ENTER, CANNOT_MOUNT = "enter", "mount"
"""Kinds of failure: the namespace itself, which the kernel may refuse to all users, and one of the mounts."""

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126

# linux/sched.h, linux/mount.h
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_RDONLY, _NOSUID, _NODEV, _BIND, _REC, _SLAVE = 1, 2, 4, 4096, 16384, 1 << 19
_DETACH = 2
# mount_setattr(2)
_MOUNT_SETATTR = 442
_EMPTY_PATH, _RECURSIVE = 0x1000, 0x8000
_TOO_OLD = "the kernel is older than Linux 5.12"

_PROC = Path("/proc")
_OF_THE_KERNEL = ("bus", "fs", "irq", "sys", "sysrq-trigger")
"""Files of proc that change the machine. The rest is a process's own, such as its maps of users."""

# linux/capability.h, linux/prctl.h, linux/landlock.h
_SETGID, _SETUID = 6, 7
_UNDOING = (2, 16, 17, 19, 21, 25, 27, 39)
"""The capabilities that reach other processes, devices or files behind mounts: CAP_DAC_READ_SEARCH,
CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_TIME, CAP_MKNOD, CAP_BPF."""
_DROP_FROM_BOUNDING_SET, _SET_NO_NEW_PRIVILEGES = 24, 38
_CREATE_RULESET, _RESTRICT_SELF, _VERSION = 444, 446, 1
_SCOPES, _SCOPES_SINCE = 0b11, 6
"""Abstract Unix sockets and signals, since this version of Landlock."""
_HIDDEN_MODE, _HIDDEN_BYTES = 0o555, "64k"
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


def _tmpfs(target: Path | str, mode: int, options: str = "") -> None:
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
    capabilities = 1 << _SETUID | 1 << _SETGID
    return int(fields[fields.index(b"CapEff:") + 1], 16) & capabilities == capabilities


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
            with os.scandir(directory) as scan:
                entries = [
                    (entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in scan
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
        self._grown.add(directory.stat().st_dev)

    def make_point(self, path: Path, is_directory: bool) -> None:
        """Create the path of a mount if the machine does not have it."""
        nearest = find_nearest_existing(path)
        if nearest == path:
            return
        if nearest.stat().st_dev not in self._grown:
            self._lay_twin(nearest, nearest)
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(path, is_directory)


def _mount_one(source: int, mount: dict[str, Any], *, is_sealed: bool) -> None:
    """Mount an opened source; below another mount, create the path in place."""
    path = Path(mount["target"])
    point = open_unlinked(path, is_directory=_is_directory(source))
    place = f"/proc/self/fd/{point}"
    if mount["in_memory"]:
        _tmpfs(place, 0o1777, f",size={mount['size_bytes']}" if mount["size_bytes"] else "")
    else:
        _mount(f"/proc/self/fd/{source}", place, None, _BIND | _REC)
    os.close(point)
    if mount["read_only"]:
        _seal(path)
    elif is_sealed:
        _open_up(path)


def open_unlinked(path: Path, *, is_directory: bool | None = None) -> int:
    """Open a path none of whose parts is a link; with ``is_directory``, create the parts that are missing."""
    place = os.open("/", os.O_PATH | os.O_DIRECTORY)
    parts = path.parts[1:]
    for number, name in enumerate(parts, start=1):
        above, flags = place, os.O_PATH | os.O_NOFOLLOW
        try:
            place = os.open(name, flags, dir_fd=above)
        except FileNotFoundError:
            if is_directory is None:
                raise
            if is_directory or number < len(parts):
                os.mkdir(name, dir_fd=above)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=above))
            place = os.open(name, flags, dir_fd=above)
        finally:
            os.close(above)
        if stat.S_ISLNK(os.fstat(place).st_mode):
            raise OSError(errno.ELOOP, "the path contains a symbolic link, which is not followed")
    return place


def _seal(path: Path) -> None:
    """Make a mount read-only, with all mounts below it."""
    _set_attributes(path, on=_RDONLY, below=_RECURSIVE)


def _open_up(path: Path) -> None:
    """Make a mount writable again, unless it is read-only outside of the namespace too."""
    with contextlib.suppress(PermissionError):
        _set_attributes(path, off=_RDONLY)


def _set_attributes(path: Path, *, on: int = 0, off: int = 0, below: int = 0) -> None:
    place = open_unlinked(path)
    attributes = struct.pack("QQQQ", on, off, 0, 0)
    size = ctypes.c_size_t(len(attributes))
    failed = _libc.syscall(_MOUNT_SETATTR, place, b"", _EMPTY_PATH | below, attributes, size)
    number = ctypes.get_errno()
    os.close(place)
    if failed:
        raise OSError(number, _TOO_OLD if number == errno.ENOSYS else os.strerror(number))


def _seal_machine() -> None:
    """Make everything read-only that is mounted so far, but for a process's own files of proc."""
    for path in (_PROC / name for name in _OF_THE_KERNEL):
        if path.exists():
            _mount(path, path, None, _BIND | _REC)
    _seal(Path("/"))
    _open_up(_PROC)


def _make(path: Path, is_directory: bool) -> None:
    if is_directory:
        path.mkdir()
    else:
        path.touch(mode=0o600, exist_ok=False)


def find_nearest_existing(path: Path) -> Path:
    """Return a path, or its nearest existing ancestor."""
    return path if os.path.lexists(path) else find_nearest_existing(path.parent)


def enter(scratch: Path, mounts: list[dict[str, Any]], hidden: Sequence[str] = ()) -> None:
    """Move this process, which must have one thread, into a namespace with these mounts.

    ``hidden`` directories are empty in it, but for the mounts below them, and where there are some, nothing
    but the mounts can be written.
    """
    work_directory = Path(_WORK_DIRECTORY) if hidden else Path.cwd()
    _do(CANNOT_ENTER, "enter a mount namespace", lambda: _enter_namespace(own_user=bool(hidden)))
    view = _View(scratch)
    # Parents before children.
    ordered = sorted(
        ({**spec, "target": os.path.realpath(spec["target"])} for spec in mounts),
        key=lambda mount: len(Path(mount["target"]).parts),
    )
    targets = [Path(spec["target"]) for spec in ordered]
    if any(find_nearest_existing(target) == Path("/") for target in targets):
        _do(CANNOT_MOUNT, "replace the root directory", view.grow_root)
    # Open all sources first: a mount may cover the source of another.
    opened = open_unlinked if hidden else lambda path: os.open(path, os.O_PATH)
    sources = [
        _do(CANNOT_MOUNT, f'open "{spec["source"]}"', opened, Path(spec["source"])) for spec in ordered
    ]
    for directory in hidden:
        if Path(directory).is_dir():
            _do(CANNOT_MOUNT, f'hide "{directory}"', view.cover, Path(directory))
    # A directory is replaced before those below it.
    points = {target: _is_directory(source) for source, target in zip(sources, targets, strict=True)}
    for target in sorted(points.keys(), key=lambda path: len(find_nearest_existing(path).parts)):
        if points.keys().isdisjoint(target.parents):
            _do(CANNOT_MOUNT, f'make "{target}"', view.make_point, target, points[target])
    if hidden:
        _do(CANNOT_MOUNT, "make the machine's files read-only", _seal_machine)
    for source, mount in zip(sources, ordered, strict=True):
        doing = f'mount "{mount["source"]}" at "{mount["target"]}"'
        _do(CANNOT_MOUNT, doing, lambda it=source, at=mount: _mount_one(it, at, is_sealed=bool(hidden)))
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


def _is_directory(opened: int) -> bool:
    return stat.S_ISDIR(os.fstat(opened).st_mode)


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

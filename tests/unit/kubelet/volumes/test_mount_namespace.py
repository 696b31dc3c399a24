"""Mounts in a namespace of the real kernel, as whoever runs the tests and as users without any power."""

import ctypes
import errno
import json
import os
import platform
import stat
import struct
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelplane.kubelet.volumes import mount_namespace
from support import ordinary_user
from support.traversal import common_folder, open_to_others

ROOT = os.geteuid() == 0
NOBODY = 65534

Become = Callable[[], None]


def _nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    # As after executing a program; until then, its own files in proc are root's.
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE


def _drop_capabilities() -> None:
    # As executing a program does it to the ordinary user of a new user namespace.
    header, nothing = struct.pack("Ii", 0x20080522, 0), bytes(24)  # _LINUX_CAPABILITY_VERSION_3
    assert ctypes.CDLL(None).capset(header, nothing) == 0


def _ordinary() -> None:
    ordinary_user.become()
    _drop_capabilities()


USERS = [
    pytest.param(lambda: None, id="whoever runs the tests"),
    pytest.param(_ordinary, id="an ordinary user of a user namespace"),
    pytest.param(
        _nobody, id="another ordinary user", marks=pytest.mark.skipif(not ROOT, reason="needs root")
    ),
]


def in_child(work: Callable[[], Any]) -> Any:
    """Return what some work returns in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            code = 0
        except BaseException:  # noqa: BLE001 - a forked child must not return into the tests
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, said
    return json.loads(said)


def mounted(become: Become, scratch: Path, mounts: list[dict[str, Any]], look: Callable[[], Any]) -> Any:
    """Return what a user sees who has some mounts; the message, where there is no way to them."""

    def work() -> Any:
        become()
        try:
            mount_namespace.enter(scratch, mounts)
        except mount_namespace.Failed as failed:
            return [failed.kind, str(failed)]
        return look()

    return in_child(work)


def mount(
    source: Path, target: str, *, read_only: bool = False, in_memory: bool = False, size_bytes: int = 0
) -> dict[str, Any]:
    return {
        "source": str(source),
        "target": target,
        "read_only": read_only,
        "in_memory": in_memory,
        "size_bytes": size_bytes,
    }


def names(folder: Path | str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can use, with a scratch directory and some data."""
    with common_folder() as folder:
        for name in ("scratch", "data", "other"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        (folder / "data" / "weights").write_text("heavy")
        yield folder


@pytest.mark.parametrize("become", USERS)
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("/models-of-a-test", id="below the root"),
        pytest.param("/models-of-a-test/a/b", id="far below the root"),
        pytest.param("/usr/models-of-a-test/a", id="below a directory of the machine"),
        pytest.param("/var/run/models-of-a-test/a", id="behind a link"),
        pytest.param("/usr/lib", id="over a directory of the machine"),
        pytest.param("/root/.cache/models-of-a-test", id="below a directory that is closed to some"),
    ],
)
def test_a_mount_is_where_it_is_said_to_be_and_nowhere_else(become: Become, target: str, place: Path) -> None:
    def look() -> Any:
        Path(target, "new").write_text("written")
        return Path(target, "weights").read_text()

    before = names("/"), names("/usr")
    assert mounted(become, place / "scratch", [mount(place / "data", target)], look) == "heavy"
    assert (place / "data" / "new").read_text() == "written"
    assert (names("/"), names("/usr")) == before
    assert names(place / "scratch") == []
    assert not Path(target, "weights").exists()


@pytest.mark.parametrize("become", USERS)
def test_all_else_is_the_machines(become: Become, place: Path) -> None:
    def machine() -> Any:
        Path("/dev/null").write_text("x")
        return [
            [name for name in names("/") if name != "models-of-a-test"],
            str(Path("/proc/self").readlink()),
            Path("/proc/1/stat").exists(),
            names("/sys"),
            names("/dev"),
            Path("/etc/passwd").read_text(),
            str(Path.cwd()),
            stat.S_IMODE(Path("/").stat().st_mode),
            [os.geteuid(), os.getegid()],
        ]

    def outside() -> Any:
        become()
        return machine()

    def inside() -> Any:
        return mounted(become, place / "scratch", [mount(place / "data", "/models-of-a-test")], machine)

    alone, mounting = in_child(outside), inside()
    assert alone[1] != mounting[1]
    alone[1] = mounting[1]
    assert mounting == alone


@pytest.mark.parametrize("become", USERS)
def test_what_is_read_only_refuses_writes(become: Become, place: Path) -> None:
    def look() -> Any:
        assert Path("/models-of-a-test/weights").read_text() == "heavy"
        try:
            Path("/models-of-a-test/new").write_text("x")
        except OSError as error:
            return error.errno
        return 0

    mounts = [mount(place / "data", "/models-of-a-test", read_only=True)]
    assert mounted(become, place / "scratch", mounts, look) == errno.EROFS


@pytest.mark.parametrize("become", USERS)
def test_mounts_below_mounts_and_of_what_another_covers(become: Become, place: Path) -> None:
    (place / "file").write_text("alone")
    (place / "other" / "deep").mkdir()
    (place / "other" / "deep").chmod(0o777)
    mounts = [
        mount(place / "file", "/models-of-a-test/conf/one.txt"),
        mount(place / "data", "/models-of-a-test"),
        # Covers the sources of the others, which were there first.
        mount(place / "other", str(place)),
        mount(place, "/models-of-a-test-2", read_only=True),
        mount(place / "data", "/models-of-a-test-3", in_memory=True),
    ]

    def look() -> Any:
        Path("/models-of-a-test-3/in-memory").write_text("x")
        return [
            Path("/models-of-a-test/weights").read_text(),
            Path("/models-of-a-test/conf/one.txt").read_text(),
            names(place),
            Path("/models-of-a-test-2/data/weights").read_text(),
            names("/models-of-a-test-3"),
        ]

    seen = mounted(become, place / "scratch", mounts, look)
    assert seen == ["heavy", "alone", ["deep"], "heavy", ["in-memory"]]
    assert names(place / "data") == ["conf", "weights"], "as container runtimes make it"


@pytest.mark.parametrize("become", USERS)
def test_a_hidden_directory_is_empty_but_for_the_mounts_below_it(become: Become, place: Path) -> None:
    (place / "home" / "agent" / "models").mkdir(parents=True)
    open_to_others(place / "home" / "agent" / "models")
    (place / "home" / "key").write_text("secret")
    models = place / "home" / "agent" / "models"
    (models / "model").write_text("weights")
    hidden = [str(place / "home"), str(place / "home" / "agent"), str(place / "missing")]

    def work() -> Any:
        become()
        mount_namespace.enter(place / "scratch", [mount(models, str(models))], hidden)
        with pytest.raises(OSError, match="Read-only file system"):
            (place / "home" / "new").touch()
        return [names(place / "home"), names(place / "home" / "agent"), (models / "model").read_text()]

    assert in_child(work) == [["agent"], ["models"], "weights"]
    assert (place / "home" / "key").read_text() == "secret"


def test_a_source_that_is_gone_is_named(place: Path) -> None:
    missing = mount(place / "missing", "/models-of-a-test")
    assert mounted(lambda: None, place / "scratch", [missing], lambda: "entered") == [
        "mount",
        f'cannot open "{place}/missing": No such file or directory',
    ]


def test_a_file_is_not_mounted_over_a_directory(place: Path) -> None:
    one = mount(place / "data" / "weights", "/usr/lib")
    assert mounted(lambda: None, place / "scratch", [one], lambda: "entered") == [
        "mount",
        f'cannot mount "{place}/data/weights" at "/usr/lib": Not a directory',
    ]


def _no_more_namespaces() -> None:
    ordinary_user.become()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    _drop_capabilities()


_UNSHARE = {"x86_64": 272, "aarch64": 97}


def _filtered() -> None:
    """Forbid unshare(2) by a filter, as container runtimes do (seccomp(2))."""
    number = _UNSHARE[platform.machine()]
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (0x20, 0, 0, 0),  # load the number of the system call
            (0x15, 0, 1, number),  # where it is another, pass over the next
            (0x06, 0, 0, 0x00050000 | errno.EPERM),
            (0x06, 0, 0, 0x7FFF0000),
        )
    )
    held = ctypes.create_string_buffer(program)
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, described) == 0, os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP


@pytest.mark.parametrize(
    ("become", "why"),
    [
        pytest.param(_no_more_namespaces, "No space left on device", id="no more user namespaces"),
        pytest.param(
            _filtered,
            "Operation not permitted",
            id="a filter",
            marks=pytest.mark.skipif(platform.machine() not in _UNSHARE, reason="another processor"),
        ),
    ],
)
def test_a_kernel_that_refuses_is_told_from_a_mount_that_fails(become: Become, why: str, place: Path) -> None:
    refused = mounted(become, place / "scratch", [mount(place / "data", "/mnt/x")], lambda: "entered")
    assert refused == ["enter", f"cannot enter a mount namespace: {why}"]


def test_a_program_that_is_not_there_exits_as_a_shell_says(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        in_child(lambda: mount_namespace.main([str(place / "scratch"), '{"mounts": []}', "no-such-program"]))
        == 127
    )
    assert capfd.readouterr().err == "cannot start 'no-such-program': No such file or directory\n"


def test_what_failed_is_said_before_the_program(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plan = json.dumps({"mounts": [mount(place / "missing", "/mnt/x")]})
    assert in_child(lambda: mount_namespace.main([str(place / "scratch"), plan, "true"])) == 126
    said = capfd.readouterr().err
    assert said == f'cannot open "{place}/missing": No such file or directory\n'

"""Attacks on the files and processes of a fleet, by a program that a pod got to run as a process."""

import asyncio
import errno
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import modelplane
from modelplane.kubelet.cannot_start import CannotStart
from modelplane.kubelet.runtime.launch import raise_rejected
from modelplane.kubelet.volumes import mount_namespace, mounts
from modelplane.kubelet.volumes.mounts import Mount
from support import ordinary_user
from support.traversal import open_to_others

ORDINARY = (sys.executable, ordinary_user.__file__, "20")

ATTACKERS = [
    pytest.param((), id="as the user who runs the tests"),
    pytest.param(ORDINARY, id="as an ordinary user"),
]

SECRET = "the admin key"

NEW_NAMESPACE = """
def new_namespace():
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    assert libc.unshare(0x10020000) == 0
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return libc
"""
"""Where the attacker has every capability, over a copy of the mounts."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fleet's home with a key, another pod's folder, and models."""
    made = tmp_path / "home"
    (made / "agent" / "models").mkdir(parents=True)
    (made / "agent" / "pods" / "other").mkdir(parents=True)
    (made / "kubeconfig").write_text(SECRET)
    (made / "agent" / "pods" / "other" / "token").write_text(SECRET)
    (made / "agent" / "models" / "model.gguf").write_text("weights")
    open_to_others(made)
    return made


@pytest.fixture
def victim(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process outside, with a secret in its environment and an open file of the home."""
    with (home / "kubeconfig").open() as opened:
        running = subprocess.Popen(["sleep", "60"], env={"TOKEN": SECRET}, stdin=opened, cwd=home)
        yield running
        running.kill()
        running.wait()


def attack(
    source: str, home: Path, tmp_path: Path, before: tuple[str, ...], volumes: tuple[Mount, ...] = ()
) -> str:
    """Return what a program prints that runs as a pod's does."""
    models = home / "agent" / "models"
    own = (Mount(models, str(models), read_only=True), *volumes)
    program = (
        f"import os, pathlib\n{NEW_NAMESPACE}\nhome = pathlib.Path({str(home)!r})\n{textwrap.dedent(source)}"
    )

    async def run() -> str:
        prefix = raise_rejected(await mounts.build_prefix(own, tmp_path / "run", (), (home / "agent", home)))
        command = [*before, *prefix, sys.executable, "-c", program]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return asyncio.run(run())


@pytest.mark.parametrize("before", ATTACKERS)
def test_the_home_has_nothing_but_the_models_which_cannot_be_changed(
    before: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    source = """
        import json
        seen = [str(path.relative_to(home)) for path in sorted(home.rglob("*"))]
        refused = []
        for path in (home / "new", home / "agent" / "models" / "model.gguf"):
            try:
                path.write_text("poison")
            except OSError:
                refused.append(path.name)
        print(json.dumps([seen, refused, os.getcwd(), (home / "agent/models/model.gguf").read_text()]))
    """
    seen, refused, work_directory, model = json.loads(attack(source, home, tmp_path, before))
    assert seen == ["agent", "agent/models", "agent/models/model.gguf"]
    assert (refused[-1], model) == ("model.gguf", "weights")
    assert work_directory == "/tmp"
    assert (home / "kubeconfig").read_text() == SECRET
    assert not (home / "new").exists()


@pytest.mark.parametrize("before", ATTACKERS)
@pytest.mark.parametrize(
    "undo",
    [
        pytest.param("libc.umount2(os.fsencode(each), 2)", id="by unmounting"),
        pytest.param(
            'libc.mount(b"/", b"/mnt", None, 4096, None); each = pathlib.Path("/mnt" + str(each))',
            id="by a bind mount of what is below",
        ),
        pytest.param("libc.mount(None, os.fsencode(each), None, 32 | 4096, None)", id="by a remount"),
    ],
)
@pytest.mark.parametrize("own", [True, False], ids=["with every capability", "with its own capabilities"])
def test_the_mounts_cannot_be_undone(
    before: tuple[str, ...], undo: str, own: bool, home: Path, tmp_path: Path
) -> None:
    source = f"""
        import ctypes
        libc = new_namespace() if {own} else ctypes.CDLL(None)
        for each in 2 * [pathlib.Path("/tmp"), home / "agent", home]:
            {undo}
        key = home / "kubeconfig"
        for path in (key, pathlib.Path("/mnt" + str(key))):
            print(path.exists())
    """
    assert attack(source, home, tmp_path, before) == "False\nFalse\n"


@pytest.mark.parametrize("before", ATTACKERS)
@pytest.mark.parametrize("what", ["environ", "mem", "root/etc/passwd", "cwd/kubeconfig", "fd/0"])
def test_other_processes_are_not_read(
    before: tuple[str, ...], what: str, home: Path, tmp_path: Path, victim: subprocess.Popen[bytes]
) -> None:
    for pid in (victim.pid, os.getpid()):
        source = f"""
            try:
                with open("/proc/{pid}/{what}", "rb") as opened:
                    print(opened.read(1))
            except OSError as error:
                print(type(error).__name__)
        """
        assert attack(source, home, tmp_path, before) == "PermissionError\n"


@pytest.mark.parametrize("before", ATTACKERS)
def test_other_processes_are_not_signalled(
    before: tuple[str, ...], home: Path, tmp_path: Path, victim: subprocess.Popen[bytes]
) -> None:
    source = f"""
        import ctypes
        print("since", ctypes.CDLL(None).syscall(444, None, 0, 1))
        try:
            os.kill({victim.pid}, 9)
        except OSError as error:
            print(type(error).__name__)
    """
    version, *refused = attack(source, home, tmp_path, before).splitlines()
    if int(version.split()[1]) < 6:
        pytest.skip("this kernel's Landlock does not limit signals")
    assert refused == ["PermissionError"]
    assert victim.poll() is None


WRITES = {
    "a module that the agent runs": mount_namespace.__file__,
    "a new module beside it": str(Path(mount_namespace.__file__).parent / "attack.py"),
    "the checkout": str(Path(modelplane.__path__[0]).parent / "attack.pth"),
    "the environment": str(Path(sys.prefix) / "attack.pth"),
    "the base environment": str(Path(sys.base_prefix) / "attack.pth"),
    "libraries": "/etc/ld.so.preload",
    "a directory of the root": "/attack",
    "the program that the kernel starts for a core": "/proc/sys/kernel/core_pattern",
    "its own root, through proc": "/proc/self/root/etc/attack",
    "the working directory of the supervisor": f"/proc/self/root{sys.prefix}/attack",
    "a control group": "/sys/fs/cgroup/attack",
    "the home of the user": str(Path.home() / ".attack"),
}


@pytest.mark.parametrize("before", ATTACKERS)
@pytest.mark.parametrize("own", [True, False], ids=["with every capability", "with its own capabilities"])
def test_nothing_but_the_volumes_of_a_pod_can_be_written(
    before: tuple[str, ...], own: bool, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "volume").mkdir(mode=0o777)
    volume = Mount(tmp_path / "volume", "/data", read_only=False)
    source = f"""
        import json
        libc = new_namespace() if {own} else None
        def write(path):
            try:
                with open(path, "ab") as opened:
                    return "written"
            except OSError as error:
                return type(error).__name__
        for each in {list(WRITES.values())!r}:
            if libc:
                libc.mount(None, os.fsencode(os.path.dirname(each)), None, 32 | 4096, None)
                libc.mount(None, b"/", None, 32 | 4096, None)
        refused = [write(each) for each in {list(WRITES.values())!r}]
        own = ("/data/x", "/tmp/x", "/dev/shm/x", "/dev/null")
        print(json.dumps([refused, [write(each) for each in own]]))
    """
    refused, own_files = json.loads(attack(source, home, tmp_path, before, (volume,)))
    assert "written" not in refused, dict(zip(WRITES, refused, strict=True))
    assert own_files == ["written"] * 4
    assert [path.name for path in (tmp_path / "volume").iterdir()] == ["x"]
    assert not Path("/dev/shm/x").exists()


@pytest.mark.parametrize("before", ATTACKERS)
def test_nothing_is_removed_renamed_or_linked_outside_of_the_volumes(
    before: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    (tmp_path / "volume").mkdir(mode=0o777)
    volume = Mount(tmp_path / "volume", "/data", read_only=False)
    module = mount_namespace.__file__
    source = f"""
        def tried(work):
            try:
                work()
            except OSError as error:
                return error.errno
        module = {module!r}
        print([
            tried(lambda: os.unlink(module)),
            tried(lambda: os.rename(module, module + ".old")),
            tried(lambda: os.chmod(module, 0o777)),
            tried(lambda: os.symlink("/data", os.path.dirname(module) + "/attack")),
            tried(lambda: os.utime(module)),
        ])
    """
    assert attack(source, home, tmp_path, before, (volume,)) == f"{[errno.EROFS] * 5}\n"


@pytest.mark.parametrize(
    "link",
    [
        pytest.param("/etc", id="to the configuration"),
        pytest.param(str(Path(mount_namespace.__file__).parent), id="to the agent's packages"),
        pytest.param("../../etc", id="relative"),
        pytest.param("/proc/self/root/etc", id="through proc"),
    ],
)
def test_a_link_in_a_volume_leads_no_mount_elsewhere(link: str, home: Path, tmp_path: Path) -> None:
    for name in ("volume", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "volume" / "link").symlink_to(link)
    volumes = (
        # In the wrong order, and below the link too.
        Mount(tmp_path / "other", "/data/link/deep", read_only=False),
        Mount(tmp_path / "volume", "/data", read_only=False),
    )
    for target in ("/data/link/deep", "/data/link"):
        nested = (Mount(tmp_path / "other", target, read_only=False), volumes[1])
        with pytest.raises(CannotStart, match="the path contains a symbolic link, which is not followed"):
            attack("", home, tmp_path, (), nested)


def test_a_source_that_became_a_link_after_it_was_checked_is_not_opened(home: Path, tmp_path: Path) -> None:
    checked = tmp_path / "volume" / "sub"
    checked.parent.mkdir()
    checked.symlink_to(home)
    raced = Mount(checked, "/data", read_only=False, real=checked)
    with pytest.raises(CannotStart, match="the path contains a symbolic link, which is not followed"):
        attack("", home, tmp_path, (), (raced,))


def test_a_directory_above_a_source_that_became_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    checked = tmp_path / "volume" / "sub" / "agent"
    (tmp_path / "volume").mkdir()
    checked.parent.symlink_to(home)
    raced = Mount(checked, "/data", read_only=False, real=checked)
    with pytest.raises(CannotStart, match="the path contains a symbolic link, which is not followed"):
        attack("", home, tmp_path, (), (raced,))

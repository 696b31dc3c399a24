"""Attacks on the files and processes of a fleet, by a program that a pod got to run as a process."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.kubelet.volumes import mounts
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


def attack(source: str, home: Path, tmp_path: Path, before: tuple[str, ...]) -> str:
    """Return what a program prints that runs as a pod's does."""
    models = home / "agent" / "models"
    program = (
        f"import os, pathlib\n{NEW_NAMESPACE}\nhome = pathlib.Path({str(home)!r})\n{textwrap.dedent(source)}"
    )

    async def run() -> str:
        prefix = await mounts.entering(
            (Mount(models, str(models), read_only=True),), tmp_path / "run", (), (home / "agent", home)
        )
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

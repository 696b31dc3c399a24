import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from modelplane.api.rejected import Rejected
from modelplane.kubelet.cannot_start import WaitingReason
from modelplane.kubelet.volumes import mounts
from modelplane.kubelet.volumes.mounts import KernelSettings, Mount

OPEN = KernelSettings(clone=None, apparmor=None, most="96365", seccomp="0")


@pytest.mark.parametrize(
    ("mount", "needed"),
    [
        pytest.param(Mount(Path("/data"), "/models", read_only=False), True, id="something elsewhere"),
        pytest.param(Mount(Path("/data"), "/data", read_only=False), False, id="what is there anyway"),
        pytest.param(Mount(Path("/data"), "/data", read_only=True), True, id="the same, only to be read"),
        pytest.param(
            Mount(Path("/dev/shm"), "/dev/shm", read_only=False, in_memory=True), False, id="shared memory"
        ),
    ],
)
def test_when_a_namespace_is_needed(mount: Mount, needed: bool) -> None:
    assert mounts.must_have_namespace((mount,)) is needed


def test_no_mount_needs_none() -> None:
    assert mounts.must_have_namespace(()) is False


@pytest.mark.parametrize(
    ("settings", "why", "remedy"),
    [
        pytest.param(
            replace(OPEN, clone="0"),
            "the kernel allows private mounts only for root, because kernel.unprivileged_userns_clone is 0",
            "set it with `sudo sysctl -w kernel.unprivileged_userns_clone=1`",
            id="Debian's setting",
        ),
        pytest.param(
            replace(OPEN, apparmor="1"),
            "the kernel allows private mounts only for root, because "
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            "set it with `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
            id="Ubuntu's setting",
        ),
        pytest.param(
            replace(OPEN, most="0"),
            "the kernel allows private mounts only for root, because user.max_user_namespaces is 0",
            "set it with `sudo sysctl -w user.max_user_namespaces=15000`",
            id="Red Hat's setting",
        ),
        pytest.param(
            replace(OPEN, seccomp="2", apparmor="1"),
            "a system call filter, such as a container runtime's, forbids mounts",
            "run Modelplane outside of the container, or give the container CAP_SYS_ADMIN and an unconfined "
            "profile",
            id="in a container, whatever else the machine says",
        ),
        pytest.param(
            OPEN,
            "the kernel does not allow private mounts for this user",
            "allow unprivileged user namespaces in the kernel",
            id="nothing that is known",
        ),
    ],
)
def test_a_refusal_names_the_setting_and_what_to_do(settings: KernelSettings, why: str, remedy: str) -> None:
    refused = Rejected(WaitingReason.NAMESPACE_REFUSED, detail=f"{why} (cannot enter)", remedy=remedy)
    assert mounts.refuse_namespace("cannot enter", settings) == refused


def test_a_program_with_mounts_has_a_tmp_of_its_own_but_for_what_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    (tmp_path / "data").mkdir()
    wanted = (Mount(tmp_path / "data", "/models-of-a-test", read_only=True),)

    async def run() -> str:
        before = await mounts.build_prefix(wanted, tmp_path / "run", (tmp_path / "shown",))
        assert isinstance(before, tuple)
        source = f"""if True:
            import os, pathlib
            print(os.path.exists("{tmp_path}/shown"), os.path.exists("{tmp_path}/data"))
            print(os.listdir("/models-of-a-test"))
            pathlib.Path("/tmp/made-by-a-test").touch()
        """
        program = [*before, sys.executable, "-c", source]
        done = await asyncio.to_thread(subprocess.run, program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for _ in range(2):
        assert asyncio.run(run()) == "True False\n[]\n"
        assert (tmp_path / "run" / "tmp" / "made-by-a-test").exists()
    assert not Path("/tmp/made-by-a-test").exists()


def test_what_cannot_be_mounted_is_known_before_the_program_runs(tmp_path: Path) -> None:
    missing = Mount(tmp_path / "missing", "/models-of-a-test", read_only=True)
    fault = f'cannot open "{tmp_path}/missing": No such file or directory'
    rejected = Rejected(WaitingReason.MOUNT_FAILED, detail=fault)
    assert asyncio.run(mounts.build_prefix((missing,), tmp_path / "run", ())) == rejected

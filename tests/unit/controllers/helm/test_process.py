"""Processes of Helm: what they get, and how they end."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from modelplane.controllers.helm import helm_program
from modelplane.controllers.helm.helm_program import HelmFailed, Program

STAND_IN = """\
import json, os, stat, sys, time
kubeconfig = os.environ["KUBECONFIG"]
seen = {
    "arguments": sys.argv[2:],
    "values": json.load(sys.stdin),
    "kubeconfig": json.load(open(kubeconfig)),
    "mode": stat.S_IMODE(os.stat(kubeconfig).st_mode),
    "folder": stat.S_IMODE(os.stat(os.environ["HOME"]).st_mode),
    "environment": dict(os.environ),
    "pid": os.getpid(),
}
json.dump(seen, open(sys.argv[1] + ".new", "w"))
os.rename(sys.argv[1] + ".new", sys.argv[1])
if "fail" in sys.argv:
    sys.exit("level=WARN msg=old\\nError: UPGRADE FAILED: the chart says no\\nin two lines")
if "stay" in sys.argv:
    time.sleep(60)
"""


@pytest.fixture
def helm(tmp_path: Path) -> Program:
    """A program in the place of helm, which notes what it gets in the file ``seen``."""
    program = tmp_path / "helm.py"
    program.write_text(STAND_IN)
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    return Program((sys.executable, str(program), str(tmp_path / "seen")), downloads)


async def _run(helm: Program, *arguments: str, limit_s: float = 60) -> None:
    access, values = {"users": ["secret"]}, {"password": "hunter2"}
    await helm_program.run_helm(helm, arguments, access, values, limit_s=limit_s)


def _seen(tmp_path: Path) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads((tmp_path / "seen").read_text())
    return seen


async def test_secrets_are_in_private_files_and_on_standard_input(
    helm: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELM_KUBETOKEN", "another")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com")
    await _run(helm, "upgrade")
    seen = _seen(tmp_path)
    assert (seen["arguments"], seen["values"]) == (["upgrade"], {"password": "hunter2"})
    assert (seen["kubeconfig"], seen["mode"], seen["folder"]) == ({"users": ["secret"]}, 0o600, 0o700)
    environment = seen["environment"]
    assert environment["HTTPS_PROXY"] == "http://proxy.example.com"
    assert "HELM_KUBETOKEN" not in environment
    own = {name for name, value in environment.items() if value.startswith(environment["HOME"])}
    assert own >= {"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR", "TMPDIR"}
    assert Path(environment["HOME"]).parent == tmp_path / "downloads"
    assert not environment["KUBECONFIG"].startswith(environment["HOME"]), "what is private may be in memory"
    assert not os.access(environment["HOME"], os.F_OK), "nothing stays"


async def test_the_error_is_helms_own(helm: Program) -> None:
    with pytest.raises(HelmFailed, match=r"^UPGRADE FAILED: the chart says no\nin two lines$"):
        await _run(helm, "fail")


async def _begun(tmp_path: Path) -> int:
    while not (tmp_path / "seen").exists():
        await asyncio.sleep(0.02)
    return int(_seen(tmp_path)["pid"])


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_process_that_is_killed_is_a_failure(helm: Program, tmp_path: Path) -> None:
    running = asyncio.create_task(_run(helm, "stay"))
    os.kill(await _begun(tmp_path), signal.SIGKILL)
    with pytest.raises(HelmFailed, match="it was killed by signal 9"):
        await running


async def test_a_process_ends_in_time(helm: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helm_program, "_GRACE_S", 0.0)
    with pytest.raises(HelmFailed, match="it did not end in 2 s and was stopped"):
        await _run(helm, "stay", limit_s=2)
    # On a busy machine it may not even have begun.
    assert not os.access(tmp_path / "seen", os.F_OK) or not _runs(_seen(tmp_path)["pid"])


async def test_a_process_ends_with_what_waits_for_it(helm: Program, tmp_path: Path) -> None:
    running = asyncio.create_task(_run(helm, "stay"))
    pid = await _begun(tmp_path)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not _runs(pid)


async def test_a_process_does_not_outlive_a_controller_that_is_killed(helm: Program, tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from modelplane.controllers.helm.helm_program import Program, run_helm; "
        "asyncio.run(run_helm(Program(tuple(sys.argv[1:])), ('stay',), {}, {}, limit_s=60))"
    )
    controller = await asyncio.create_subprocess_exec(sys.executable, "-c", program, *helm.line)
    pid = await _begun(tmp_path)
    controller.kill()
    await controller.wait()
    async with asyncio.timeout(30):
        while _runs(pid):
            await asyncio.sleep(0.02)

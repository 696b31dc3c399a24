"""``make containers`` says why it runs nothing: programs are missing, or the machine runs no containers."""

import resource
import tomllib
from pathlib import Path

import pytest

from support import podman

REFUSED = "Error: runc: runc create failed: error setting rlimit type 6: operation not permitted"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(podman, "_write_image", lambda path, _scratch: path.touch())
    return folder


def put(folder: Path, name: str, script: str = "") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("present", "missing"), [((), "podman runc"), (("podman",), "runc"), (("runc",), "podman")], ids=str
)
def test_missing_programs_are_named_with_the_command_that_installs_them(
    path: Path, capsys: pytest.CaptureFixture[str], present: tuple[str, ...], missing: str
) -> None:
    for name in present:
        put(path, name)
    assert podman.main() == 1
    assert capsys.readouterr().out == (
        f"Missing: {missing}. On Debian: apt-get install --no-install-recommends {missing}\n"
    )


def test_a_machine_that_runs_no_containers_is_told_the_error_and_the_needs(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(path, "runc")
    put(path, "podman", f'[ "$1" != run ] || {{ echo "{REFUSED}" >&2; exit 126; }}')
    assert podman.main() == 1
    assert capsys.readouterr().out == f"This machine runs no containers: {REFUSED}\n\n{podman.NEEDS}\n"


def test_the_limits_of_containers_are_within_those_of_the_machine(path: Path, tmp_path: Path) -> None:
    put(path, "podman")
    podman.Podman(tmp_path).prepare()
    written = tomllib.loads((tmp_path / "containers.conf").read_text())
    limits = dict(entry.split("=") for entry in written["containers"]["default_ulimits"])
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert limits["nofile"] == f"{files}:{files}"
    processes = int(limits["nproc"].partition(":")[0])
    assert processes <= int(Path("/proc/sys/kernel/pid_max").read_text())
    assert written["engine"]["runtime"] == "runc"

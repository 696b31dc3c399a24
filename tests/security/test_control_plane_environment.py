"""Secrets of the user's environment, and the programs of the control plane."""

import os
import sys
from pathlib import Path

import pytest

from modelplane.local.home import Home
from modelplane.local.ports import Ports
from modelplane.local.settings import LocalSettings
from modelplane.local.supervision import processes, spawn
from modelplane.local.supervision.processes import CONTROL_PLANE, Lived, Process


def test_a_program_of_the_control_plane_gets_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "ETCD_LISTEN_CLIENT_URLS",
        "LD_PRELOAD_X",
        "HTTPS_PROXY",
    ):
        monkeypatch.setenv(name, "secret")
    home = Home(tmp_path)
    home.create()
    source = "import os; print(sorted(os.environ))"
    argv = (sys.executable, "-I", "-c", source)
    pid = spawn.start(
        home, Process("etcd", argv, tmp_path, Lived(1), environment={"GOGC": "30"}, own_environment=True)
    )
    assert os.waitpid(pid, 0)[1] == 0
    said = home.log("etcd").read_text()
    assert "'GOGC'" in said
    assert "'PATH'" in said
    for name in ("HF_TOKEN", "AWS", "ETCD", "LD_", "PROXY"):
        assert name not in said


def test_these_programs_are_all_of_the_control_planes(tmp_path: Path) -> None:
    table = processes.build_table(Home(tmp_path), LocalSettings(Ports()), tmp_path / "binary")
    found = {each.name for each in table if each.own_environment}
    assert found == {each.name for each in table if each.name.endswith(CONTROL_PLANE)}
    assert len(found) > 1

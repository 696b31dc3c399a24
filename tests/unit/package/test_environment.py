"""The script that installs Modelplane for ``make``: what it shows, waits for and explains."""

import fcntl
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "package" / "environment.py"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "package"))
    return importlib.import_module("environment")


@pytest.mark.parametrize(
    "printed",
    [
        "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by NewConnectionError\n",
        "ERROR: Could not find a version that satisfies the requirement hatchling (from versions: none)\n",
    ],
    ids=["no connection", "an index that answers nothing"],
)
def test_without_a_network_one_sentence_says_so(environment: Any, printed: str) -> None:
    problem = environment.explain(f"Obtaining file:///checkout\n{printed}", Path(".venv"))
    assert "pip got no answer from the package index. Check the network connection" in problem
    assert "\n" not in problem


def test_another_failure_shows_the_end_of_what_pip_printed(environment: Any) -> None:
    lines = [f"line {number}" for number in range(20)]
    problem = environment.explain("\n".join(lines), Path(".venv"))
    assert problem.splitlines()[1:] == [f"  {line}" for line in lines[-8:]]


def test_without_the_venv_module_the_package_to_install_is_named(
    environment: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "absent"))
    assert "install the venv module of Python (python3-venv" in environment.install(tmp_path / "v", "local")


def test_a_second_run_waits_and_does_not_install_again(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    stamp = tmp_path / ".runs"
    with (tmp_path / "pyproject.toml").open() as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        command = [sys.executable, str(SCRIPT), str(stamp), "local"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert second.stdout.readline() == f"Waiting for another make that installs into {tmp_path}\n"
            stamp.touch()
            fcntl.flock(first, fcntl.LOCK_UN)
            assert (second.wait(), second.stdout.read()) == (0, "")

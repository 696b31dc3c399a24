"""The wheel that carries the binary, installed where there is neither Go nor a repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.kubernetes

FIND = "from modelplane.local import binary; print(binary.find())"


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(each) for each in command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_binary_of_an_installed_wheel_is_found_and_runs(kubernetes_binary: Path, tmp_path: Path) -> None:
    named = os.environ | {"MODELPLANE_KUBERNETES_BINARY": str(kubernetes_binary)}
    run(sys.executable, ROOT / "package" / "wheel.py", tmp_path / "dist", **named)
    (wheel,) = (tmp_path / "dist").iterdir()
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site)
    run(*pip, wheel, **os.environ)
    alone = {"PYTHONPATH": str(site), "HOME": str(tmp_path), "PATH": ""}
    found = Path(run(sys.executable, "-P", "-c", FIND, **alone).strip())
    assert found == site / "modelplane" / "_bin" / "modelplane-kubernetes"
    assert found.read_bytes() == kubernetes_binary.read_bytes()
    assert "v1.35.4" in run(found, "kube-apiserver", "--version", **alone)

"""The steps by which the image gets Modelplane, run as the Containerfile has them, without a container.

Not the base image, the binary of the control plane and the gateway module, which other tests build.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modelplane import __version__

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).parents[2]
STAGE = (ROOT / "package" / "Containerfile").read_text().split("FROM ")[1]
LINES = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", STAGE, flags=re.MULTILINE)).splitlines()
OF_THE_BINARY = "python package/image_binary.py"


def of(instruction: str) -> list[str]:
    return [rest for name, _, rest in (line.partition(" ") for line in LINES) if name == instruction]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the last stage of the image copies."""
    folder = tmp_path_factory.mktemp("image")
    source = folder / "source"
    for copy in of("COPY"):
        *names, target = shlex.split(copy)
        for name in names:
            path = ROOT / name
            place = source / target / ("" if path.is_dir() else path.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, place, dirs_exist_ok=True)
            else:
                shutil.copy(path, place)
    subprocess.run([sys.executable, "-m", "venv", folder / "base"], check=True)
    [run] = of("RUN")
    steps = [each.strip() for each in run.split("&&") if OF_THE_BINARY not in each]
    assert len(steps) == 6
    script = (
        " && ".join(steps).replace("/opt/modelplane", f"{folder}/opt").replace("/wheels", f"{folder}/wheels")
    )
    programs = f"{folder}/base/bin:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=source,
        env={**os.environ, "PATH": programs},
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to establish a new connection" in done.stderr:
        pytest.skip("the registry of Python packages does not answer")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "opt"


def test_it_has_modelplane_and_nothing_that_the_lock_does_not_have(installed: Path) -> None:
    listed = ["-m", "pip", "--python", f"{installed}/bin/python", "freeze", "--all"]
    frozen = subprocess.run([sys.executable, *listed], check=True, capture_output=True, text=True).stdout
    found = {*frozen.splitlines()} - {f"modelplane=={__version__}"}
    locked = (ROOT / "package" / "locks" / "image.txt").read_text().lower()
    assert {each for each in found if f"{each.lower().replace('_', '-')} " not in locked} == set()


@pytest.mark.parametrize("command", ["controller", "gateway", "function"])
def test_each_program_of_the_image_starts(installed: Path, command: str) -> None:
    environment = {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    program = f"{installed}/bin/modelplane"
    shown = subprocess.run(
        [program, command, "--help"], env=environment, cwd="/", check=True, capture_output=True, text=True
    )
    assert f"modelplane {command}" in shown.stdout
    version = subprocess.run(
        [program, "--version"], env=environment, check=True, capture_output=True, text=True
    )
    assert __version__ in version.stdout

"""A wheel carries the documentation, and the files that an image is built from suffice for it."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from modelplane.mcp import documentation_tools

ROOT = Path(__file__).parents[3]
PRINT = (
    "import json; from modelplane.mcp.documentation_tools import load_pages, load_skills; "
    "print(json.dumps([load_pages(), load_skills()]))"
)


def build(source: Path, directory: Path) -> Path:
    """Build the wheel without the binary."""
    without = {name: value for name, value in os.environ.items() if not name.startswith("MODELPLANE_WHEEL_")}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    done = subprocess.run(command, cwd=source, env=without, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


def test_a_wheel_has_the_pages_and_the_skills_of_the_repository(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    printed = subprocess.check_output(
        [sys.executable, "-P", "-c", PRINT], env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, text=True
    )
    assert json.loads(printed) == [documentation_tools.load_pages(), documentation_tools.load_skills()]


def test_the_files_that_an_image_is_built_from_make_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    _, _, stages = (ROOT / "package" / "Containerfile").read_text().partition(" AS build\n")
    copied = re.findall(r"^COPY (.+) \S+$", stages.partition("\nFROM")[0], re.MULTILINE)
    for names in (*copied, ".gitignore"):
        for name in names.split():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                shutil.copytree(ROOT / name, path, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, path)
    with zipfile.ZipFile(wheel) as expected, zipfile.ZipFile(build(source, tmp_path / "dist")) as found:
        assert set(found.namelist()) == set(expected.namelist())

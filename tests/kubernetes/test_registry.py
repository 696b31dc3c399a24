"""Packages in a real registry: go-containerregistry's, with which Crossplane reads them, and its client."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from modelplane import __version__
from modelplane.crossplane.package.building import Built, build
from modelplane.crossplane.package.metadata import Registry, Version
from modelplane.crossplane.package.package_contents import configuration, function
from modelplane.local.build import compute_key, find_cache, hold_build
from support.packages import small_runtime
from support.transcripts import Step, check_outputs, read_page

pytestmark = pytest.mark.kubernetes

CRANE = "github.com/google/go-containerregistry/cmd/crane"
REGISTRY = "registry.example.org"
"""The registry of the page."""
MODULE = Path(__file__).parents[1] / "registry"
"""Go module that pins its version."""
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "crossplane-packages.md"
BUILD, PUSH, PUSH_FOR_TWO_MACHINES = read_page(PAGE)


@pytest.fixture(scope="module")
def crane() -> Path:
    """The registry and its client, built once for each version."""
    key = compute_key(MODULE, frozenset({".mod", ".sum"}), ())
    program = find_cache() / f"crane-{key}" / "crane"
    with hold_build(program.parent, lambda _progress: None):
        if not program.exists():
            subprocess.run(["go", "build", "-o", str(program), CRANE], cwd=MODULE, check=True)
    return program


@pytest.fixture
def address(crane: Path) -> Iterator[str]:
    command = [str(crane), "registry", "serve", "--address", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr
        try:
            told = serving.stderr.readline()
            found = re.search(r"127\.0\.0\.1:\d+|port (\d+)", told)
            assert found, told
            yield f"127.0.0.1:{found[1]}" if found[1] else found[0]
        finally:
            serving.terminate()


@dataclass
class Shell:
    """Runs commands in a folder that has the packages of a version, with crane on the path."""

    folder: Path
    crane: Path

    def run(self, command: str) -> str:
        path = f"{self.crane.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", command],
            cwd=self.folder,
            env=os.environ | {"DOCKER_CONFIG": str(self.folder), "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def follow(self, steps: Sequence[Step], address: str) -> str:
        """Run steps of the page with a registry, and compare their outputs with the page's."""
        outputs = tuple(
            self.run(step.command.replace(REGISTRY, address)).replace(address, REGISTRY) for step in steps
        )
        check_outputs(PAGE, steps, outputs)
        return "\n".join(outputs)


@pytest.fixture
def shell(crane: Path, tmp_path: Path) -> Shell:
    return Shell(tmp_path, crane)


@pytest.fixture
def packages(address: str, tmp_path: Path) -> dict[str, Built]:
    """The packages of the page, by repository."""
    registry, version = Registry(f"{address}/ai/modelplane"), Version(__version__)
    contents = (configuration(registry, version), function())
    built = (build(each, registry, version, tmp_path / "packages", small_runtime) for each in contents)
    return {each.address.rpartition("/")[2]: each for each in built}


def test_the_command_of_the_page_builds_every_package(shell: Shell) -> None:
    program = shlex.join((sys.executable, "-m", "modelplane.cli.main"))
    [step] = BUILD
    check_outputs(PAGE, BUILD, [shell.run(step.command.replace("modelplane", program, 1))])


def test_the_commands_of_the_page_push_what_was_built(
    shell: Shell, address: str, packages: dict[str, Built]
) -> None:
    printed = shell.follow(PUSH, address)
    assert printed.splitlines()[-1] == packages["function"].digest
    for name, built in packages.items():
        pushed = f"{address}/ai/modelplane/{name}:v{__version__}"
        assert shell.run(f"crane digest {pushed}") == built.digest
        assert shell.run(f"crane validate --remote {pushed}").startswith("PASS")
        layers = json.loads(shell.run(f"crane manifest {pushed}"))["layers"]
        assert layers[-1]["annotations"] == {"io.crossplane.xpkg": "base"}


def test_the_commands_of_the_page_push_one_package_for_two_machines(
    shell: Shell, address: str, packages: dict[str, Built]
) -> None:
    for machine in ("amd64", "arm64"):
        (shell.folder / machine).mkdir()
        shutil.copy(packages["function"].path, shell.folder / machine)
    shell.follow(PUSH_FOR_TWO_MACHINES, address)
    index = json.loads(shell.run(f"crane manifest {address}/ai/modelplane/function:v{__version__}"))
    assert [each["digest"] for each in index["manifests"]] == [packages["function"].digest] * 2


def test_a_package_is_also_the_archive_that_crossplanes_command_line_reads(
    shell: Shell, address: str, packages: dict[str, Built]
) -> None:
    pushed = f"{address}/ai/modelplane/function:archive"
    shell.run(f"crane push {packages['function'].path} {pushed}")
    [*_, package] = json.loads(shell.run(f"crane manifest {pushed}"))["layers"]
    labels = json.loads(shell.run(f"crane config {pushed}"))["config"]["Labels"]
    # From this label, its `xpkg push` restores the layer's annotation.
    assert labels[f"io.crossplane.xpkg:{package['digest']}"] == "base"

"""Packages in a real registry: go-containerregistry's, with which Crossplane reads them, and its client."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.crossplane.package.building import build
from modelplane.crossplane.package.images.inspection import inspect
from modelplane.crossplane.package.package_addresses import Registry
from modelplane.crossplane.package.package_contents import function
from modelplane.local.builds.build import compute_key, find_cache, hold_build
from support.packages import VERSION, small_runtime

pytestmark = pytest.mark.kubernetes

CRANE = "github.com/google/go-containerregistry/cmd/crane"
MODULE = Path(__file__).parents[1] / "registry"
"""Go module that pins its version."""


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


def test_what_is_pushed_is_what_another_client_pulls(crane: Path, address: str, tmp_path: Path) -> None:
    built = build(function(), Registry(), VERSION, tmp_path, small_runtime)
    name = f"{address}/ai/function"

    def asked(*arguments: str) -> str:
        done = subprocess.run(
            [crane, *arguments],
            env=os.environ | {"DOCKER_CONFIG": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    pushed = CliRunner().invoke(main, ["package", "push", str(built.path), name])
    assert pushed.exit_code == 0, pushed.output
    assert asked("digest", f"{name}:v1.2.3") == built.digest
    assert asked("validate", "--remote", f"{name}:v1.2.3").startswith("PASS")
    asked("pull", "--format=oci", f"{name}:v1.2.3", str(tmp_path / "pulled"))
    pulled, original = inspect(tmp_path / "pulled"), inspect(built.path)
    assert (pulled.digest, pulled.layers) == (built.digest, original.layers)
    again = CliRunner().invoke(main, ["package", "push", str(built.path), name])
    assert again.output.startswith(f"{name}:v1.2.3: there already")

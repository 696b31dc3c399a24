"""The hook for pre-commit runs a program of the package, which judges changed files."""

import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from modelplane.cli.main import main
from support.manifests import DEPLOYMENT

ROOT = Path(__file__).resolve().parents[2]
[HOOK] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
VALUES = "# a chart that installs modelplane.ai\nreplicas: 2\n"


def test_the_hook_runs_a_program_of_the_package() -> None:
    program, *_ = shlex.split(HOOK["entry"])
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert (HOOK["id"], HOOK["language"], HOOK["types"]) == ("modelplane-validate", "python", ["yaml"])
    assert program in scripts


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        pytest.param(DEPLOYMENT, 0, "1 object valid, 1 file", id="a manifest"),
        pytest.param(DEPLOYMENT.replace("  replicas", "  replica"), 1, "spec.replica", id="a typo"),
        pytest.param("kind: {{ .Values.kind }}\n", 0, "0 files", id="a template of a chart of others"),
        pytest.param("replicas: 2\n", 0, "0 files", id="values"),
        pytest.param(VALUES, 0, "1 document without", id="values with our name in a comment"),
    ],
)
def test_the_hook_judges_changed_files(tmp_path: Path, text: str, status: int, said: str) -> None:
    file = tmp_path / "changed.yaml"
    file.write_text(text)
    _, *arguments = shlex.split(HOOK["entry"])
    result = CliRunner().invoke(main, [*arguments, str(file)])
    assert (result.exit_code, said in result.output) == (status, True), result.output

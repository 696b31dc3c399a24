"""The script of the example for pull requests runs, and the workflow calls it as it is."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.manifests import CLASS, DEPLOYMENT, cluster, joined

GITOPS = Path(__file__).parents[2] / "examples" / "gitops"
SCRIPT = GITOPS / "compare-plans.sh"
PRICED = f"{CLASS}  pricing: {{currency: USD, devices: [{{name: gpu, perHour: '2.50'}}]}}\n"
MORE = DEPLOYMENT.replace("replicas: 1", "replicas: 2")
MOST = DEPLOYMENT.replace("replicas: 1", "replicas: 3")
WRONG = DEPLOYMENT.replace("replicas: 1", "replica: 1")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "fleet.yaml").write_text(joined(PRICED, cluster("west")))
    return tmp_path


def compared(repository: Path, before: str, after: str) -> tuple[int, list[str]]:
    """Run the script on two folders; return its status, and what it printed without repeated blanks."""
    for name, text in (("base", before), ("head", after)):
        if text:
            (repository / name).mkdir()
            (repository / name / "deployment.yaml").write_text(text)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", str(SCRIPT), "base", "head", "--fleet", "fleet"],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_a_change_is_a_comment_with_replicas_and_cost(repository: Path) -> None:
    status, lines = compared(repository, DEPLOYMENT, MORE)
    assert (status, lines[:4]) == (0, ["<!-- modelplane plan -->", "### Plan", "", "1 deployment: 1 changed"])
    assert "ml-team/qwen changed 1 -> 2 1 -> 2 2.50 USD -> 5.00 USD" in lines
    assert "ml-team/qwen west pool 1 2" in lines


def test_a_replica_without_a_place_is_in_the_title_and_the_status(repository: Path) -> None:
    status, lines = compared(repository, DEPLOYMENT, MOST)
    assert (status, lines[1]) == (2, "### Plan: not every replica has a place")
    assert any(line.startswith('ModelDeployment "ml-team/qwen": 2 of 3 replicas placed') for line in lines)


def test_invalid_manifests_are_told_in_the_comment(repository: Path) -> None:
    status, lines = compared(repository, DEPLOYMENT, WRONG)
    assert (status, lines[1]) == (1, "### Plan: the manifests are invalid")
    assert any("spec.replica: unknown field" in line for line in lines)


def test_a_folder_that_is_new_is_planned_as_it_is(repository: Path) -> None:
    status, lines = compared(repository, "", DEPLOYMENT)
    assert (status, lines[3]) == (0, "1 of 1 replicas placed")


def test_text_of_manifests_stays_text_in_markdown(repository: Path) -> None:
    compared(repository, DEPLOYMENT, MOST)
    text = subprocess.run(
        ["sh", str(SCRIPT), "base", "head", "--fleet", "fleet"],
        cwd=repository,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    _, _, _, *plan = text.splitlines()
    assert [line for line in plan if not line.startswith("    ")] == []


def test_the_workflow_runs_the_script_of_the_base() -> None:
    workflow = yaml.safe_load((GITOPS / "github-pull-request.yml").read_text())
    steps = workflow["jobs"]["plan"]["steps"]
    [run] = [each["run"] for each in steps if "compare-plans" in each.get("run", "")]
    [words] = [shlex.split(line) for line in run.splitlines() if line.startswith("base/")]
    assert words[:5] == [
        "base/.github/workflows/compare-plans.sh",
        "base/deployments",
        "head/deployments",
        "--fleet",
        "head/fleet",
    ]
    assert os.access(SCRIPT, os.X_OK)

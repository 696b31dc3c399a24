"""The wheel that carries the binary, installed where there is neither Go nor a repository."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.transcripts import check_outputs, lines_for_a_shell, read_page, split_output, write_script

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.kubernetes

KUBECTL = 'kubectl() { modelplane kubectl "$@"; }'
"""For a reader without kubectl."""

FIND = "from modelplane.local import binary; print(binary.find())"


def run(*command: object, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A user with an empty directory, a virtual environment, and no kubectl."""

    environment: Path
    folder: Path
    home: Path

    @property
    def variables(self) -> dict[str, str]:
        """Nothing of what the tests run in, but the system's own programs."""
        return {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin"}

    def modelplane(self, *arguments: str) -> str:
        """Run the installed command by its path, as the README does."""
        return run(self.environment / "bin" / "modelplane", *arguments, cwd=self.folder, **self.variables)

    def paste(self, *lines: str) -> str:
        """Run lines in a new shell, and return what they print."""
        return run("bash", "-euo", "pipefail", "-c", "\n".join(lines), cwd=self.folder, **self.variables)


@pytest.fixture(scope="module")
def wheel(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    named = os.environ | {"MODELPLANE_KUBERNETES_BINARY": str(kubernetes_binary)}
    run(sys.executable, ROOT / "package" / "wheel.py", folder, **named)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment in which the wheel is installed."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, **os.environ)
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", wheel, **os.environ)
    # The dependencies are those of this environment. Of a path in a .pth file, no .pth file is read: the
    # editable installation stays out.
    (packages,) = (environment / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    found = run(environment / "bin" / "python", "-c", "import modelplane; print(modelplane.__file__)")
    assert found.startswith(str(packages))
    return environment


@pytest.fixture
def newcomer(environment: Path, tmp_path: Path) -> Iterator[Newcomer]:
    (tmp_path / "empty").mkdir()
    (tmp_path / "home").mkdir()
    reader = Newcomer(environment, tmp_path / "empty", tmp_path / "home")
    yield reader
    reader.modelplane("down", "--purge")


def reaching(lines: list[str]) -> list[str]:
    """Return those of the lines with which another terminal reaches the fleet."""
    return [line for line in lines if line.startswith(("source", "export"))]


def lines_to_paste(printed: str, heading: str) -> list[str]:
    """Return the lines that ``up`` prints below a heading."""
    _, found, rest = printed.partition(f"\n{heading}:\n\n")
    assert found, printed
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines()]


def without_prefix(line: str) -> str:
    return line.replace("modelplane kubectl", "kubectl")


def test_the_binary_of_an_installed_wheel_is_found_and_runs(
    wheel: Path, kubernetes_binary: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    run(*pip, "--target", site, wheel, **os.environ)
    alone = {"PYTHONPATH": str(site), "HOME": str(tmp_path), "PATH": ""}
    found = Path(run(sys.executable, "-P", "-c", FIND, **alone).strip())
    assert found == site / "modelplane" / "_bin" / "modelplane-kubernetes"
    assert found.read_bytes() == kubernetes_binary.read_bytes()
    assert "v1.35.4" in run(found, "kube-apiserver", "--version", **alone)


def test_in_an_empty_directory_the_lines_that_up_prints_lead_to_an_answer(newcomer: Newcomer) -> None:
    printed = newcomer.modelplane("up", "--timeout", "5m")
    lines = lines_to_paste(printed, "Deploy a model and ask it a question")
    assert lines[0] == f"source {newcomer.environment}/bin/activate"
    readme = ROOT / "README.md"
    _make_up, _activate, *steps = read_page(readme)[0]
    # Where there is a kubectl of its own, `up` prints that.
    assert [without_prefix(step.command) for step in steps] == list(map(without_prefix, lines[1:]))
    told = newcomer.paste(lines[0], write_script(steps))
    assert "Paris" in told
    check_outputs(readme, steps, split_output(steps, told))
    assert list(newcomer.folder.iterdir()) == []
    reached = [*reaching(lines), KUBECTL]
    [start] = lines_for_a_shell(ROOT / "docs" / "README.md")
    make_up, *rest = start.splitlines()
    assert make_up == "make up && source .venv/bin/activate", "which the wheel's `up` stands for"
    assert "Paris" in newcomer.paste(*reached, *rest)
    newcomer.paste(*reached, "modelplane example --dir examples")
    page = newcomer.folder / "examples" / "01-first-answer" / "README.md"
    # A variable of one step is used in the next.
    (make_up, *_), *blocks = read_page(page)
    steps = [step for block in blocks for step in block]
    told = newcomer.paste(*reached, write_script(steps))
    page = ROOT / "examples" / "01-first-answer" / "README.md"
    check_outputs(page, [make_up], [printed.replace(str(newcomer.home), "~")])
    check_outputs(page, steps, split_output(steps, told))
    assert '"role":"assistant"' in told
    assert "modeldeployment.modelplane.ai/gemma scaled" in told
    assert "modeldeployment.modelplane.ai/gemma patched" in told
    assert 'modelservice.modelplane.ai "first-answer" deleted' in told
    assert newcomer.modelplane("down", "--purge")
    assert not (newcomer.home / ".local" / "share" / "modelplane").exists()


def test_in_an_empty_directory_the_tour_begins_as_up_prints_it_and_goes_on_by_its_pages(
    newcomer: Newcomer,
) -> None:
    printed = newcomer.modelplane("up", "--clusters", "3", "--no-register", "--timeout", "5m")
    shell = lines_to_paste(printed, "Register your first cluster")
    told = newcomer.paste(*shell, "modelplane example --dir examples")
    assert "inferencecluster.modelplane.ai/us-east condition met" in told
    page = newcomer.folder / "examples" / "03-deploying-a-model" / "README.md"
    assert page.name in printed
    told = newcomer.paste(*reaching(shell), KUBECTL, *lines_for_a_shell(page))
    assert "allocated,reserved" in told
    assert '"role":"assistant"' in told

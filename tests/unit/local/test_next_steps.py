import shutil
import sys
from pathlib import Path

import pytest

from modelplane.local.home import Home, home_directory
from modelplane.local.next_steps import next_steps
from modelplane.local.ports import Ports
from modelplane.local.settings import Settings

ROOT = Path(__file__).parents[3]
REGISTERED = Settings(Ports())


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The programs that a shell would find, by name; all beside the interpreter."""
    found: set[str] = set()
    beside = Path(sys.executable).parent
    monkeypatch.setattr(shutil, "which", lambda name: str(beside / name) if name in found else None)
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("MODELPLANE_HOME", raising=False)
    return found


def test_with_everything_at_hand_the_lines_are_plain(on_path: set[str]) -> None:
    on_path |= {"modelplane", "kubectl"}
    assert next_steps(home_directory(None), REGISTERED).splitlines()[2:] == [
        "  export KUBECONFIG=$(modelplane kubeconfig)",
        "  kubectl apply -f examples/01-first-answer/",
        "  kubectl wait --for=condition=Ready ms/first-answer -n ml-team --timeout=2m",
        '  modelplane chat first-answer -n ml-team "What is the capital of France?"',
    ]


def test_without_kubectl_ours_is_used(on_path: set[str]) -> None:
    on_path.add("modelplane")
    assert "  modelplane kubectl apply -f examples/01-first-answer/" in next_steps(
        home_directory(None), REGISTERED
    )


def test_a_command_that_the_shell_cannot_find_is_made_findable_first(on_path: set[str]) -> None:
    on_path.add("kubectl")
    first = next_steps(home_directory(None), REGISTERED).splitlines()[2].split()
    assert first[0] in {"source", "export"}
    assert str(Path(sys.executable).parent.name) in first[1]


def test_a_home_of_ones_own_is_named(on_path: set[str]) -> None:
    on_path |= {"modelplane", "kubectl"}
    assert (
        "  export MODELPLANE_HOME='/tmp/my fleet'"
        in next_steps(Home(Path("/tmp/my fleet")), REGISTERED).splitlines()
    )


def test_a_home_named_by_the_variable_is_named_again(
    on_path: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path |= {"modelplane", "kubectl"}
    monkeypatch.setenv("MODELPLANE_HOME", "/tmp/fleet")
    assert "  export MODELPLANE_HOME=/tmp/fleet" in next_steps(home_directory(None), REGISTERED).splitlines()


def test_for_another_terminal_everything_is_said_by_its_whole_path(on_path: set[str]) -> None:
    on_path |= {"modelplane", "kubectl"}
    heading, _, first, *_rest = next_steps(home_directory(None), REGISTERED, elsewhere=True).splitlines()
    assert heading == "Deploy a model and ask it something, in another terminal:"
    assert first.split()[0] in {"source", "export"}
    assert str(Path(sys.executable).parent) in first
    assert f"  kubectl apply -f {ROOT}/examples/01-first-answer/" in _rest


def test_from_another_folder_the_example_is_found_by_its_whole_path(
    on_path: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_path |= {"modelplane", "kubectl"}
    monkeypatch.chdir(tmp_path)
    assert f"  kubectl apply -f {ROOT}/examples/01-first-answer/" in next_steps(
        home_directory(None), REGISTERED
    )


def test_where_nothing_is_registered_that_comes_first(on_path: set[str]) -> None:
    on_path |= {"modelplane", "kubectl"}
    assert next_steps(home_directory(None), Settings(Ports(), register=False)).splitlines() == [
        "Register a first cluster:",
        "",
        "  export KUBECONFIG=$(modelplane kubeconfig)",
        "  kubectl get secrets -n modelplane-system",
        "  kubectl apply -f examples/02-build-the-platform/",
        "  kubectl wait --for=condition=Ready ic --all --timeout=1m",
    ]

import re
import shutil
import sys
from pathlib import Path

import pytest

from modelplane.local import examples
from modelplane.local.home import Home, choose_home
from modelplane.local.next_steps import Contents, describe_next_steps
from modelplane.local.ports import Ports
from modelplane.local.settings import LocalSettings

ROOT = Path(__file__).parents[3]
REGISTERED = LocalSettings(Ports())
TOUR_GOES_ON = (
    "The tour continues in examples/03-deploying-a-model/README.md. To write the pages and manifests to "
    "this directory, run `modelplane example --dir examples`."
)


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
    assert describe_next_steps(choose_home(None), REGISTERED).splitlines()[2:] == [
        "  export KUBECONFIG=$(modelplane kubeconfig)",
        "  modelplane example first-answer | kubectl apply -f -",
        "  kubectl wait --for=condition=Ready ms/first-answer -n ml-team --timeout=2m",
        '  modelplane chat first-answer -n ml-team "What is the capital of France?"',
    ]


@pytest.mark.parametrize(
    ("registers", "clusters", "deployments", "heading"),
    [
        (True, False, False, "Deploy a model and ask it a question:"),
        (False, False, False, "Register your first cluster:"),
        (False, True, False, "Deploy a model and ask it a question:"),
        (False, True, True, "See the models of this fleet:"),
        (True, True, True, "See the models of this fleet:"),
    ],
    ids=["a new fleet", "no cluster", "clusters and no model", "a lost region is back", "models"],
)
def test_the_steps_depend_on_what_the_fleet_has(
    on_path: set[str], registers: bool, clusters: bool, deployments: bool, heading: str
) -> None:
    on_path |= {"modelplane", "kubectl"}
    contents = Contents(has_clusters=clusters, has_deployments=deployments)
    steps = describe_next_steps(choose_home(None), LocalSettings(Ports(), register=registers), contents)
    assert steps.splitlines()[0] == heading


def test_without_kubectl_ours_is_used(on_path: set[str]) -> None:
    on_path.add("modelplane")
    assert "  modelplane example first-answer | modelplane kubectl apply -f -" in describe_next_steps(
        choose_home(None), REGISTERED
    )


def test_a_command_that_the_shell_cannot_find_is_made_findable_first(on_path: set[str]) -> None:
    on_path.add("kubectl")
    first = describe_next_steps(choose_home(None), REGISTERED).splitlines()[2].split()
    assert first[0] in {"source", "export"}
    assert str(Path(sys.executable).parent.name) in first[1]


def test_a_home_of_ones_own_is_named(on_path: set[str]) -> None:
    on_path |= {"modelplane", "kubectl"}
    assert (
        "  export MODELPLANE_HOME='/tmp/my fleet'"
        in describe_next_steps(Home(Path("/tmp/my fleet")), REGISTERED).splitlines()
    )


def test_a_home_named_by_the_variable_is_named_again(
    on_path: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path |= {"modelplane", "kubectl"}
    monkeypatch.setenv("MODELPLANE_HOME", "/tmp/fleet")
    assert (
        "  export MODELPLANE_HOME=/tmp/fleet"
        in describe_next_steps(choose_home(None), REGISTERED).splitlines()
    )


def test_for_another_terminal_everything_is_said_by_its_whole_path(on_path: set[str]) -> None:
    on_path |= {"modelplane", "kubectl"}
    heading, _, first, *rest = describe_next_steps(choose_home(None), REGISTERED, elsewhere=True).splitlines()
    assert heading == "Deploy a model and ask it a question, in another terminal:"
    assert first.split()[0] in {"source", "export"}
    assert str(Path(sys.executable).parent) in first
    assert "  modelplane example first-answer | kubectl apply -f -" in rest


@pytest.mark.parametrize("register", [True, False])
def test_the_lines_are_the_same_in_every_directory(
    on_path: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, register: bool
) -> None:
    on_path |= {"modelplane", "kubectl"}
    settings = LocalSettings(Ports(), register=register)
    in_the_repository = describe_next_steps(choose_home(None), settings)
    monkeypatch.chdir(tmp_path)
    assert describe_next_steps(choose_home(None), settings) == in_the_repository


@pytest.mark.parametrize("register", [True, False])
def test_every_example_named_exists(on_path: set[str], register: bool) -> None:
    on_path |= {"modelplane", "kubectl"}
    printed = describe_next_steps(choose_home(None), LocalSettings(Ports(), register=register))
    [name] = re.findall(r"modelplane example (\w[\w-]*)", printed)
    assert examples.find(name).manifests
    for page in re.findall(r"examples/(\S+\.md)", printed):
        assert (examples.find_root() / page).is_file()


def test_where_nothing_is_registered_that_comes_first(on_path: set[str]) -> None:
    on_path |= {"modelplane", "kubectl"}
    assert describe_next_steps(choose_home(None), LocalSettings(Ports(), register=False)).splitlines() == [
        "Register your first cluster:",
        "",
        "  export KUBECONFIG=$(modelplane kubeconfig)",
        "  kubectl get secrets -n modelplane-system",
        "  modelplane example build-the-platform | kubectl apply -f -",
        "  kubectl wait --for=condition=Ready ic --all --timeout=1m",
        "",
        TOUR_GOES_ON,
    ]

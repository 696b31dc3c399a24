"""How-to pages, step by step as a reader takes them, on a local fleet: they print what they show.

The table of pages, and how to add one, is in tests/support/page_runs.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelplane.api.kinds import KINDS
from modelplane.kube.resources import Object
from modelplane.local.home import Home
from support.bare_clusters import open_bare_cluster
from support.fleets import Fleet
from support.page_models import serve_models
from support.page_runs import PAGES, Run, SavedFile, read_parts
from support.terminals import Terminal, open_terminal, write_programs

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).parents[2]
MADE_BY_OTHERS = {"ModelReplica", "ModelEndpoint"}
"""Kinds of which objects go with the deployment or the service that they belong to."""


@pytest.fixture(scope="module")
def programs(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    write_programs(folder, kubernetes_binary)
    return folder


@pytest.fixture(scope="module", autouse=True)
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with serve_models(tmp_path_factory.mktemp("hub")):
        yield


@pytest.fixture(scope="module")
def shared_fleet(kubernetes_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    started = Fleet(Home(tmp_path_factory.mktemp("pages") / "home"), kubernetes_binary)
    options = ("--clusters=3", "--cpu-devices=4", "--host-commands", "--container-engine=none")
    try:
        started.modelplane("up", *options)
        started.kubectl("create", "namespace", "ml-team")
        yield started
    finally:
        started.modelplane("down", "--purge")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_shows(
    request: pytest.FixtureRequest, kubernetes_binary: Path, programs: Path, tmp_path: Path, name: str
) -> None:
    run, folder = PAGES[name], make_folder(tmp_path)
    if run.bare:
        home = Home(tmp_path / "home")
        with (
            open_bare_cluster(home, kubernetes_binary, tmp_path),
            open_terminal(home, programs, folder) as shell,
        ):
            follow(shell, name, run, folder)
        return
    if run.own_fleet:
        with open_terminal(Home(tmp_path / "home"), programs, folder) as terminal:
            try:
                follow(terminal, name, run, folder)
            finally:
                terminal.run("modelplane down --purge")
        return
    fleet: Fleet = request.getfixturevalue("shared_fleet")
    before = list_objects(fleet)
    try:
        with open_terminal(fleet.home, programs, folder) as terminal:
            follow(terminal, name, run, folder)
    finally:
        with open_terminal(fleet.home, programs, folder) as terminal:
            terminal.run(run.after or "true")
        restore(fleet, before, folder)


def make_folder(folder: Path) -> Path:
    """Add to a folder what a reader's working directory contains."""
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def follow(terminal: Terminal, name: str, run: Run, folder: Path) -> None:
    """Prepare a page, and take each of its steps."""
    printed, status = terminal.run(f"(set -e\n{run.before}\ntrue)")
    assert status == 0, printed
    for part in read_parts(ROOT / name):
        if isinstance(part, SavedFile):
            (folder / part.name).write_text(part.text)
        else:
            terminal.follow(ROOT / name, part)


def list_objects(fleet: Fleet) -> dict[tuple[str, ...], Object]:
    """Return the objects of Modelplane that people write, by kind, namespace and name."""
    kinds = ",".join(f"{kind.plural}.{kind.group}" for kind in KINDS if kind.name not in MADE_BY_OTHERS)
    items = json.loads(fleet.kubectl("get", kinds, "-A", "-o", "json"))["items"]
    return {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
        for item in items
    }


def restore(fleet: Fleet, before: dict[tuple[str, ...], Object], folder: Path) -> None:
    """Delete the objects that a page left behind, and undo its changes of others."""
    now = list_objects(fleet)
    # Deployments first: what they run on must be there until their replicas are gone.
    for kind, namespace, name in sorted(
        now.keys() - before.keys(), key=lambda key: key[0] != "ModelDeployment"
    ):
        scope = ("-n", namespace) if namespace else ()
        fleet.kubectl("delete", kind, name, *scope, "--ignore-not-found", "--timeout=180s")
    fleet.kubectl("wait", "--for=delete", "modelreplicas", "--all", "-A", "--timeout=180s")
    for key, item in before.items():
        found = now.get(key)
        if found and (found["spec"], found["metadata"].get("labels")) == (
            item["spec"],
            item["metadata"].get("labels"),
        ):
            continue
        item["metadata"] = {
            name: value
            for name, value in item["metadata"].items()
            if name in {"name", "namespace", "labels", "annotations"}
        }
        write_back(fleet, item, folder / "restored.json", exists=found is not None)


def write_back(fleet: Fleet, item: Object, file: Path, *, exists: bool) -> None:
    """Write an object as it was; again if its status changed at the same moment."""
    scope = ("-n", item["metadata"]["namespace"]) if "namespace" in item["metadata"] else ()
    while True:
        if exists:
            now = json.loads(
                fleet.kubectl("get", item["kind"], item["metadata"]["name"], *scope, "-o", "json")
            )
            item["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"]
        file.write_text(json.dumps(item))
        try:
            fleet.kubectl("replace" if exists else "create", "-f", str(file))
        except AssertionError as error:
            if "Conflict" not in str(error):
                raise
        else:
            return

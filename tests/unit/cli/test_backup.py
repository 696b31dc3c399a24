"""``modelplane backup`` and ``modelplane restore``: what they print, and what they refuse."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from modelplane.cli.main import main
from modelplane.compose.kinds import COMPOSED
from modelplane.install import api_server_choice
from modelplane.local.home import Home
from support.storing_server import StoringServer


def _definitions(server: StoringServer) -> None:
    for kind in COMPOSED:
        server.put(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": kind.definition},
            }
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> StoringServer:
    """A control plane with one cluster."""
    stored = StoringServer()
    _definitions(stored)
    existing = {"existing": {"secretRef": {"name": "east-kubeconfig"}}}
    stored.put(
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "InferenceCluster",
            "metadata": {"name": "east", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"cluster": existing},
        }
    )
    monkeypatch.setattr(api_server_choice, "connect", lambda *_arguments: stored.client())
    return stored


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text("")
    return path


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def test_a_fleet_is_saved_and_restored(server: StoringServer, kubeconfig: Path, tmp_path: Path) -> None:
    file = tmp_path / "fleet"
    done = run("backup", file, "--kubeconfig", kubeconfig)
    assert done.exit_code == 0
    first, second, third, fourth = done.output.splitlines()
    assert (first, second) == ("  1 InferenceCluster", "  1 name of Secrets and ConfigMaps")
    assert third.startswith(f"{file}: 1 object, sha256 ")
    assert fourth == (
        "The backup contains only the names of Secrets and ConfigMaps: store their contents elsewhere, or "
        "use --passphrase-file"
    )
    server.objects.clear()
    _definitions(server)
    tried = run("restore", file, "--kubeconfig", kubeconfig, "--dry-run")
    assert tried.output.splitlines()[0] == '  create InferenceCluster "east"'
    assert "would be restored" in tried.output
    assert server.writes == []
    done = run("restore", file, "--kubeconfig", kubeconfig)
    assert done.exit_code == 0
    assert done.output.splitlines()[:3] == [
        "  Restored 1 objects",
        'missing: Secret "modelplane-system/east-kubeconfig": create it',
        'was being deleted when the backup was made: InferenceCluster "east": delete it again',
    ]


def test_no_file_is_replaced(server: StoringServer, kubeconfig: Path, tmp_path: Path) -> None:
    done = run("backup", kubeconfig, "--kubeconfig", kubeconfig)
    assert (done.exit_code, done.output) == (
        1,
        f"Error: {kubeconfig} already exists: choose another file\n",
    )
    done = run("backup", tmp_path / "no" / "fleet", "--kubeconfig", kubeconfig)
    assert (done.exit_code, done.output) == (
        1,
        f"Error: cannot write {tmp_path}/no/fleet: folder {tmp_path}/no does not exist\n",
    )
    assert server.writes == []


def test_a_file_that_is_no_backup_is_refused(server: StoringServer, kubeconfig: Path, tmp_path: Path) -> None:
    (tmp_path / "fleet").write_text("kind: List\n")
    done = run("restore", tmp_path / "fleet", "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert (
        f"{tmp_path}/fleet is not a complete backup: the line at byte 0 is not a line of a backup"
        in done.output
    )
    assert server.writes == []


_HEADER = (
    '{{"header": {{"name": "modelplane-backup", "format": {}, "modelplane": "9\\u001b]0;x\\u0007", '
    '"time": "", "resource_version": ""}}}}'
)


@pytest.mark.parametrize(
    "line",
    [_HEADER.format(99), _HEADER.format(1), '{"\\u001b]0;x\\u0007": 1}'],
    ids=["a newer format", "a version that is none", "an unknown field"],
)
@pytest.mark.usefixtures("server")
def test_a_file_that_is_refused_writes_no_control_characters(
    kubeconfig: Path, tmp_path: Path, line: str
) -> None:
    (tmp_path / "fleet").write_text(f"{line}\n")
    done = run("restore", tmp_path / "fleet", "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "]0;x" in done.output
    assert all(each.isprintable() for each in done.output.rstrip("\n"))


def test_a_local_fleet_is_not_restored_to(server: StoringServer, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    for path in (home.settings, home.kubeconfig):
        path.write_text("{}")
    done = run("restore", home.settings, "--kubeconfig", home.kubeconfig)
    assert done.exit_code == 1
    assert "cannot restore a backup to a fleet that `modelplane up` manages" in done.output
    assert server.writes == []

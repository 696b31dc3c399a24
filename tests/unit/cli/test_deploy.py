"""``modelplane deploy``: what is printed, asked and applied, and what is refused."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from modelplane.checkpoints.checkpoint import Checkpoint
from modelplane.cli.main import main
from modelplane.cli.models import deploy_options
from modelplane.install import api_server_choice
from modelplane.kube.errors import Conflict, NotFound
from modelplane.kube.http_messages import ObjectList
from modelplane.offline.plan.fleet_of_files import assemble
from support.checkpoint_shapes import CHECKPOINTS, safetensors
from support.deployed_models import as_text, fleet, pool
from support.manifests import said
from support.tokens import kubeconfig

Object = dict[str, Any]


class Server:
    """A control plane, of which an apply may conflict."""

    def __init__(self, objects: tuple[Object, ...] = ()) -> None:
        self.items: dict[tuple[str, str, str], Object] = {}
        self.managers: set[str] = set()
        self.conflict_of = ""
        for each in assemble(objects).store:
            self.put(each)

    def put(self, item: Any) -> None:
        metadata = item["metadata"]
        self.items[item["kind"], metadata.get("namespace", ""), metadata["name"]] = copy.deepcopy(item)

    def kinds(self) -> set[str]:
        return {kind for kind, namespace, _ in self.items if namespace}

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def list(self, resource: Any) -> ObjectList:
        return ObjectList(tuple(each for key, each in self.items.items() if key[0] == resource.kind), "1")

    async def get(self, resource: Any, name: str, namespace: str) -> Object | None:
        return copy.deepcopy(self.items.get((resource.kind, namespace, name)))

    async def apply(self, manifest: Object, *, force: bool, dry_run: bool) -> Object:
        assert not force
        if not dry_run and manifest["metadata"]["namespace"] == "absent":
            raise NotFound(404, "NotFound", 'namespaces "absent" not found')
        if manifest["kind"] == self.conflict_of:
            raise Conflict(409, "Conflict", 'conflict with "kubectl": .spec.replicas')
        stored = copy.deepcopy(manifest)
        stored["metadata"]["managedFields"] = [{"manager": manager} for manager in self.managers]
        if not dry_run:
            self.put(stored)
        return stored


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkpoint, path = CHECKPOINTS["Qwen/Qwen3-8B"], tmp_path_factory.mktemp("models") / "Qwen3-8B"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(checkpoint.config))
    (path / "model.safetensors").write_bytes(safetensors(checkpoint.tensors()))
    return path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    (tmp_path / "kubeconfig").write_bytes(kubeconfig(token="secret"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    made = Server(fleet([pool("l4", "l4-1x"), pool("h100", "h100-8x", nodes=1)]))

    def connect(_kubeconfig: object, _context: str, manager: str, _timeout_s: float) -> Server:
        made.managers = {manager}
        return made

    monkeypatch.setattr(api_server_choice, "connect", connect)
    return made


def run(*arguments: object, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["deploy", *map(str, arguments)], input=answer)


def fleet_file(path: Path, *pools: Object, storage: bool = True) -> Path:
    path = path / "fleet.yaml"
    path.write_text(as_text(fleet(pools, storage=storage)))
    return path


def test_the_manifests_of_a_folder_are_printed_alone(folder: Path, tmp_path: Path) -> None:
    done = run(folder, "--fleet", fleet_file(tmp_path, pool("h100", "h100-8x")), "-o", "yaml")
    assert done.exit_code == 0, done.output
    cache, deployment, service = yaml.safe_load_all(done.stdout)
    assert cache["spec"]["persistentVolumeClaim"] == {"claimName": "qwen3-8b"}
    assert deployment["spec"]["modelCacheRef"] == {"name": "qwen3-8b"}
    assert service["kind"] == "ModelService"
    assert said(done.stdout) == []
    assert done.stderr == (
        'PersistentVolumeClaim "qwen3-8b" with the folder\'s files must exist in namespace "default" on '
        "each cluster\n"
    )


def test_the_plan_is_shown_with_its_cost(folder: Path, tmp_path: Path) -> None:
    pools = pool("h100", "h100-8x", price="2.50"), pool("l40s", "l40s-1x", price="0.90")
    done = run(folder, "--fleet", fleet_file(tmp_path, *pools))
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert lines[0].startswith("vllm with TP 1 on 1 NVIDIA L40S: 25.20 of ")
    assert "ModelDeployment default qwen3-8b 1 replica: 1 pod with 1 device" in lines
    assert "1 of 1 replicas placed" in lines
    assert any("0.90 USD" in line for line in lines)


def test_a_pool_without_room_is_told_as_by_plan(folder: Path, tmp_path: Path) -> None:
    done = run(folder, "--fleet", fleet_file(tmp_path, pool("h100", "h100-8x", nodes=0)))
    assert done.exit_code == 2
    assert "0 of 1 replicas placed" in done.output
    assert "add 1 node to pool h100" in done.output


def test_the_next_pool_is_taken_if_the_best_has_no_room(folder: Path, tmp_path: Path) -> None:
    pools = pool("h100", "h100-8x", nodes=0), pool("l4", "l4-4x")
    done = run(folder, "--fleet", fleet_file(tmp_path, *pools), "-o", "yaml")
    assert done.exit_code == 0, done.output
    assert "--tensor-parallel-size=2" in done.stdout


def test_pools_that_cannot_serve_it_are_told_with_reasons(folder: Path, tmp_path: Path) -> None:
    done = run(folder, "--fleet", fleet_file(tmp_path, pool("t4", "t4-1x")))
    assert done.exit_code == 2
    assert "BF16 requires compute capability 8.0, and the device has 7.5" in done.output


@pytest.mark.parametrize("option", [("--no-cache",), ()])
def test_a_folder_needs_a_cache(folder: Path, tmp_path: Path, option: tuple[str, ...]) -> None:
    path = fleet_file(tmp_path, pool("h100", "h100-8x"), storage=bool(option))
    done = run(folder, "--fleet", path, *option)
    assert done.exit_code == 2
    assert "a folder needs a ModelCache" in done.output


@pytest.mark.parametrize("option", ["--cache", "--no-cache"])
def test_a_gated_model_names_the_secret_which_is_copied_to_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    name = "meta-llama/Llama-3.1-8B-Instruct"
    found = CHECKPOINTS[name]
    checkpoint = Checkpoint(name, json.dumps(found.config).encode(), tuple(found.tensors()), needs_token=True)
    monkeypatch.setattr(deploy_options, "read_checkpoint", lambda *_arguments: checkpoint)
    path = fleet_file(tmp_path, pool("h100", "h100-8x"))
    done = run(name, "--fleet", path, "-o", "yaml", option, "--context-length", 8192)
    assert done.exit_code == 0, done.output
    assert "name: hf-token" in done.stdout
    secret = 'Secret "hf-token" with your token as HF_TOKEN'
    assert done.stderr == f'{secret} must exist in namespace "default" on the control plane\n'


def test_objects_are_applied_after_a_yes(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelplane.cli.options._has_terminal", lambda: True)
    refused = run(folder, "-n", "ml-team", answer="n\n")
    assert (refused.exit_code, "Apply these objects?" in refused.output) == (1, True)
    assert server.kinds() == set()
    done = run(folder, "-n", "ml-team", answer="y\n")
    assert done.exit_code == 0, done.output
    assert server.kinds() == {"ModelCache", "ModelDeployment", "ModelService"}
    assert 'ModelDeployment "qwen3-8b" in namespace "ml-team" created' in done.output


def test_a_later_run_changes_its_own_objects(folder: Path, server: Server) -> None:
    assert run(folder, "--yes").exit_code == 0
    done = run(folder, "--yes", "--replicas", 2)
    assert done.exit_code == 0, done.output
    assert 'ModelDeployment "qwen3-8b" in namespace "default" configured' in done.output
    assert 'ModelService "qwen3-8b" in namespace "default" unchanged' in done.output
    assert server.items["ModelDeployment", "default", "qwen3-8b"]["spec"]["replicas"] == 2


def test_objects_of_others_stay_as_they_are(folder: Path, server: Server) -> None:
    theirs = {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {
            "name": "qwen3-8b",
            "namespace": "default",
            "managedFields": [{"manager": "kubectl-client-side-apply"}],
        },
        "spec": {"endpoints": []},
    }
    server.put(theirs)
    done = run(folder, "--yes")
    assert done.exit_code == 1
    assert (
        'ModelService "qwen3-8b" in namespace "default" already exists and wasn\'t created by '
        "`modelplane deploy`"
        ": choose another --name"
    ) in done.stderr
    assert server.kinds() == {"ModelService"}


def test_a_conflict_is_told_and_nothing_is_applied(folder: Path, server: Server) -> None:
    server.conflict_of = "ModelDeployment"
    done = run(folder, "--yes")
    assert done.exit_code == 1
    assert "another manager owns these fields: choose another --name" in done.stderr
    assert server.kinds() == set()


@pytest.mark.usefixtures("server")
def test_a_namespace_that_is_not_there_is_told(folder: Path) -> None:
    done = run(folder, "--yes", "-n", "absent")
    assert (done.exit_code, "run `kubectl create namespace absent`" in done.stderr) == (1, True), done.output


def test_nothing_is_applied_without_a_place(folder: Path, server: Server) -> None:
    done = run(folder, "--yes", "--replicas", 100)
    assert (done.exit_code, server.kinds()) == (2, set())


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        pytest.param(("FOLDER",), 1, "so you can't confirm: add --yes", id="no terminal"),
        pytest.param(("FOLDER", "--yes", "-o", "yaml"), 2, "omit -o or --yes", id="-o and --yes"),
        pytest.param(("FOLDER", "--yes", "--fleet", "."), 2, "omit --yes", id="--fleet and --yes"),
        pytest.param(
            ("Qwen/Qwen3-8B", "--yes", "--claim", "a"), 2, "--claim applies only to a folder", id="claim"
        ),
        pytest.param(("FOLDER", "--yes", "--context-length", "40961"), 1, "at most 40,960", id="context"),
        pytest.param(
            ("FOLDER", "--yes", "--context", "8192"),
            2,
            "use --context-length",
            id="tokens",
        ),
        pytest.param(
            ("FOLDER", "--fleet", ".", "--context", "west"), 2, "omit them", id="a context for files"
        ),
        pytest.param(("FOLDER", "--yes", "--name", "Not_A_Name"), 2, "is not a valid name", id="name"),
        pytest.param(("FOLDER", "--yes", "-n", "kube-system"), 1, "reserved", id="namespace"),
    ],
)
def test_an_error_says_what_to_do(folder: Path, arguments: tuple[str, ...], status: int, error: str) -> None:
    done = run(*(str(folder) if each == "FOLDER" else each for each in arguments))
    assert (done.exit_code, error in done.stderr) == (status, True), done.output

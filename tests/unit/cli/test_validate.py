import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from modelplane.cli.main import main
from modelplane.install import api_server_choice
from modelplane.kube.http_messages import ObjectList
from support.manifests import API, CLASS, DEPLOYMENT
from support.output_schemas import parsed

DOUBTFUL = f"apiVersion: {API}\nkind: InferenceGateway\nmetadata: {{name: front}}\nspec: {{backend: Envoy}}\n"


def validate(*arguments, stdin=None):
    return CliRunner().invoke(main, ["validate", *map(str, arguments)], input=stdin)


def test_valid_manifests_of_a_folder_are_counted(tmp_path):
    (tmp_path / "a.yaml").write_text(CLASS)
    (tmp_path / "b.yaml").write_text(f"{DEPLOYMENT}---\napiVersion: v1\nkind: Namespace\n")
    result = validate(tmp_path)
    assert (result.exit_code, result.output) == (
        0,
        "2 objects valid, 2 files; 1 object of other kinds skipped\n",
    )


def test_what_a_deployment_does_not_need_is_not_imported(tmp_path):
    (tmp_path / "a.yaml").write_text(DEPLOYMENT)
    kinds = ("inference_cluster", "inference_gateway", "aks_settings", "model_cache", "serving_stack")
    unneeded = ("rich", "asyncio", "modelplane.scheduler", *(f"modelplane.api.{kind}" for kind in kinds))
    script = (
        "import sys, json\nfrom modelplane.cli.main import main\n"
        f"main(['validate', {str(tmp_path)!r}], standalone_mode=False)\n"
        f"print(json.dumps([name for name in {unneeded} if name in sys.modules]))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert json.loads(output.stdout.splitlines()[-1]) == []


def test_a_mistake_is_a_line_and_status_1():
    result = validate("-", stdin=DEPLOYMENT.replace("  replicas", "  replica"))
    assert (result.exit_code, result.output) == (
        1,
        (
            'stdin:7:3: error: ModelDeployment "ml-team/qwen": spec.replica: unknown field; did you mean '
            "replicas?\n1 error in 1 object, 1 file\n"
        ),
    )


def test_a_context_is_compared_with_a_checkpoint_of_a_folder(tmp_path):
    folder = tmp_path / "Qwen" / "Qwen3-0.6B"
    folder.mkdir(parents=True)
    config = {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": 40960,
    }
    (folder / "config.json").write_text(json.dumps(config))
    args = "[--model=Qwen/Qwen3-0.6B, --max-model-len=50000]"
    before = "image: vllm/vllm-openai:v0.23.0"
    manifest = DEPLOYMENT.replace(before, f"{before}\n                  args: {args}")
    assert manifest != DEPLOYMENT
    result = validate("-", "--checkpoints", tmp_path, stdin=manifest)
    assert "--max-model-len 50000 exceeds the context length of" in result.output
    assert "1 object valid with 1 warning" in result.output
    assert validate("-", "--checkpoints", tmp_path / "none", stdin=manifest).exit_code == 2


def test_a_fault_in_a_selector_is_shown_below_its_line():
    result = validate("-", stdin=DEPLOYMENT.replace("device.driver ==", "device.driver = "))
    assert result.exit_code == 1
    [_, excerpt, caret, _] = result.output.splitlines()
    assert excerpt == '                      - cel: device.driver =  "gpu.nvidia.com"'
    assert caret.strip() == "^"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        pytest.param(CLASS, True, id="valid"),
        pytest.param(CLASS.replace("count: 1", "count: x"), False, id="a wrong field"),
        pytest.param("a: [", False, id="no YAML"),
    ],
)
def test_the_json_document_is_as_its_schema_says(text, valid):
    result = validate("-", "-o", "json", stdin=text)
    document = parsed("validate", result.output)
    assert (document["kind"], document["schemaVersion"], document["valid"]) == ("Validation", 1, valid)
    assert len(document["problems"]) == document["summary"]["errors"] == (not valid)


@pytest.mark.parametrize(
    ("text", "strict", "status"),
    [
        pytest.param(CLASS, True, 0, id="valid"),
        pytest.param(DOUBTFUL, False, 0, id="a warning"),
        pytest.param(DOUBTFUL, True, 1, id="a warning, strictly"),
        pytest.param("", False, 1, id="nothing"),
    ],
)
def test_strict_makes_a_warning_fail(text, strict, status):
    for output in ("text", "json"):
        result = validate("-", "-o", output, *(["--strict"] if strict else []), stdin=text)
        assert result.exit_code == status


def test_a_warning_is_a_line_with_its_place():
    result = validate("-", stdin=DOUBTFUL)
    assert result.output == (
        'stdin:3:18: warning: InferenceGateway "front": metadata.name: only the InferenceGateway named '
        "default is used: rename it to default\n1 object valid with 1 warning, 1 file\n"
    )
    document = parsed("validate", validate("-", "-o", "json", stdin=DOUBTFUL).output)
    assert (document["valid"], document["summary"]["warnings"]) == (True, 1)
    assert [each["severity"] for each in document["problems"]] == ["warning"]


@pytest.mark.parametrize("command", [("plan",), ("render",), ("explain", "md/qwen", "--fleet")])
def test_other_commands_refuse_a_file_as_json_where_json_is_asked_for(tmp_path, command):
    (tmp_path / "a.yaml").write_text(DEPLOYMENT.replace("ml-team", "kube-system"))
    result = CliRunner().invoke(main, [*command, str(tmp_path / "a.yaml"), "-o", "json"])
    document = parsed("validate", result.output)
    assert (result.exit_code, document["valid"], document["summary"]["objects"]) == (1, False, 1)
    [problem] = document["problems"]
    assert problem["field"] == "metadata.namespace"


@pytest.mark.parametrize(
    "arguments",
    [pytest.param((), id="no path"), pytest.param(("nowhere.yaml",), id="a path that is not there")],
)
def test_wrong_usage_is_status_2(arguments):
    assert validate(*arguments).exit_code == 2


def test_what_only_other_commands_need_is_not_imported(tmp_path):
    (tmp_path / "a.yaml").write_text(CLASS)
    script = (
        "import sys, json\nfrom modelplane.cli.main import main\n"
        f"main(['validate', {str(tmp_path)!r}], standalone_mode=False)\n"
        "print(json.dumps([name for name in ('asyncio', 'rich', 'lightkube', 'modelplane.scheduler',"
        " 'modelplane.compose', 'modelplane.kube') if name in sys.modules]))"
    )
    output = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert json.loads(output.splitlines()[-1]) == []


class Fleet:
    """A control plane with these objects."""

    def __init__(self, *items):
        self.items = items

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        pass

    async def list(self, resource, _namespace=None):
        return ObjectList(tuple(each for each in self.items if each["kind"] == resource.kind), "1")


def selecting(kind, name, *selectors, **metadata):
    """Return a stored object with device selectors."""
    devices = [{"name": "gpu", "selectors": [{"cel": each} for each in selectors]}]
    engines = [{"name": "e", "members": [{"nodeSelector": {"devices": devices}}]}]
    about = {"name": name, "namespace": "ml-team", **metadata}
    return {"apiVersion": API, "kind": kind, "metadata": about, "spec": {"engines": engines}}


@pytest.fixture
def fleet(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    made = Fleet(
        selecting("ModelDeployment", "good", 'device.driver == "a"'),
        selecting("ModelDeployment", "odd", "true", 'math.greatest(1, 2) == 2 && "a".trim() == "a"'),
        selecting("ModelReplica", "by-hand", "[1].map(x, x).size() == 1"),
        selecting("ModelReplica", "composed", "[1].map(x, x).size() == 1", ownerReferences=[{"uid": "1"}]),
    )
    monkeypatch.setattr(api_server_choice, "connect", lambda *_arguments: made)
    return made


@pytest.mark.usefixtures("fleet")
def test_stored_selectors_that_are_refused_are_errors():
    result = validate("--live")
    where = "spec.engines[0].members[0].nodeSelector.devices[0]"
    odd, by_hand, total = result.output.splitlines()
    assert odd == (
        f'control plane: error: ModelDeployment "ml-team/odd": {where}.selectors[1].cel: selector '
        '`math.greatest(1, 2) == 2 && "a".trim() == "a"` does not compile: '
        "selectors have no function math.greatest: compare with each value"
    )
    assert by_hand == (
        f'control plane: error: ModelReplica "ml-team/by-hand": {where}.selectors[0].cel: selector '
        "`[1].map(x, x).size() == 1` does not compile: "
        "selectors have no function map: write the condition in exists or all"
    )
    assert (result.exit_code, total) == (
        1,
        "2 errors in 4 objects; checked the device selectors on the control plane",
    )
    assert validate("--live", "-", "-o", "json", stdin=CLASS).output.count('"error"') == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "Missing argument 'PATH...'", id="nothing to validate"),
        pytest.param(["-", "--context", "east"], "add --live", id="a fleet that is not read"),
    ],
)
def test_a_fleet_is_read_only_with_its_option(arguments, said):
    result = validate(*arguments)
    assert result.exit_code == 2
    assert said in result.output

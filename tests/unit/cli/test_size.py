"""``modelplane size``: what is printed, of a folder and of errors, and its exit status."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.cli.main import main
from support.checkpoint_shapes import CHECKPOINTS, safetensors
from support.output_schemas import parsed

FLEET = Path(__file__).parents[3] / "examples" / "every-field"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["size", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkpoint, path = CHECKPOINTS["Qwen/Qwen3-8B"], tmp_path_factory.mktemp("qwen3")
    (path / "config.json").write_text(json.dumps(checkpoint.config))
    (path / "model.safetensors").write_bytes(safetensors(checkpoint.tensors()))
    return path


def test_the_arithmetic_is_printed(folder: Path) -> None:
    done = run(folder)
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert lines[0] == f"{folder}: 8,190,735,360 parameters"
    for line in (
        "loaded 8,190,735,360 16,381,470,720 15.26",
        "2 x 8 KV heads x 128 x 2 bytes = 4,096 bytes per token per layer",
        "36 full layers x 4,096 = 147,456 bytes per token",
        "40,960 tokens = 5.62 GiB per sequence (whole blocks), x 1 = 5.62 GiB",
        "TP 1 15.26 5.62 2.30 25.20 25.20",
        "a100-40-1x 1 NVIDIA A100-SXM4-40GB 1 TP 1 25.20 of 40.00 3",
    ):
        assert line in lines


def test_the_document_has_every_class_of_the_catalogue(folder: Path) -> None:
    document = parsed("size", run(folder, "--context-length", 16384, "--concurrency", 2, "-o", "json").stdout)
    assert (document["parameters"], document["weightsBytes"]) == (8_190_735_360, 16_381_470_720)
    assert document["cache"]["sequenceBytes"] == 16384 * 147_456
    assert {each["inferenceClass"] for each in document["hardware"]} == set(load_catalogue().machines)
    assert all(bool(each["devices"]) != bool(each["reason"]) for each in document["hardware"])


def test_pools_of_a_fleet_have_their_own_prices(folder: Path) -> None:
    document = parsed("size", run(folder, "--fleet", FLEET, "-o", "json").stdout)
    rows = {each["cluster"]: each for each in document["hardware"]}
    assert (rows["own-hall"]["pool"], rows["own-hall"]["costPerHour"]) == ("h100", "2.10")
    assert rows["eks-us-west"]["costPerHour"] == "6.88"


def test_the_status_is_2_if_no_hardware_can_serve_it(folder: Path) -> None:
    done = run(folder, "--concurrency", 10_000)
    assert done.exit_code == 2
    assert "Hardware that can't serve the model:" in done.output


@pytest.mark.parametrize(
    ("option", "line"),
    [
        pytest.param(("--quantization", "fp8"), "8,190,735,360 parameters, fp8", id="quantization"),
        pytest.param(("--kv-cache-dtype", "fp8"), "2 x 8 KV heads x 128 x 1 bytes = 2,048", id="KV cache"),
        pytest.param(("--all",), "Hardware that can't serve the model:", id="all"),
    ],
)
def test_an_option_changes_the_figures(folder: Path, option: tuple[str, ...], line: str) -> None:
    assert line in run(folder, *option).output


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        pytest.param(("FOLDER", "--context-length", "40961"), 1, "at most 40,960 positions", id="context"),
        pytest.param(("FOLDER", "--concurrency", "1000000"), 1, "more than a pebibyte", id="concurrency"),
        pytest.param(
            ("FOLDER", "--revision", "main"), 2, "--revision applies only to models on the hub", id="revision"
        ),
        pytest.param(("./model.gguf",), 1, "the size of a GGUF file cannot be computed", id="GGUF"),
        pytest.param(("/no/such",), 1, "is not a folder", id="no folder"),
        pytest.param(("model",), 2, '"model" is not OWNER/NAME', id="no owner"),
        pytest.param(("FOLDER", "--context-length", "0"), 2, "--context-length", id="no tokens"),
    ],
)
def test_an_error_says_what_to_do(folder: Path, arguments: tuple[str, ...], status: int, error: str) -> None:
    done = run(*(str(folder) if each == "FOLDER" else each for each in arguments))
    assert (done.exit_code, error in done.stderr) == (status, True), done.output


def test_a_model_without_a_context_needs_the_option(tmp_path: Path) -> None:
    checkpoint = CHECKPOINTS["Qwen/Qwen3-0.6B"]
    config = {key: value for key, value in checkpoint.config.items() if key != "max_position_embeddings"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(safetensors(checkpoint.tensors()))
    assert "set --context" in run(tmp_path).stderr
    assert run(tmp_path, "--context-length", 1024).exit_code == 0

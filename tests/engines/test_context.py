"""The longest context that ``modelplane validate`` computes is the one of the engines' own functions."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.install import HERE
from modelplane.sizing import context
from modelplane.sizing.architecture import Architecture, parse_architecture

pytestmark = pytest.mark.engines

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 2048}
LLAMA = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}
CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "yarn": {"rope_scaling": YARN},
    "yarn by its newer name": {"rope_scaling": None, "rope_parameters": YARN},
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "llama3": {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, **LLAMA}},
    "a length beside the positions": {"model_max_length": 6000},
}


@pytest.fixture
def models(tiny_model: Path, tmp_path: Path) -> dict[str, Path]:
    """The tiny model, with changes of its configuration."""
    made = {}
    for number, (name, changes) in enumerate(CHANGES.items()):
        made[name] = tmp_path / str(number)
        shutil.copytree(tiny_model, made[name])
        config = json.loads((tiny_model / "config.json").read_text())
        if "rope_scaling" in changes:
            config.pop("rope_parameters", None)
        (made[name] / "config.json").write_text(json.dumps(config | changes))
    return made


def _ours(models: dict[str, Path], longest: Callable[[Architecture], int]) -> dict[str, int]:
    return {
        name: longest(parse_architecture((each / "config.json").read_bytes()))
        for name, each in models.items()
    }


def _theirs(python: Path, program: str, models: dict[str, Path]) -> dict[str, int]:
    command = [python, HERE / program, *models.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(models, json.loads(done.stdout.splitlines()[-1]), strict=True))


def test_of_vllm(vllm: Path, models: dict[str, Path]) -> None:
    assert _ours(models, context.find_vllm_length) == _theirs(vllm / "python", "vllm_context.py", models)


def test_of_sglang(sglang: Path, models: dict[str, Path]) -> None:
    assert _ours(models, context.find_sglang_length) == _theirs(
        sglang / "python", "sglang_context.py", models
    )

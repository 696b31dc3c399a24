"""Manifests that ``modelplane deploy`` writes for released models, as files.

``make golden`` writes the expected files anew; review the difference before committing it.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from modelplane.offline.models.model_manifests import Engine
from support.deployed_models import as_text, fleet, pool, proposed, wanted
from support.manifests import said

FOLDER = Path(__file__).parent / "deployed_models"
H100 = pool("h100", "h100-8x")
CASES: dict[str, tuple[str, int, list[dict[str, Any]], dict[str, Any]]] = {
    "one-gpu": ("Qwen/Qwen3-8B", 16_384, [pool("l4", "l4-1x"), H100], {}),
    "awq": ("Qwen/Qwen3-8B-AWQ", 8_192, [pool("t4", "t4-1x"), pool("l4", "l4-1x")], {}),
    "gated": ("meta-llama/Llama-3.1-8B-Instruct", 16_384, [H100], {"token_secret": "hf-token"}),
    "converted": ("Qwen/Qwen3-8B", 16_384, [pool("l4", "l4-1x")], {"converted_to": "fp8"}),
    "native-fp8": ("deepseek-ai/DeepSeek-V3", 32_768, [pool("h200", "h200-8x")], {"revision": "main"}),
    "two-nodes": ("deepseek-ai/DeepSeek-V3", 32_768, [H100], {"token_secret": "hub"}),
    "amd": ("mistralai/Mixtral-8x7B-Instruct-v0.1", 32_768, [pool("mi300x", "mi300x-8x")], {}),
    "sglang": ("Qwen/Qwen3-30B-A3B", 32_768, [H100], {"engine": Engine.SGLANG}),
    "eight-gpus": ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 32_768, [pool("h200", "h200-8x")], {}),
    "folder": ("openai/gpt-oss-20b", 8_192, [H100], {"repo": "", "claim": "weights"}),
    "priced": (
        "google/gemma-3-4b-it",
        8_192,
        [pool("h100", "h100-8x", price="4.00"), pool("l4", "l4-1x", price="0.70")],
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_manifests_are_those_of_the_file(case: str) -> None:
    name, context, pools, fields = CASES[case]
    best = proposed(wanted(name, context, **fields), fleet(pools)).best
    assert best is not None
    assert best.plan.placed
    text = as_text(best.manifests)
    assert said(text) == []
    path = FOLDER / f"{case}.yaml"
    if os.environ.get("MODELPLANE_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_file_is_of_a_case() -> None:
    assert sorted(each.stem for each in FOLDER.glob("*.yaml")) == sorted(CASES)

"""Warnings about contexts that are longer than the model's."""

import json
from typing import Any

import pytest

from modelplane.offline.check.validation import validate
from modelplane.offline.files import sources
from modelplane.offline.lint.advice import Configs

VLLM = "vllm/vllm-openai:v0.23.0"
SGLANG = "lmsysorg/sglang:v0.5.23"
LLAMA = "ghcr.io/ggml-org/llama.cpp:server"
SGLANG_COMMAND = ["python3", "-m", "sglang.launch_server", "--host=0.0.0.0", "--port=8000"]
CONFIG = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "max_position_embeddings": 4096,
}
YARN = json.dumps(
    {"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}}
)
AT_HAND = {("Qwen/Tiny", ""): json.dumps(CONFIG).encode(), ("Qwen/Tiny", "v1"): b"{}"}


def configs(repo: str, revision: str) -> bytes | None:
    return AT_HAND.get((repo, revision))


def deployment(image: str, *args: str, cache: str = "", **container: Any) -> dict[str, Any]:
    engine = {"name": "engine", "image": image, "args": list(args)} | container
    selectors = [{"cel": 'device.driver == "gpu.nvidia.com"'}]
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [{"name": "gpu", "count": 1, "selectors": selectors}]},
        "template": {"spec": {"containers": [engine]}},
    }
    spec: dict[str, Any] = {"replicas": 1, "engines": [{"name": "e", "members": [member]}]}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "d", "namespace": "n"},
        "spec": spec | ({"modelCacheRef": {"name": cache}} if cache else {}),
    }


def hub_cache(repo: str, **more: str) -> dict[str, Any]:
    hub = {"repo": repo, "sizeGiB": 1} | more
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": "tiny", "namespace": "n"},
        "spec": {"source": "HuggingFace", "huggingFace": hub},
    }


def warned(*objects: dict[str, Any], at_hand: Configs = configs) -> list[str]:
    """Return what is said of contexts, as ``field: text``."""
    found = validate([sources.Source("f", json.dumps(each)) for each in objects], at_hand)
    assert found.valid, found.problems
    return [
        f"{each.field.rpartition('containers[0].')[2]}: {each.message}"
        for each in found.problems
        if "the context length" in each.message
    ]


REFUSED = 'exceeds the context length of "Qwen/Tiny", 4096 tokens according to config.json, and'
BY_SGLANG = (
    f"{REFUSED} SGLang does not start: lower it, or extend the context with --json-model-override-args"
)
BY_VLLM = f"{REFUSED} vLLM does not start: lower it, or extend the context with --hf-overrides"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            deployment(VLLM, "--model=Qwen/Tiny", "--max-model-len=4097"),
            [f"args[1]: --max-model-len 4097 {BY_VLLM}"],
            id="vLLM",
        ),
        pytest.param(
            deployment(VLLM, "--model=Qwen/Tiny", "--max_model_len", "5k"),
            [f"args[1]: --max_model_len 5k {BY_VLLM}"],
            id="vLLM, with a unit",
        ),
        pytest.param(
            deployment(VLLM, command=["sh", "-c", "vllm serve Qwen/Tiny --max-model-len 8000"]),
            [f"command[2]: --max-model-len 8000 {BY_VLLM}"],
            id="vLLM, in a script",
        ),
        pytest.param(
            deployment(SGLANG, "--model-path=Qwen/Tiny", "--context-length=8192", command=SGLANG_COMMAND),
            [f"args[1]: --context-length 8192 {BY_SGLANG}"],
            id="SGLang",
        ),
        pytest.param(
            deployment(LLAMA, "-hf", "Qwen/Tiny:Q4_K_M", "-c", "8192", "--port=8000"),
            [f"args[2]: -c 8192 {REFUSED} answers get worse beyond that length: lower it"],
            id="llama.cpp, whose repository has a quantization",
        ),
    ],
)
def test_a_longer_context_is_warned_of(manifest: dict[str, Any], expected: list[str]) -> None:
    assert warned(manifest) == expected


LONG = ("--model=Qwen/Tiny", "--max-model-len=8000")


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(deployment(VLLM, "--model=Qwen/Tiny", "--max-model-len=4096"), id="the longest"),
        pytest.param(deployment(VLLM, "--model=Qwen/Tiny", "--max-model-len=4K"), id="4 binary thousands"),
        pytest.param(deployment(VLLM, "--model=Qwen/Tiny", "--max-model-len=auto"), id="what fits"),
        pytest.param(deployment(VLLM, "--model=Qwen/Tiny"), id="no length"),
        pytest.param(deployment(VLLM, "--model=Qwen/Other", "--max-model-len=8000"), id="no configuration"),
        pytest.param(deployment(VLLM, *LONG, "--revision=v1"), id="one that cannot be read"),
        pytest.param(deployment(VLLM, *LONG, "--revision=v2"), id="no configuration of this revision"),
        pytest.param(deployment(VLLM, "--model=/data/tiny", "--max-model-len=8000"), id="another path"),
        pytest.param(deployment(VLLM, *LONG, f"--hf-overrides={YARN}"), id="it is extended"),
        pytest.param(deployment(VLLM, *LONG, "--hf-overrides=$(CHANGES)"), id="it may be extended"),
        pytest.param(
            deployment(VLLM, *LONG, "--hf-overrides.max_position_embeddings=9000"), id="it is extended by key"
        ),
        pytest.param(deployment(VLLM, *LONG, "--config=/etc/vllm.yaml"), id="more flags are in a file"),
        pytest.param(
            deployment(VLLM, *LONG, env=[{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "1"}]),
            id="the engine is told to accept it",
        ),
        pytest.param(
            deployment(LLAMA, "-hf", "Qwen/Tiny", "--ctx-size", "8192", "--parallel", "2", "--port=8000"),
            id="llama.cpp divides it among sequences",
        ),
        pytest.param(
            deployment(LLAMA, "-hf", "Qwen/Tiny", "-c", "8192", "--rope-scaling=yarn", "--port=8000"),
            id="llama.cpp is told to extend it",
        ),
    ],
)
def test_anything_else_is_not(manifest: dict[str, Any]) -> None:
    assert warned(manifest) == []


def test_an_extension_that_does_not_reach_far_enough_is_warned_of() -> None:
    [line] = warned(deployment(VLLM, "--model=Qwen/Tiny", "--max-model-len=20000", f"--hf-overrides={YARN}"))
    assert "16384 tokens according to config.json" in line


def test_the_model_is_that_of_a_cache_among_the_objects() -> None:
    served = deployment(VLLM, "--max-model-len=8000", cache="tiny")
    assert warned(hub_cache("Qwen/Tiny"), served) == [f"args[0]: --max-model-len 8000 {BY_VLLM}"]
    assert warned(served, hub_cache("Qwen/Tiny")) == [f"args[0]: --max-model-len 8000 {BY_VLLM}"]
    assert warned(served) == []
    assert warned(served, hub_cache("Qwen/Tiny", revision="v2")) == []
    elsewhere = hub_cache("Qwen/Tiny")
    elsewhere["metadata"]["namespace"] = "other"
    assert warned(served, elsewhere) == []


def test_the_engine_need_not_be_the_first_container() -> None:
    served = deployment(VLLM, *LONG)
    containers = served["spec"]["engines"][0]["members"][0]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "meter", "image": "registry.example.com/meter:1"})
    [line] = warned(served)
    assert ".containers[1].args[1]: " in line


def test_nothing_is_at_hand_unless_it_is_given() -> None:
    assert validate([sources.Source("f", json.dumps(deployment(VLLM, *LONG)))]).problems == ()

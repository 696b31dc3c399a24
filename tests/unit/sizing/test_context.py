"""The longest context of a model, as each engine derives it."""

import json
from typing import Any

import pytest

from modelplane.sizing import context
from modelplane.sizing.architecture import parse_architecture
from modelplane.user_error import UserError

PLAIN = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "max_position_embeddings": 4096}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}


def lengths(config: dict[str, Any]) -> tuple[int, int, int]:
    """Return the longest contexts for vLLM, SGLang and llama.cpp."""
    model = parse_architecture(json.dumps(config).encode())
    return (
        context.find_vllm_length(model),
        context.find_sglang_length(model),
        context.find_llama_cpp_length(model),
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(PLAIN, (4096, 4096, 4096), id="the positions"),
        pytest.param({"text_config": PLAIN}, (4096, 4096, 4096), id="those of the text of a model of images"),
        pytest.param(
            PLAIN | {"max_position_embeddings": None}, (0, 0, 0), id="none are known, so none are exceeded"
        ),
        pytest.param(
            PLAIN | {"rope_scaling": {"type": "linear", "factor": 2.0}},
            (8192, 8192, 4096),
            id="a factor extends the positions",
        ),
        pytest.param(
            PLAIN | {"rope_scaling": YARN},
            (8192, 4096, 4096),
            id="YaRN extends the original positions for vLLM, and SGLang takes the extended ones",
        ),
        pytest.param(
            PLAIN | {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}},
            (16384, 16384, 4096),
            id="YaRN without original positions, by the newer name",
        ),
        pytest.param(
            PLAIN | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            (4096, 4096, 4096),
            id="the positions of Llama 3 are the extended ones",
        ),
        pytest.param(
            PLAIN | {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}},
            (4096, 4096, 4096),
            id="parameters that extend nothing",
        ),
        pytest.param(
            PLAIN
            | {
                "model_type": "gemma3_text",
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 8.0},
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            (4096, 32768, 4096),
            id="the positions of Gemma 3 are the extended ones for vLLM",
        ),
        pytest.param(
            PLAIN | {"model_max_length": 6000}, (6000, 6000, 4096), id="a length beside the positions"
        ),
    ],
)
def test_the_longest_context(config: dict[str, Any], expected: tuple[int, int, int]) -> None:
    assert lengths(config) == expected


@pytest.mark.parametrize(
    ("config", "changes", "longest"),
    [
        pytest.param(PLAIN, {"max_position_embeddings": 9000}, 9000, id="a value"),
        pytest.param(PLAIN, {"rope_scaling": YARN}, 8192, id="YaRN, by its older name"),
        pytest.param(
            PLAIN | {"rope_parameters": {"rope_type": "default"}},
            {"rope_scaling": YARN},
            8192,
            id="the older name over the newer one",
        ),
        pytest.param(
            {"text_config": PLAIN}, {"text_config": {"max_position_embeddings": 9000}}, 9000, id="nested"
        ),
        pytest.param({"text_config": PLAIN}, {"max_position_embeddings": 9000}, 9000, id="not nested"),
    ],
)
def test_changes_of_a_configuration(config: dict[str, Any], changes: dict[str, Any], longest: int) -> None:
    changed = context.replace_settings(json.dumps(config).encode(), json.dumps(changes))
    assert context.find_vllm_length(parse_architecture(changed)) == longest


@pytest.mark.parametrize("changes", ["", "[]", "{", '{"a": ' * 5000])
def test_changes_that_are_no_object_are_refused(changes: str) -> None:
    with pytest.raises(UserError, match="write a JSON object"):
        context.replace_settings(json.dumps(PLAIN).encode(), changes)


@pytest.mark.parametrize(
    "rope",
    [
        pytest.param({"factor": "two"}, id="no number"),
        pytest.param({"factor": -1}, id="a negative factor"),
        pytest.param({"factor": 1e300}, id="an endless context"),
        pytest.param({"rope_type": ["yarn"]}, id="no name"),
    ],
)
def test_a_hostile_embedding_is_refused(rope: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        parse_architecture(json.dumps(PLAIN | {"rope_scaling": rope}).encode())

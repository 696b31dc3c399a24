"""Architectures of configurations, of several families, and of hostile ones."""

import json
from typing import Any

import pytest

from modelplane.sizing.architecture import LayerKind, SequenceState, parse_architecture
from modelplane.user_error import UserError

PLAIN = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8}
FULL, SLIDING, STATE, NOTHING = LayerKind


def read(**more: Any):
    return parse_architecture(json.dumps(PLAIN | more).encode())


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        pytest.param({}, (FULL,) * 4, id="full"),
        pytest.param({"sliding_window": 128}, (SLIDING,) * 4, id="a window everywhere"),
        pytest.param({"sliding_window": 128, "use_sliding_window": False}, (FULL,) * 4, id="unused window"),
        pytest.param(
            {"sliding_window": 128, "max_window_layers": 3}, (FULL, FULL, FULL, SLIDING), id="a window on top"
        ),
        pytest.param(
            {"sliding_window": 128, "sliding_window_pattern": 2}, (SLIDING, FULL) * 2, id="every second full"
        ),
        pytest.param({"layer_types": ["sliding_attention"] * 4}, (FULL,) * 4, id="a window without a size"),
        pytest.param({"layer_types": ["something_new"] * 4}, (FULL,) * 4, id="an unknown kind is full"),
        pytest.param(
            {
                "hybrid_override_pattern": "M*-E", "mamba_num_heads": 2, "mamba_head_dim": 8,
                "ssm_state_size": 16,
            },
            (STATE, FULL, NOTHING, NOTHING),
            id="letters of Nemotron-H",
        ),
    ],
)  # fmt: skip
def test_layers_have_their_kinds(more: dict[str, Any], layers: tuple[LayerKind, ...]) -> None:
    assert read(**more).layers == layers


def test_the_state_of_mamba_is_that_of_its_formula() -> None:
    sizes = {"mamba_num_heads": 2, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 1, "conv_kernel": 4}
    found = read(hybrid_override_pattern="MM*-", **sizes)
    assert found.state == SequenceState(convolution=(16 + 2 * 16) * 3 * 2, recurrent=16 * 16 * 4)


def test_null_is_the_same_as_absent() -> None:
    assert read(sliding_window=None, num_key_value_heads=None, head_dim=None) == read()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"{", "truncated", id="no JSON"),
        pytest.param(b"[]", "not an object", id="a list"),
        pytest.param(b"{}", "num_hidden_layers", id="no sizes"),
        pytest.param(
            json.dumps(PLAIN | {"num_hidden_layers": 10**9}).encode(), "<= 2000", id="a billion layers"
        ),
        pytest.param(
            json.dumps(PLAIN | {"hidden_size": "x"}).encode(), "hidden_size", id="a text for a number"
        ),
        pytest.param(json.dumps(PLAIN | {"model_type": []}).encode(), "model_type", id="a list for a type"),
        pytest.param(
            json.dumps(PLAIN | {"layer_types": ["x"]}).encode(), ("layer types for 1"), id="too few kinds"
        ),
        pytest.param(json.dumps(PLAIN | {"kv_lora_rank": 512}).encode(), "qk_rope", id="half a latent"),
        pytest.param(
            json.dumps(PLAIN | {"full_attention_interval": 2}).encode(),
            "not supported",
            id="a state without a size",
        ),
        pytest.param(b'{"a": ' + b"[" * 99999, "", id="nested without end"),
    ],
)
def test_a_hostile_configuration_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_architecture(content)
    assert problem in str(refused.value)

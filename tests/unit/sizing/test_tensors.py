"""Headers of safetensors files: every entry is checked before it is counted."""

import json
from typing import Any

import pytest

from modelplane.sizing.architecture import parse_architecture
from modelplane.sizing.loaded_weights import Tensor, parse_header, sum_weights
from modelplane.user_error import UserError


def read(entries: Any) -> list[Tensor]:
    return list(parse_header(json.dumps(entries).encode(), "model.safetensors"))


def test_metadata_is_no_tensor() -> None:
    entry = {"dtype": "BF16", "shape": [3, 5], "data_offsets": [0, 30]}
    [found] = read({"__metadata__": {"format": "pt"}, "a.weight": entry})
    assert (found, found.elements, found.size) == (Tensor("a.weight", "BF16", (3, 5)), 15, 30)


def test_bytes_of_small_elements_are_rounded_up() -> None:
    [found] = read({"a": {"dtype": "F4", "shape": [3]}})
    assert found.size == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"{", "truncated", id="no JSON"),
        pytest.param(b"[1]", "Expected `object`", id="a list"),
        pytest.param(b'{"a": 1}', "Expected `object`", id="a number for an entry"),
        pytest.param(b'{"a": {"dtype": "BF16", "shape": [-1]}}', ">= 0", id="a negative dimension"),
        pytest.param(
            b'{"a": {"dtype": "BF16", "shape": [9999999999999]}}', "<= 10995", id="a huge dimension"
        ),
        pytest.param(
            b'{"a": {"dtype": "BF16", "shape": [1,1,1,1,1,1,1,1,1]}}', "length <= 8", id="nine dimensions"
        ),
        pytest.param(b'{"a": {"dtype": "X9", "shape": [1]}}', "no known size", id="an unknown dtype"),
        pytest.param(b'{"a": {"dtype": "BF16", "shape": ' + b"[" * 9999, "", id="nested without end"),
        pytest.param(b'{"\xff": 1}', "", id="no UTF-8"),
    ],
)
def test_a_hostile_header_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(UserError) as refused:
        list(parse_header(content, "model.safetensors"))
    assert problem in str(refused.value)


def test_more_than_a_pebibyte_is_refused() -> None:
    config = parse_architecture(b'{"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 1}')
    huge = Tensor("model.layers.0.mlp.up_proj.weight", "BF16", (2**40, 2**40))
    with pytest.raises(UserError, match="more than a pebibyte"):
        sum_weights(config, [huge])


def test_tensors_of_other_names_are_refused() -> None:
    config = parse_architecture(b'{"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 1}')
    with pytest.raises(UserError, match="tensor names"):
        sum_weights(config, [Tensor("something", "BF16", (2,))])

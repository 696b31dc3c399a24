"""Twelve released models: parameters, weights, KV cache and splits are those that are published."""

import functools
import json

import pytest

from modelplane.sizing.architecture import Architecture, LayerKind, parse_architecture
from modelplane.sizing.loaded_weights import Weights, sum_weights
from modelplane.sizing.memory import compute_token_bytes
from modelplane.sizing.splits import TENSOR_SIZES, Split, find_rejections
from support.checkpoint_shapes import CHECKPOINTS

GB = 10**9


@functools.cache
def sized(name: str) -> tuple[Architecture, Weights]:
    model = parse_architecture(json.dumps(CHECKPOINTS[name].config).encode())
    return model, sum_weights(model, CHECKPOINTS[name].tensors())


every = pytest.mark.parametrize("name", CHECKPOINTS)


@every
def test_parameters_are_exact(name: str) -> None:
    model, found = sized(name)
    assert (found.total, found.count_active(model)) == (CHECKPOINTS[name].total, CHECKPOINTS[name].active)


@every
def test_the_checkpoint_is_within_a_hundredth_of_its_size(name: str) -> None:
    _, found = sized(name)
    assert found.stored / GB == pytest.approx(CHECKPOINTS[name].gigabytes, rel=0.01)


@every
def test_a_token_takes_the_published_bytes(name: str) -> None:
    model, _ = sized(name)
    layers = sum(kind in {LayerKind.FULL, LayerKind.SLIDING} for kind in model.layers)
    assert layers * compute_token_bytes(model) == CHECKPOINTS[name].token


@every
def test_the_legal_tensor_sizes_are_the_published_ones(name: str) -> None:
    model, _ = sized(name)
    legal = tuple(
        size for size in TENSOR_SIZES if not find_rejections(model, model.quantization, Split(size))
    )
    assert legal == CHECKPOINTS[name].tensor_sizes

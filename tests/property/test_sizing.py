"""Sizes of models: what holds for every context, concurrency and split."""

import functools
import json

import pytest
from hypothesis import given, settings, strategies as st

from modelplane.sizing.architecture import parse_architecture
from modelplane.sizing.loaded_weights import PATTERNS, Role, find_role, sum_weights
from modelplane.sizing.memory import BATCHES, Load, Model, compute_memory
from modelplane.sizing.splits import Split, find_rejections, split_stages
from support.checkpoint_shapes import CHECKPOINTS

NAMES = (
    "google/gemma-3-4b-it",
    "openai/gpt-oss-20b",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "Qwen/Qwen3-8B-AWQ",
)
names = st.sampled_from(NAMES)
splits = st.builds(Split, st.integers(1, 64), st.integers(1, 8), st.booleans())
steps = st.sampled_from(BATCHES)
contexts = st.integers(1, 200_000)
sequences = st.integers(1, 500)
parts = st.sampled_from(
    (
        ".",
        "_",
        "mtp",
        "vision",
        "experts",
        "gate",
        "norm",
        "ln_",
        "attn",
        "k_proj",
        "mlp",
        "h",
        "0",
        "12",
        "\u0663",
    )
)


@functools.cache
def model(name: str) -> Model:
    found = parse_architecture(json.dumps(CHECKPOINTS[name].config).encode())
    return Model(found, sum_weights(found, CHECKPOINTS[name].tensors()), found.quantization)


@settings(deadline=None)
@given(names, splits, steps, contexts, contexts, sequences, sequences)
def test_memory_grows_with_context_and_concurrency(name, split, step, context, longer, few, more) -> None:
    less = compute_memory(model(name), split, Load(min(context, longer), min(few, more)), step)
    assert (
        less.total
        <= compute_memory(model(name), split, Load(max(context, longer), max(few, more)), step).total
    )


@settings(deadline=None)
@given(names, splits, steps)
def test_the_gpus_of_a_split_hold_the_whole_model(name, split, step) -> None:
    if find_rejections(model(name).architecture, model(name).quantization, split):
        return
    held = compute_memory(model(name), split, Load(1), step)
    assert held.weights * split.gpus >= model(name).weights.size
    assert held.weights <= model(name).weights.size


@given(names, splits)
def test_a_legal_split_divides_the_heads_and_widths(name, split) -> None:
    found = model(name).architecture
    if find_rejections(found, model(name).quantization, split):
        return
    assert found.heads % split.tensor == 0
    assert found.kv_heads % split.tensor == 0 or split.tensor % found.kv_heads == 0
    assert found.width % split.tensor == 0
    assert split.expert or found.expert_width % split.tensor == 0
    assert split.pipeline <= len(found.layers)


@given(names, splits, steps, contexts)
def test_as_many_sequences_as_fit_are_within_the_budget(name, split, step, context) -> None:
    one = compute_memory(model(name), split, Load(context), step)
    fitting = one.count_sequences(one.gpu)
    assert fitting >= 1
    assert compute_memory(model(name), split, Load(context, fitting), step).gpu <= one.gpu + one.sequence


@pytest.mark.parametrize("pipeline", range(1, 9))
@given(st.integers(8, 200))
def test_the_stages_cover_every_layer_once(pipeline, layers) -> None:
    found = split_stages(layers, pipeline)
    assert [layer for stage in found for layer in stage] == list(range(layers))
    assert max(map(len, found)) - min(map(len, found)) <= 1
    assert len(found[-1]) == min(map(len, found))


@given(st.lists(parts, max_size=8).map("".join))
def test_the_numbers_in_the_name_of_a_tensor_do_not_decide_its_role(name) -> None:
    assert find_role(name) is next((role for pattern, role in PATTERNS if pattern.search(name)), Role.OTHER)

# ruff: noqa: INP001  a module beside what it helps to write, not a package
"""The reference page of sizes: what sizing predicts for released models, beside what is published of them."""

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from modelplane.sizing.architecture import LayerKind, parse_architecture
from modelplane.sizing.loaded_weights import PRECISIONS, sum_weights
from modelplane.sizing.memory import (
    BLOCK,
    GIB,
    Load,
    Model,
    choose_batch,
    compute_memory,
    compute_token_bytes,
)
from modelplane.sizing.splits import TENSOR_SIZES, Split, find_best_split, find_rejections
from support.checkpoint_shapes import CHECKPOINTS

GB: Final = 10**9
_SHORT: Final = 2048
"""Tokens of a short sequence."""


class Minimum(NamedTuple):
    """A published minimum of GPU memory, in GB over all GPUs."""

    model: str
    precision: str
    """The format that the checkpoint is converted to; empty for its own."""
    gigabytes: int
    split: Split
    """The GPUs that it is published for; one, if there is no word of them."""
    gpu_gib: int
    """Memory of each."""


MINIMA: Final = (
    Minimum("Qwen/Qwen3-8B", "", 20, Split(), 22),
    Minimum("meta-llama/Llama-3.1-8B-Instruct", "", 20, Split(), 22),
    Minimum("meta-llama/Llama-3.1-8B-Instruct", "fp8", 10, Split(), 22),
    Minimum("meta-llama/Llama-3.1-8B-Instruct", "int4", 5, Split(), 22),
    Minimum("Qwen/Qwen3-30B-A3B", "", 74, Split(), 80),
    Minimum("Qwen/Qwen3-Coder-480B-A35B-Instruct", "", 1152, Split(8, 2), 140),
    Minimum("Qwen/Qwen3-Coder-480B-A35B-Instruct", "fp8", 576, Split(8), 140),
    Minimum("openai/gpt-oss-20b", "", 16, Split(), 22),
    Minimum("deepseek-ai/DeepSeek-V3", "", 805, Split(8), 140),
    Minimum("moonshotai/Kimi-K2-Instruct", "", 1200, Split(8, 2), 140),
    Minimum("Qwen/Qwen3-Next-80B-A3B-Instruct", "", 192, Split(4), 80),
    Minimum("Qwen/Qwen3-Next-80B-A3B-Instruct", "fp8", 96, Split(4), 80),
)
"""Those of vLLM's recipes of 2026-08-21, which are total parameters x bytes x 1.2, rounded up."""

_INTRODUCTION: Final = """# Sizes of released models

This page compares the predictions of [`modelplane size`](../how-to/size.md) for twelve released models with
the published figures. Tests make the same comparison. They read the models from folders, and with the hub's
own client from a hub on loopback that rejects requests, closes connections and redirects. The checkpoints in
the tests contain the released configurations, and headers with the tensor shapes, but no weights.
"""
_WEIGHTS: Final = """## Parameters and weights

Parameters are exact. Published checkpoint sizes are rounded.
"""
_CACHE: Final = """## KV cache and splits

The table shows the bytes of KV cache for one token, if every attention layer keeps the token, and the tensor
parallel sizes up to 32 that engines accept. For every model, both are equal to the published figures.
"""
_BOUNDS: Final = """## Published minima

vLLM's recipes publish a minimum amount of GPU memory for some models. This minimum is not measured. It is
computed as total parameters x bytes x 1.2. This page therefore compares it with these bounds: the loaded
weights, and the memory that the split needs for one short sequence of 2,048 tokens and for one sequence of
the longest context. Figures are in GB across all GPUs in the split, including the 8 % that vLLM doesn't use.
FP8 and INT4 are computed as with `--quantization`.

If the memory is smaller than the weights, the model can't be loaded. If the memory is smaller than a short
sequence needs, the runtime and activations may not fit, based on measurements of other models, so the engine
may not start.
"""


def sizing_page() -> str:
    """Return the page as Markdown."""
    return "\n".join(
        (
            _INTRODUCTION,
            _WEIGHTS,
            *_table(
                ("Model", "Parameters", "Published", "Active", "Checkpoint", "Published", "Off"), _weights()
            ),
            "",
            _CACHE,
            *_table(("Model", "Bytes per token", "Longest context", "Tensor parallel sizes"), _caches()),
            "",
            _BOUNDS,
            *_table(
                (
                    "Model",
                    "Format",
                    "Split",
                    "Weights",
                    "Short",
                    "Longest",
                    "Published",
                    "The published figure is",
                ),
                map(_bound, MINIMA),
            ),
            "",
        )
    )


@functools.cache
def model_of(name: str, precision: str = "") -> Model:
    """Return a released model, as if it were converted to another format where one is given."""
    checkpoint = CHECKPOINTS[name]
    found = parse_architecture(json.dumps(checkpoint.config).encode())
    format_ = PRECISIONS[precision] if precision else None
    return Model(
        found,
        sum_weights(found, checkpoint.tensors(), format_),
        format_.quantization if format_ else found.quantization,
    )


def _weights() -> Iterator[tuple[str, ...]]:
    for name, published in CHECKPOINTS.items():
        model = model_of(name)
        stored = model.weights.stored / GB
        yield (
            name,
            f"{model.weights.total:,}",
            _same(model.weights.total, published.total),
            f"{model.weights.count_active(model.architecture):,}",
            f"{stored:,.2f} GB",
            f"{published.gigabytes:,} GB",
            f"{(stored / published.gigabytes - 1) * 100:+.2f} %",
        )


def _same(found: int, published: int) -> str:
    return "equal" if found == published else f"{published:,}"


def _caches() -> Iterator[tuple[str, ...]]:
    for name in CHECKPOINTS:
        model = model_of(name)
        kept = sum(each in {LayerKind.FULL, LayerKind.SLIDING} for each in model.architecture.layers)
        yield (
            name,
            f"{kept * compute_token_bytes(model.architecture):,}",
            f"{model.architecture.max_positions:,}",
            ", ".join(str(each) for each in TENSOR_SIZES if not _rejections(model, Split(each))),
        )


def _rejections(model: Model, split: Split) -> tuple[str, ...]:
    return find_rejections(model.architecture, model.quantization, split)


def _bound(row: Minimum) -> tuple[str, ...]:
    model = model_of(row.model, row.precision)
    split = find_best_split(model.architecture, model.quantization, row.split.tensor, row.split.pipeline)
    bounds = [model.weights.size / GB]
    for context in (_SHORT, model.architecture.max_positions // BLOCK * BLOCK):
        needed = compute_memory(model, split, Load(context), choose_batch(row.gpu_gib * GIB))
        bounds.append(needed.gpu * split.gpus / GB)
    return (
        row.model,
        row.precision.upper() or (model.quantization.method.upper() if model.quantization else "BF16"),
        str(split),
        *(f"{each:,.1f}" for each in bounds),
        f"{row.gigabytes:,}",
        _place(row.gigabytes, bounds),
    )


def _place(published: int, bounds: list[float]) -> str:
    least, short, longest = bounds
    if published < least:
        return "**below the weights**"
    if published < short:
        return "**below a short sequence**"
    return "within the bounds" if published <= longest else "above the bounds"


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    columns = (*columns,)
    for row in (columns, ("---",) * len(columns), *rows):
        yield f"| {' | '.join(row)} |"

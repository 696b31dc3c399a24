"""Splits: which tensor, pipeline and expert parallel sizes an engine accepts.

The rules are those that vLLM and SGLang share. Tensor parallelism is within a node, and a pipeline has one
stage for each node.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from modelplane.sizing.architecture import Architecture, Quantization
from modelplane.sizing.loaded_weights import MXFP4_BLOCK

TENSOR_SIZES: Final = (1, 2, 4, 8, 16, 32)
PIPELINE_SIZES: Final = (1, 2, 4)
_MARLIN_OUT: Final = 64
"""Outputs of a matrix on one GPU are a multiple of this, for the kernels of INT4."""
_INT4: Final = frozenset({"awq", "gptq", "compressed-tensors"})

_ANY_NUMBER_OF_EXPERTS: Final = frozenset({"mixtral"})
"""Types of models whose class in vLLM does not compare the number of experts with that of GPUs."""


class Split(NamedTuple):
    """The parallel sizes of one replica of a model."""

    tensor: int = 1
    pipeline: int = 1
    expert: bool = False
    """Whole experts are divided over the GPUs of a stage, instead of each expert."""

    @property
    def gpus(self) -> int:
        """The GPUs of the replica."""
        return self.tensor * self.pipeline

    def __str__(self) -> str:
        parts = [f"TP {self.tensor}"]
        if self.pipeline > 1:
            parts.append(f"PP {self.pipeline}")
        if self.expert:
            parts.append(f"EP {self.tensor}")
        return " ".join(parts)


def find_best_split(
    model: Architecture, quantization: Quantization | None, tensor: int, pipeline: int
) -> Split:
    """Return a split of these sizes: with whole experts only where experts cannot be divided otherwise."""
    divided, whole = Split(tensor, pipeline), Split(tensor, pipeline, expert=True)
    is_whole = find_rejections(model, quantization, divided) and not find_rejections(
        model, quantization, whole
    )
    return whole if is_whole else divided


def find_rejections(model: Architecture, quantization: Quantization | None, split: Split) -> tuple[str, ...]:
    """Return why engines refuse a split; empty if it is legal."""
    return tuple(dict.fromkeys((*_divisions(model, split), *_units(model, quantization, split))))


def _divisions(model: Architecture, split: Split) -> Iterator[str]:
    tensor, kv = split.tensor, model.kv_heads
    if model.heads % tensor:
        yield f"{model.heads} attention heads are not divisible by {tensor}"
    if not model.latent and kv % tensor and tensor % kv:
        yield f"{kv} KV heads are neither divisible by {tensor} nor divide it"
    for what, width in _widths(model, split):
        if width % tensor:
            yield f"{what} width {width} is not divisible by {tensor}"
    if model.experts and tensor > model.experts and model.model_type not in _ANY_NUMBER_OF_EXPERTS:
        yield f"TP {tensor} is greater than the number of experts, {model.experts}"
    if split.pipeline > len(model.layers):
        yield f"{len(model.layers)} layers are fewer than the {split.pipeline} stages"
    if split.expert and not model.experts:
        yield "the model has no experts"


def _widths(model: Architecture, split: Split) -> Iterator[tuple[str, int]]:
    """Yield the widths that tensor parallelism divides."""
    if model.width:
        yield "MLP", model.width
    if model.expert_width and not split.expert:
        yield "expert", model.expert_width


def _units(model: Architecture, quantization: Quantization | None, split: Split) -> Iterator[str]:
    """Yield the units of quantization that a split would cut."""
    if quantization is None or split.tensor == 1:
        return
    tensor = split.tensor
    heads = [] if model.latent else [("attention", model.heads * model.head_dim)]
    for what, width in (*heads, *_widths(model, split)):
        part = width // tensor
        if quantization.block and part % quantization.block:
            unit = f"the FP8 block {quantization.block}"
            yield f"{what} width {width} / {tensor} = {part} is not a multiple of {unit}"
        # Of compressed tensors, only the experts are quantized.
        if quantization.method == "compressed-tensors" and what != "expert":
            continue
        if quantization.method in _INT4 and quantization.bits == 4:
            if quantization.group and part % quantization.group:
                group = f"a group of {quantization.group} INT4 weights"
                yield f"{what} width {width} / {tensor} = {part} cuts {group}"
            if part % _MARLIN_OUT:
                yield f"{what} width {width} / {tensor} = {part} is not a multiple of {_MARLIN_OUT}, for INT4"
        if quantization.method == "mxfp4" and what == "expert":
            blocks = -(-width // MXFP4_BLOCK)
            if -(-blocks // tensor) * (tensor - 1) >= blocks:
                yield f"{blocks} MXFP4 blocks of an expert leave a GPU of {tensor} with none"


def split_stages(layers: int, pipeline: int) -> tuple[range, ...]:
    """Return the layers of each stage, as vLLM divides them: the last stage gets no remainder."""
    sizes = [layers // pipeline] * pipeline
    for stage in range(layers % pipeline):
        sizes[-2 - stage] += 1
    ends = [sum(sizes[: stage + 1]) for stage in range(pipeline)]
    return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))

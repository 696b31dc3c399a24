"""Memory: what one GPU holds, and whether that is within the engine's budget.

vLLM takes 0.92 of a GPU's memory. Weights, the runtime, communication and activations come first; the rest
is KV cache. Figures of the runtime and of activations are the highest that KAITO measured over many models,
those of communication NCCL's buffers as aiconfigurator measured them.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from modelplane.sizing.architecture import Architecture, Quantization
from modelplane.sizing.kv_cache import sequence_bytes
from modelplane.sizing.loaded_weights import Weights
from modelplane.sizing.splits import Split, stages
from modelplane.sizing.tensor_roles import DIVIDED, Role

MIB: Final = 2**20
GIB: Final = 2**30
UTILIZATION: Final = Fraction(92, 100)
RUNTIME: Final = 6 * GIB // 10
LEAST_ACTIVATIONS: Final = 17 * GIB // 10
_NCCL: Final = {1: 0, 2: 342 * MIB}
_NCCL_MANY: Final = 392 * MIB


class Batch(NamedTuple):
    """Defaults of a vLLM server on GPUs of at least ``gpu_gib``."""

    gpu_gib: int
    tokens: int
    """Tokens of one step (max-num-batched-tokens)."""
    sequences: int
    """Sequences of one step (max-num-seqs)."""


BATCHES: Final = (Batch(160, 16384, 1024), Batch(70, 8192, 1024), Batch(0, 2048, 256))


def batch(gpu_bytes: int) -> Batch:
    """Return the defaults for a GPU."""
    return next(each for each in BATCHES if gpu_bytes >= each.gpu_gib * GIB)


class Load(NamedTuple):
    """Requests that the model is to serve."""

    context: int
    """Tokens of a sequence, prompt and answer."""
    concurrency: int = 1
    """Sequences of that length at the same time."""
    element: int = 2
    """Bytes of an element of the KV cache."""


class Memory(NamedTuple):
    """The parts of one GPU's memory, in bytes."""

    weights: int
    cache: int
    sequence: int
    """KV cache of one sequence."""
    overhead: int
    """Runtime, communication and activations."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.overhead

    @property
    def gpu(self) -> int:
        """The memory of the smallest GPU whose budget it is within."""
        return -(-self.total * UTILIZATION.denominator // UTILIZATION.numerator)

    def concurrency(self, gpu: int) -> int:
        """Return the number of sequences that a GPU of this memory has room for."""
        left = gpu * UTILIZATION.numerator // UTILIZATION.denominator - self.weights - self.overhead
        return max(left, 0) // self.sequence if self.sequence else 0


@dataclass(frozen=True, slots=True)
class Model:
    """A model to serve: its architecture, weights, and the quantization in which it is served."""

    architecture: Architecture
    weights: Weights
    quantization: Quantization | None


def memory(model: Model, split: Split, load: Load, step: Batch) -> Memory:
    """Return the memory of the fullest GPU of a split."""
    architecture = model.architecture
    weights = cache = sequence = 0
    for number, layers in enumerate(stages(len(architecture.layers), split.pipeline)):
        one = sequence_bytes(
            architecture,
            [architecture.layers[each] for each in layers],
            load.context,
            step_tokens=step.tokens,
            tensor=split.tensor,
            element=load.element,
        )
        held = _stage_weights(model, split, layers, is_first=number == 0)
        if held + one * load.concurrency > weights + cache:
            weights, cache, sequence = held, one * load.concurrency, one
    nccl = _NCCL.get(split.gpus, _NCCL_MANY)
    return Memory(weights, cache, sequence, RUNTIME + nccl + activations(architecture, split, step))


def _stage_weights(model: Model, split: Split, layers: range, *, is_first: bool) -> int:
    """Return the bytes of weights on a GPU of a stage."""
    is_last = layers.stop == len(model.architecture.layers)
    total = 0
    for role, size in model.weights.outside.items():
        is_tied = role is Role.EMBEDDING and Role.HEAD not in model.weights.outside
        here = {
            Role.EMBEDDING: is_first or (is_last and is_tied),
            Role.HEAD: is_last,
            Role.VISION: is_first,
        }.get(role, True)
        total += _share(model.architecture, role, size, split) if here else 0
    for layer in layers:
        total += sum(
            _share(model.architecture, role, size, split)
            for role, size in model.weights.layers[layer].items()
        )
    return total


def _share(model: Architecture, role: Role, size: int, split: Split) -> int:
    """Return a GPU's part of the tensors of a role."""
    if role not in DIVIDED:
        return size
    if role is Role.EXPERTS and split.expert:
        return -(-size * -(-model.experts // split.tensor) // model.experts)
    if role is Role.KEY_VALUE:
        return -(-size // min(split.tensor, model.kv_heads))
    return -(-size // split.tensor)


def activations(model: Architecture, split: Split, step: Batch) -> int:
    """Return an estimate of the peak of one step, at least what was measured."""
    width = model.expert_width if split.expert else -(-model.expert_width // split.tensor)
    dense = 2 * step.tokens * (3 * -(-model.width // split.tensor) + 4 * model.hidden)
    experts = 2 * step.tokens * model.experts_per_token * 3 * width
    sampler = step.sequences * model.vocabulary * 4 * 2
    return max(LEAST_ACTIVATIONS, dense + experts + sampler)

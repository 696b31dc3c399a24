"""Memory: what one GPU holds, and whether that is within the engine's budget.

vLLM takes 0.92 of a GPU's memory. Weights, the runtime, communication and activations come first; the rest
is KV cache. Figures of the runtime and of activations are the highest that KAITO measured over many models,
those of communication NCCL's buffers as aiconfigurator measured them.

vLLM allocates the KV cache in blocks of 16 tokens. A layer with a sliding window keeps the window and the
tokens of one step. Layers with and without a window are put in groups of equal size, and short groups are
padded. A state is of a fixed size for each sequence.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from modelplane.sizing.architecture import Architecture, LayerKind, Quantization
from modelplane.sizing.loaded_weights import DIVIDED, Role, Weights
from modelplane.sizing.splits import Split, split_stages

MIB: Final = 2**20
GIB: Final = 2**30
UTILIZATION: Final = Fraction(92, 100)
RUNTIME: Final = 6 * GIB // 10
LEAST_ACTIVATIONS: Final = 17 * GIB // 10
_NCCL: Final = {1: 0, 2: 342 * MIB}
_NCCL_MANY: Final = 392 * MIB

BLOCK: Final = 16
"""Tokens of a block."""


class Batch(NamedTuple):
    """Defaults of a vLLM server on GPUs of at least ``gpu_gib``."""

    gpu_gib: int
    tokens: int
    """Tokens of one step (max-num-batched-tokens)."""
    sequences: int
    """Sequences of one step (max-num-seqs)."""


BATCHES: Final = (Batch(160, 16384, 1024), Batch(70, 8192, 1024), Batch(0, 2048, 256))


def choose_batch(gpu_bytes: int) -> Batch:
    """Return the defaults for a GPU."""
    return next(default for default in BATCHES if gpu_bytes >= default.gpu_gib * GIB)


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

    def count_sequences(self, gpu: int) -> int:
        """Return the number of sequences that a GPU of this memory has room for."""
        left = gpu * UTILIZATION.numerator // UTILIZATION.denominator - self.weights - self.overhead
        return max(left, 0) // self.sequence if self.sequence else 0


@dataclass(frozen=True, slots=True)
class Model:
    """A model to serve: its architecture, weights, and the quantization in which it is served."""

    architecture: Architecture
    weights: Weights
    quantization: Quantization | None


def compute_memory(model: Model, split: Split, load: Load, step: Batch) -> Memory:
    """Return the memory of the fullest GPU of a split."""
    architecture = model.architecture
    weights = cache = sequence = 0
    for number, layers in enumerate(split_stages(len(architecture.layers), split.pipeline)):
        one = compute_sequence_bytes(
            architecture,
            [architecture.layers[layer] for layer in layers],
            load.context,
            step_tokens=step.tokens,
            tensor=split.tensor,
            element=load.element,
        )
        held = _stage_weights(model, split, layers, is_first=number == 0)
        if held + one * load.concurrency > weights + cache:
            weights, cache, sequence = held, one * load.concurrency, one
    nccl = _NCCL.get(split.gpus, _NCCL_MANY)
    return Memory(weights, cache, sequence, RUNTIME + nccl + estimate_activations(architecture, split, step))


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


def estimate_activations(model: Architecture, split: Split, step: Batch) -> int:
    """Return an estimate of the peak of one step, at least what was measured."""
    width = model.expert_width if split.expert else -(-model.expert_width // split.tensor)
    dense = 2 * step.tokens * (3 * -(-model.width // split.tensor) + 4 * model.hidden)
    experts = 2 * step.tokens * model.experts_per_token * 3 * width
    sampler = step.sequences * model.vocabulary * 4 * 2
    return max(LEAST_ACTIVATIONS, dense + experts + sampler)


def compute_token_bytes(model: Architecture, tensor: int = 1, element: int = 2) -> int:
    """Return the bytes of a token in one layer of one GPU.

    Tensor parallelism divides the heads of keys and values, of which each GPU has at least one. It does not
    divide the latent of MLA.
    """
    if model.latent:
        return model.latent * element + model.index
    return 2 * -(-model.kv_heads // tensor) * model.head_dim * element


def compute_sequence_bytes(
    model: Architecture,
    layers: Sequence[LayerKind],
    context: int,
    *,
    step_tokens: int,
    tensor: int = 1,
    element: int = 2,
) -> int:
    """Return the bytes of one sequence of ``context`` tokens in some layers of one GPU.

    ``step_tokens`` is the number of tokens that the engine computes in one step.
    """
    kinds = Counter(layers)
    full, sliding = _padded(kinds[LayerKind.FULL], kinds[LayerKind.SLIDING])
    windowed = _blocks(min(model.window - 1 + step_tokens, context)) + 1
    blocks = full * _blocks(context) + sliding * windowed
    return blocks * BLOCK * compute_token_bytes(model, tensor, element) + kinds[
        LayerKind.STATE
    ] * compute_state_bytes(model, tensor)


def compute_state_bytes(model: Architecture, tensor: int = 1) -> int:
    """Return the bytes of the state of one sequence in one layer of one GPU."""
    if model.state is None:
        return 0
    return -(-(model.state.convolution + model.state.recurrent) // tensor)


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)


def _padded(full: int, sliding: int) -> tuple[int, int]:
    """Return the numbers of layers that are charged for."""
    fewest, most = sorted((full, sliding))
    if not fewest:
        return full, sliding
    group = most if most < 1.5 * fewest else fewest
    return -(-full // group) * group, -(-sliding // group) * group

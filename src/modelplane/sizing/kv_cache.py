"""KV cache: the bytes that sequences take on one GPU, as vLLM allocates them.

A block has 16 tokens. A layer with a sliding window keeps the window and the tokens of one step. Layers with
and without a window are put in groups of equal size, and short groups are padded. A state is of a fixed size
for each sequence.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from modelplane.sizing.architecture import Architecture, LayerKind

BLOCK: Final = 16
"""Tokens of a block."""


def token_bytes(model: Architecture, tensor: int = 1, element: int = 2) -> int:
    """Return the bytes of a token in one layer of one GPU.

    Tensor parallelism divides the heads of keys and values, of which each GPU has at least one. It does not
    divide the latent of MLA.
    """
    if model.latent:
        return model.latent * element + model.index
    return 2 * -(-model.kv_heads // tensor) * model.head_dim * element


def sequence_bytes(
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
    return blocks * BLOCK * token_bytes(model, tensor, element) + kinds[LayerKind.STATE] * state_bytes(
        model, tensor
    )


def state_bytes(model: Architecture, tensor: int = 1) -> int:
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

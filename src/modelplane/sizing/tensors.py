"""Tensors: the entries of safetensors headers, which are hostile until decoded here, and the role of each.

The role decides how a split divides the tensor, and whether quantization changes it.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import prod
from typing import Annotated, Final, NamedTuple

import msgspec

from modelplane.api.schema.decode import convert
from modelplane.user_error import UserError

MAX_HEADER_BYTES: Final = 100_000_000
"""The limit of the safetensors format."""
MAX_TENSORS: Final = 2_000_000
"""Of one model, over all its files."""
MAX_SHARDS: Final = 2_000

_BITS: Final[Mapping[str, int]] = {
    "F64": 64, "I64": 64, "U64": 64,
    "F32": 32, "I32": 32, "U32": 32,
    "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""Bits of one element, by dtype of the format."""

_Dimension = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Shape = Annotated[tuple[_Dimension, ...], msgspec.Meta(max_length=8)]

_LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.")


class Role(StrEnum):
    """The part of a model that a tensor belongs to."""

    EMBEDDING = "embedding"
    HEAD = "output head"
    ATTENTION = "attention"
    KEY_VALUE = "key and value projections"
    LATENT = "latent projections"
    MLP = "MLP"
    EXPERTS = "experts"
    ROUTER = "router"
    NORM = "norms"
    VISION = "vision and audio"
    OTHER = "other"
    NOT_LOADED = "not loaded"


_PATTERNS: Final = (
    (r"(^|\.)(rotary_emb|rotary)\.inv_freq$", Role.NOT_LOADED),
    (r"(^|\.)mtp\.", Role.NOT_LOADED),
    (r"(^|\.)(vision|visual|audio)[a-z_]*\.|(^|\.)(multi_modal|mm)_projector\.", Role.VISION),
    (r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|embeddings)\.", Role.EMBEDDING),
    (r"(^|\.)(lm_head|embed_out)\.", Role.HEAD),
    (r"\.experts\.", Role.EXPERTS),
    (r"(\.|_)gate\.|\.router\.|e_score_correction_bias$", Role.ROUTER),
    (r"norm|(^|\.)ln_", Role.NORM),
    (r"\.(q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj)\.", Role.LATENT),
    (r"attn\.(k|v)_proj\.|attention\.(k|v)_proj\.", Role.KEY_VALUE),
    (r"attn|attention|\.mixer\.|mamba", Role.ATTENTION),
    (r"mlp|feed_forward|ffn|shared_expert|block_sparse_moe", Role.MLP),
)


"""Patterns in order: the first that matches gives the role."""


_COMPILED: Final = tuple((re.compile(pattern), role) for pattern, role in _PATTERNS)


DIVIDED: Final = frozenset(
    {Role.EMBEDDING, Role.HEAD, Role.ATTENTION, Role.KEY_VALUE, Role.MLP, Role.EXPERTS}
)


"""Roles that tensor parallelism divides; each GPU of a group holds the others whole."""


QUANTIZED: Final = frozenset({Role.ATTENTION, Role.KEY_VALUE, Role.LATENT, Role.MLP, Role.EXPERTS})


"""Roles whose matrices quantization changes."""


def find_role(name: str) -> Role:
    """Return the role of a tensor."""
    return next((role for pattern, role in _COMPILED if pattern.search(name)), Role.OTHER)


def find_layer(name: str) -> int | None:
    """Return the layer of a tensor; None outside the layers."""
    match = _LAYER.search(name)
    return int(match[1]) if match else None


class Tensor(NamedTuple):
    """A tensor of a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return prod(self.shape)

    @property
    def size(self) -> int:
        """Its bytes."""
        return -(-self.elements * _BITS[self.dtype] // 8)


class _Entry(msgspec.Struct, frozen=True):
    dtype: str
    shape: _Shape


# Made once: msgspec must not analyze a type in two threads.
_HEADER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRY: Final = msgspec.json.Decoder(_Entry)


def parse_header(content: bytes, file: str) -> Iterator[Tensor]:
    """Yield the tensors of the JSON of a header. Raises ``UserError``."""
    remedy = "download the file again"
    try:
        entries = _HEADER.decode(content)
        entries.pop("__metadata__", None)
        for name, raw in entries.items():
            entry = _ENTRY.decode(raw)
            yield _known(Tensor(name, entry.dtype, entry.shape), file)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(f'cannot read the header of "{file}": {error}: {remedy}') from error


def parse_tensor(name: str, dtype: str, shape: object, file: str) -> Tensor:
    """Return a tensor that a library read from a header. Raises ``UserError``."""
    try:
        return _known(Tensor(name, dtype, convert(shape, _Shape)), file)
    except msgspec.ValidationError as error:
        raise UserError(f'tensor {name[:200]!a} of "{file}" has a shape that is none: {error}') from error


def _known(tensor: Tensor, file: str) -> Tensor:
    if tensor.dtype not in _BITS:
        raise UserError(
            f'tensor {tensor.name[:200]!a} of "{file}" has the dtype {tensor.dtype[:32]!a}, '
            "which has no known size: convert the checkpoint to a dtype of the safetensors format"
        )
    return tensor

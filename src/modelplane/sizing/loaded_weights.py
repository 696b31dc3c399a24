"""Weights: the tensors that an engine loads, summed by role and layer.

The headers win over every formula: bytes are the product of each shape and its dtype. Layers beyond those of
the configuration are for speculative decoding (MTP), and are stored but not loaded. So is the output head of
a model whose embedding stands for it. A precision is the bytes of quantized weights, and their units that a
split may not cut.

The role decides how a split divides the tensor, and whether quantization changes it.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import prod
from typing import Annotated, Final, NamedTuple

import msgspec

from modelplane.api.schema.decode import convert
from modelplane.sizing.architecture import Architecture, Quantization
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

_NUMBER: Final = re.compile(r"\d+")
_KINDS: Final = 1024
"""More than any model has; a hostile file may have more."""
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


PATTERNS: Final = tuple(
    (re.compile(pattern), role)
    for pattern, role in (
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
)
"""Patterns in order: the first that matches gives the role."""

DIVIDED: Final = frozenset(
    {Role.EMBEDDING, Role.HEAD, Role.ATTENTION, Role.KEY_VALUE, Role.MLP, Role.EXPERTS}
)
"""Roles that tensor parallelism divides; each GPU of a group holds the others whole."""

QUANTIZED: Final = frozenset({Role.ATTENTION, Role.KEY_VALUE, Role.LATENT, Role.MLP, Role.EXPERTS})
"""Roles whose matrices quantization changes."""


def find_role(name: str) -> Role:
    """Return the role of a tensor."""
    # The tensors of all layers and experts differ only in numbers, which no pattern has.
    return _find_role_of_kind(_NUMBER.sub("0", name))


@functools.lru_cache(_KINDS)
def _find_role_of_kind(name: str) -> Role:
    return next((role for pattern, role in PATTERNS if pattern.search(name)), Role.OTHER)


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
        raise UserError(f'tensor {name[:200]!a} of "{file}" has an invalid shape: {error}') from error


def _known(tensor: Tensor, file: str) -> Tensor:
    if tensor.dtype not in _BITS:
        raise UserError(
            f'tensor {tensor.name[:200]!a} of "{file}" has the dtype {tensor.dtype[:32]!a}, '
            "which has no known size: convert the checkpoint to a dtype of the safetensors format"
        )
    return tensor


Bytes = Mapping[Role, int]

MAX_BYTES: Final = 2**50
"""Of weights, and of KV cache. What a hostile file claims beyond it would not fit into a document."""

MXFP4_BLOCK: Final = 32
"""Weights that share a scale."""

_SCALES: Final = (
    "scale", "scales", "_scale_inv", "_scale_2", "zeros", "zero_point", "g_idx", "weight_shape",
)  # fmt: skip
"""Endings of the names of tensors that only say how others are quantized."""

_PACKED_BITS: Final = {"I32": 32, "U8": 8}
_PACKED: Final = ("qweight", "weight_packed", "_blocks", ".weight")


@dataclass(frozen=True, slots=True)
class Precision:
    """A format that matrices of a 16-bit checkpoint may be converted to."""

    bytes_per_weight: Fraction
    """Bytes of a weight, with its part of the scales."""
    quantization: Quantization


PRECISIONS: Final[Mapping[str, Precision]] = {
    "fp8": Precision(Fraction(1), Quantization("fp8", 8)),
    "int4": Precision(Fraction(1, 2) + Fraction(5, 2) / 128, Quantization("awq", 4, group=128)),
    "mxfp4": Precision(Fraction(1, 2) + Fraction(1, 32), Quantization("mxfp4", 4)),
    "nvfp4": Precision(Fraction(1, 2) + Fraction(1, 16), Quantization("nvfp4", 4)),
}
"""Formats by name: FP8 with a scale per matrix, INT4 as AWQ with groups of 128, MXFP4 and NVFP4."""


def count_parameters(tensor: Tensor, quantization: Quantization | None) -> int:
    """Return the parameters that a tensor holds: several in one element of a packed one, none in scales."""
    if tensor.name.endswith(_SCALES):
        return 0
    if tensor.dtype in _PACKED_BITS and tensor.name.endswith(_PACKED):
        return tensor.elements * _PACKED_BITS[tensor.dtype] // (quantization.bits if quantization else 4)
    return tensor.elements


def is_matrix(tensor: Tensor) -> bool:
    """Return True if quantization would convert a tensor: a 16-bit matrix, or one for each expert."""
    return tensor.dtype in {"BF16", "F16"} and len(tensor.shape) >= 2 and "conv" not in tensor.name


def convert_size(tensor: Tensor, precision: Precision) -> int:
    """Return the bytes of a matrix in another format."""
    size = tensor.elements * precision.bytes_per_weight
    return -(-size.numerator // size.denominator)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model as served, in bytes, and its parameters."""

    parameters: Mapping[Role, int]
    sizes: Bytes
    outside: Bytes
    """Outside the layers."""
    layers: tuple[Bytes, ...]
    stored: int
    """Bytes of the checkpoint, with what is not loaded."""

    @property
    def total(self) -> int:
        """The parameters that are loaded."""
        return sum(self.parameters.values()) - self.parameters.get(Role.NOT_LOADED, 0)

    @property
    def size(self) -> int:
        """The bytes that are loaded."""
        return sum(self.sizes.values())

    def count_active(self, model: Architecture) -> int:
        """Return the parameters that compute one token: of the experts, those that are chosen."""
        experts = self.parameters.get(Role.EXPERTS, 0)
        idle = experts * (model.experts - model.experts_per_token) // model.experts if model.experts else 0
        return self.total - idle


def sum_weights(
    model: Architecture, tensors: Iterable[Tensor], precision: Precision | None = None
) -> Weights:
    """Return the weights of a checkpoint, in another precision where one is given. Raises ``UserError``."""
    if precision is not None and model.quantization is not None:
        raise UserError(
            f"the checkpoint is already quantized ({model.quantization.method or 'quantization_config'}): "
            "omit --quantization, or use the 16-bit checkpoint"
        )
    count: Counter[Role] = Counter()
    outside: Counter[Role] = Counter()
    layers: list[Counter[Role]] = [Counter() for _ in model.layers]
    stored = read = 0
    for tensor in tensors:
        read += 1
        if read > MAX_TENSORS:
            raise UserError(
                f"the checkpoint contains more than {MAX_TENSORS:,} tensors, so it is not a model"
            )
        role, place = _role(model, tensor), find_layer(tensor.name)
        count[role] += count_parameters(tensor, model.quantization)
        stored += tensor.size
        if role is Role.NOT_LOADED:
            continue
        changes = precision is not None and role in QUANTIZED and is_matrix(tensor)
        size = convert_size(tensor, precision) if precision and changes else tensor.size
        where = outside if place is None or role is Role.VISION else layers[place]
        where[role] += size
    if stored > MAX_BYTES:
        raise UserError("the headers claim more than a pebibyte: download the checkpoint again")
    if not any(layers):
        raise UserError(
            "no tensor belongs to a layer, because the tensor names don't follow transformers: convert the "
            "checkpoint"
        )
    sizes = sum(layers, outside.copy())
    return Weights(dict(count), dict(sizes), dict(outside), tuple(map(dict, layers)), stored)


def _role(model: Architecture, tensor: Tensor) -> Role:
    role, place = find_role(tensor.name), find_layer(tensor.name)
    if role is Role.HEAD and model.tied:
        return Role.NOT_LOADED
    if role is not Role.VISION and place is not None and place >= len(model.layers):
        return Role.NOT_LOADED
    return role

"""Weights: the tensors that an engine loads, summed by role and layer.

The headers win over every formula: bytes are the product of each shape and its dtype. Layers beyond those of
the configuration are for speculative decoding (MTP), and are stored but not loaded. So is the output head of
a model whose embedding stands for it. A precision is the bytes of quantized weights, and their units that a
split may not cut.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from modelplane.sizing.architecture import Architecture, Quantization
from modelplane.sizing.tensors import MAX_TENSORS, QUANTIZED, Role, Tensor, find_layer, find_role
from modelplane.user_error import UserError

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
            f"the checkpoint is quantized already ({model.quantization.method or 'quantization_config'}): "
            "leave --quantization out, or name the 16-bit checkpoint"
        )
    count: Counter[Role] = Counter()
    outside: Counter[Role] = Counter()
    layers: list[Counter[Role]] = [Counter() for _ in model.layers]
    stored = read = 0
    for tensor in tensors:
        read += 1
        if read > MAX_TENSORS:
            raise UserError(f"the checkpoint has more than {MAX_TENSORS:,} tensors: it is none of a model")
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
            "no tensor is of a layer: the names of the tensors are not those of transformers, so convert the "
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

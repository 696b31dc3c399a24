"""Precision: the bytes of quantized weights, and their units that a split may not cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from modelplane.sizing.architecture import Quantization
from modelplane.sizing.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Precision:
    """A format that matrices of a 16-bit checkpoint may be converted to."""

    each: Fraction
    """Bytes of a weight, with its part of the scales."""
    quantization: Quantization


PRECISIONS: Final[Mapping[str, Precision]] = {
    "fp8": Precision(Fraction(1), Quantization("fp8", 8)),
    "int4": Precision(Fraction(1, 2) + Fraction(5, 2) / 128, Quantization("awq", 4, group=128)),
    "mxfp4": Precision(Fraction(1, 2) + Fraction(1, 32), Quantization("mxfp4", 4)),
    "nvfp4": Precision(Fraction(1, 2) + Fraction(1, 16), Quantization("nvfp4", 4)),
}
"""Formats by name: FP8 with a scale per matrix, INT4 as AWQ with groups of 128, MXFP4 and NVFP4."""

MXFP4_BLOCK: Final = 32
"""Weights that share a scale."""

_SCALES: Final = (
    "scale", "scales", "_scale_inv", "_scale_2", "zeros", "zero_point", "g_idx", "weight_shape",
)  # fmt: skip
"""Endings of the names of tensors that only say how others are quantized."""
_PACKED_BITS: Final = {"I32": 32, "U8": 8}
_PACKED: Final = ("qweight", "weight_packed", "_blocks", ".weight")


def parameters(tensor: Tensor, quantization: Quantization | None) -> int:
    """Return the parameters that a tensor holds: several in one element of a packed one, none in scales."""
    if tensor.name.endswith(_SCALES):
        return 0
    if tensor.dtype in _PACKED_BITS and tensor.name.endswith(_PACKED):
        return tensor.elements * _PACKED_BITS[tensor.dtype] // (quantization.bits if quantization else 4)
    return tensor.elements


def is_matrix(tensor: Tensor) -> bool:
    """Return True if quantization would convert a tensor: a 16-bit matrix, or one for each expert."""
    return tensor.dtype in {"BF16", "F16"} and len(tensor.shape) >= 2 and "conv" not in tensor.name


def converted(tensor: Tensor, precision: Precision) -> int:
    """Return the bytes of a matrix in another format."""
    size = tensor.elements * precision.each
    return -(-size.numerator // size.denominator)

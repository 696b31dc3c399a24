"""Roles: what a tensor is for, by its name.

The role decides how a split divides the tensor, and whether quantization changes it.
"""

import re
from enum import StrEnum
from typing import Final


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
_LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.")

DIVIDED: Final = frozenset(
    {Role.EMBEDDING, Role.HEAD, Role.ATTENTION, Role.KEY_VALUE, Role.MLP, Role.EXPERTS}
)
"""Roles that tensor parallelism divides; each GPU of a group holds the others whole."""

QUANTIZED: Final = frozenset({Role.ATTENTION, Role.KEY_VALUE, Role.LATENT, Role.MLP, Role.EXPERTS})
"""Roles whose matrices quantization changes."""


def role(name: str) -> Role:
    """Return the role of a tensor."""
    return next((role for pattern, role in _COMPILED if pattern.search(name)), Role.OTHER)


def layer(name: str) -> int | None:
    """Return the layer of a tensor; None outside the layers."""
    found = _LAYER.search(name)
    return int(found[1]) if found else None

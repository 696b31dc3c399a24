"""Architecture: the values of ``config.json`` that decide memory and splits.

One idea has several names in the configurations of model families; ``_Config`` lists them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec

from modelplane.api.schema.decode import convert
from modelplane.user_error import UserError

MAX_CONFIG_BYTES: Final = 10_000_000
MAX_LAYERS: Final = 2_000

_Width = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
_Heads = Annotated[int, msgspec.Meta(ge=1, le=2**16)]
_Few = Annotated[int, msgspec.Meta(ge=0, le=2**16)]
_Text = Annotated[str, msgspec.Meta(max_length=200, pattern="^[ -~]*$")]


class LayerKind(StrEnum):
    """State that a layer keeps of a sequence."""

    FULL = "full attention"
    SLIDING = "sliding attention"
    STATE = "state"
    NOTHING = "nothing"


class _Quantization(msgspec.Struct, frozen=True):
    quant_method: _Text = ""
    bits: Annotated[int, msgspec.Meta(ge=2, le=16)] | None = None
    group_size: Annotated[int, msgspec.Meta(ge=-1, le=2**16)] | None = None
    weight_block_size: Annotated[tuple[_Width, ...], msgspec.Meta(max_length=2)] | None = None


class _Rope(msgspec.Struct, frozen=True):
    rope_type: _Text = ""
    type: _Text = ""
    factor: Annotated[float, msgspec.Meta(gt=0, le=10_000)] | None = None
    original_max_position_embeddings: Annotated[int, msgspec.Meta(ge=1, le=2**31)] | None = None


class _Config(msgspec.Struct, frozen=True):
    """The fields that are read, by their names in ``config.json``."""

    num_hidden_layers: Annotated[int, msgspec.Meta(ge=1, le=MAX_LAYERS)]
    hidden_size: _Width
    num_attention_heads: _Heads
    model_type: _Text = ""
    num_key_value_heads: _Heads | None = None
    head_dim: _Width | None = None
    vocab_size: _Width | None = None
    intermediate_size: _Width | None = None
    max_position_embeddings: Annotated[int, msgspec.Meta(ge=1, le=2**31)] | None = None
    model_max_length: Annotated[int, msgspec.Meta(ge=1, le=2**31)] | None = None
    # Newer versions of transformers write the second, some models by the kind of layer.
    rope_scaling: dict[_Text, Any] | None = None
    rope_parameters: dict[_Text, Any] | None = None
    tie_word_embeddings: bool | None = None
    # Experts.
    n_routed_experts: _Few | None = None
    num_local_experts: _Few | None = None
    num_experts: _Few | None = None
    moe_num_experts: _Few | None = None
    num_experts_per_tok: _Few | None = None
    moe_intermediate_size: _Width | None = None
    # Multi-head latent attention.
    kv_lora_rank: _Few | None = None
    qk_rope_head_dim: _Few | None = None
    index_head_dim: _Few | None = None
    # Layers of several kinds.
    layer_types: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=MAX_LAYERS)] | None = None
    hybrid_override_pattern: Annotated[str, msgspec.Meta(max_length=MAX_LAYERS)] | None = None
    full_attention_interval: Annotated[int, msgspec.Meta(ge=1, le=MAX_LAYERS)] | None = None
    sliding_window: Annotated[int, msgspec.Meta(ge=1, le=2**31)] | None = None
    sliding_window_pattern: Annotated[int, msgspec.Meta(ge=1, le=MAX_LAYERS)] | None = None
    use_sliding_window: bool = True
    max_window_layers: _Few = 0
    # States.
    linear_num_key_heads: _Heads | None = None
    linear_num_value_heads: _Heads | None = None
    linear_key_head_dim: _Width | None = None
    linear_value_head_dim: _Width | None = None
    linear_conv_kernel_dim: _Heads = 4
    mamba_num_heads: _Heads | None = None
    mamba_head_dim: _Width | None = None
    ssm_state_size: _Width | None = None
    n_groups: _Heads = 1
    conv_kernel: _Heads = 4
    mamba_ssm_cache_dtype: _Text = "float32"


_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
    }
}
"""Values that configurations of a type leave out, as transformers has them."""


@dataclass(frozen=True, slots=True)
class SequenceState:
    """The state of one sequence in one layer, in bytes."""

    convolution: int
    recurrent: int


@dataclass(frozen=True, slots=True)
class Quantization:
    """The quantization of a checkpoint."""

    method: str
    bits: int = 4
    group: int = 0
    """Inputs that share a scale; 0 if one scale is for a whole row."""
    block: int = 0
    """Side of the square blocks that share a scale (FP8); 0 if there are none."""


@dataclass(frozen=True, slots=True)
class Rope:
    """A change of the rotary embedding, which extends the context that a model was trained for."""

    kind: str
    """Its type, such as ``yarn``."""
    factor: float | None = None
    original: int | None = None
    """Positions that it extends; None for those of the model."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model, as far as memory and splits depend on it."""

    model_type: str
    layers: tuple[LayerKind, ...]
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    width: int
    """Width of the MLP of a dense layer; 0 if there is none."""
    max_positions: int
    tied: bool
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    latent: int = 0
    """Elements of the latent that stands for keys and values (MLA); 0 without it."""
    index: int = 0
    """Bytes of the index key of a token (sparse MLA)."""
    window: int = 0
    state: SequenceState | None = None
    quantization: Quantization | None = None
    stated_length: int = 0
    """The longest context (``model_max_length``); 0 if the configuration has none beside its positions."""
    ropes: tuple[Rope, ...] = ()
    """One, or one for each kind of layer."""


def parse_architecture(content: bytes) -> Architecture:
    """Return the architecture of the text of ``config.json``. Raises ``UserError``."""
    try:
        whole = msgspec.json.decode(content)
        if not isinstance(whole, dict):
            raise UserError('"config.json" is not an object: download it again')
        nested = whole.get("text_config")
        text = {**nested} if isinstance(nested, dict) else {**whole}
        config = convert(_complete(text), _Config)
        quantization = whole.get("quantization_config") or text.get("quantization_config")
        read = convert(quantization, _Quantization) if quantization else None
        return _architecture(
            config,
            Quantization(
                read.quant_method,
                read.bits or 4,
                max(read.group_size or 0, 0),
                read.weight_block_size[0] if read.weight_block_size else 0,
            )
            if read
            else None,
        )
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(
            f'cannot compute the size from "config.json": {error}: only decoders whose configuration '
            "follows transformers are supported"
        ) from error


def _complete(text: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with what its type leaves out; null is the same as absent."""
    model_type = text.get("model_type")
    defaults = _DEFAULTS.get(model_type, {}) if isinstance(model_type, str) else {}
    if "_sliding_window_pattern" in text:
        text["sliding_window_pattern"] = text["_sliding_window_pattern"]
    return {**defaults, **{key: value for key, value in text.items() if value is not None}}


def _architecture(config: _Config, quantization: Quantization | None) -> Architecture:
    counts = (config.n_routed_experts, config.num_local_experts, config.num_experts, config.moe_num_experts)
    experts = next((count for count in counts if count), 0)
    width = config.intermediate_size or 0
    layers = _layers(config)
    if config.kv_lora_rank and not config.qk_rope_head_dim:
        raise UserError('"config.json" has kv_lora_rank but no qk_rope_head_dim: download it again')
    return Architecture(
        model_type=config.model_type,
        layers=layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads or config.num_attention_heads,
        head_dim=config.head_dim or max(config.hidden_size // config.num_attention_heads, 1),
        vocabulary=config.vocab_size or 0,
        # A family without a width of its own for experts gives theirs as that of the MLP.
        width=0 if experts and not config.moe_intermediate_size else width,
        max_positions=config.max_position_embeddings or 0,
        tied=bool(config.tie_word_embeddings),
        experts=experts,
        experts_per_token=min(config.num_experts_per_tok or experts, experts),
        expert_width=(config.moe_intermediate_size or width) if experts else 0,
        latent=(config.kv_lora_rank + (config.qk_rope_head_dim or 0)) if config.kv_lora_rank else 0,
        index=config.index_head_dim + 4 if config.index_head_dim else 0,
        window=(config.sliding_window or 0) if LayerKind.SLIDING in layers else 0,
        state=_state(config) if LayerKind.STATE in layers else None,
        quantization=quantization,
        stated_length=config.model_max_length or 0,
        ropes=tuple(_ropes(config)),
    )


def _ropes(config: _Config) -> Iterator[Rope]:
    written = config.rope_parameters or config.rope_scaling or {}
    nested = [rope for rope in written.values() if isinstance(rope, dict)]
    for rope in nested or ([written] if written else []):
        read = convert({key: value for key, value in rope.items() if value is not None}, _Rope)
        yield Rope(read.rope_type or read.type, read.factor, read.original_max_position_embeddings)


_TYPES: Final = {
    "full_attention": LayerKind.FULL,
    "sliding_attention": LayerKind.SLIDING,
    "linear_attention": LayerKind.STATE,
    "mamba": LayerKind.STATE,
}
_LETTERS: Final = {"M": LayerKind.STATE, "*": LayerKind.FULL, "-": LayerKind.NOTHING, "E": LayerKind.NOTHING}


def _layers(config: _Config) -> tuple[LayerKind, ...]:
    """Return the kind of each layer. A kind that is not known counts as full attention, which is the most."""
    count = config.num_hidden_layers
    if config.hybrid_override_pattern:
        layers = [_LETTERS.get(letter, LayerKind.FULL) for letter in config.hybrid_override_pattern]
    elif config.layer_types:
        layers = [_TYPES.get(type_, LayerKind.FULL) for type_ in config.layer_types]
    elif every := config.full_attention_interval:
        layers = [LayerKind.STATE if (layer + 1) % every else LayerKind.FULL for layer in range(count)]
    elif config.sliding_window and config.use_sliding_window:
        period, first = config.sliding_window_pattern, config.max_window_layers
        slides = [(layer + 1) % period != 0 if period else layer >= first for layer in range(count)]
        layers = [LayerKind.SLIDING if sliding else LayerKind.FULL for sliding in slides]
    else:
        layers = [LayerKind.FULL] * count
    if len(layers) != count:
        raise UserError(
            f'"config.json" has {count} layers, but layer types for {len(layers)}: download the file '
            "again, or correct it"
        )
    if not config.sliding_window:
        layers = [LayerKind.FULL if kind is LayerKind.SLIDING else kind for kind in layers]
    return tuple(layers)


_BYTES: Final[Mapping[str, Literal[2, 4]]] = {"float32": 4, "bfloat16": 2, "float16": 2}


def _state(config: _Config) -> SequenceState:
    """Return the state of a layer, of Mamba-2 or of a gated DeltaNet."""
    if (heads := config.mamba_num_heads) and (width := config.mamba_head_dim) and config.ssm_state_size:
        inner, size = heads * width, config.ssm_state_size
        return SequenceState(
            convolution=(inner + 2 * config.n_groups * size) * (config.conv_kernel - 1) * 2,
            recurrent=inner * size * _BYTES.get(config.mamba_ssm_cache_dtype, 4),
        )
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    key, value = config.linear_key_head_dim, config.linear_value_head_dim
    if keys is None or values is None or key is None or value is None:
        raise UserError(
            '"config.json" has layers with a state of unknown size: this model family is not supported'
        )
    return SequenceState(
        convolution=(2 * keys * key + values * value) * (config.linear_conv_kernel_dim - 1) * 2,
        recurrent=values * value * key * 2,
    )

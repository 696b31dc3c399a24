"""The twelve checkpoints of the sizing tests: their configurations, and generators of their tensors.

The values are those of the released ``config.json``; the shapes follow from the architectures.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from modelplane.sizing.loaded_weights import Tensor

Shapes = Iterator[Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: its configuration, and what is published of it."""

    config: dict[str, Any]
    total: int
    active: int
    gigabytes: float
    token: int
    """Bytes of KV cache of a token, if every layer kept it."""
    tensor_sizes: tuple[int, ...]

    def tensors(self) -> Shapes:
        text = self.config.get("text_config", self.config)
        return GENERATORS[text["model_type"]](self.config)


def _bf16(name: str, *shape: int) -> Tensor:
    return Tensor(name, "BF16", shape)


def _linear(config: dict[str, Any], name: str, out: int, into: int) -> Shapes:
    """Yield a matrix in the format of the checkpoint."""
    method = config.get("quantization_config", {}).get("quant_method")
    if method == "fp8":
        yield Tensor(f"{name}.weight", "F8_E4M3", (out, into))
        yield Tensor(f"{name}.weight_scale_inv", "F32", (-(-out // 128), -(-into // 128)))
    elif method == "awq":
        yield Tensor(f"{name}.qweight", "I32", (into, out // 8))
        yield Tensor(f"{name}.qzeros", "I32", (into // 128, out // 8))
        yield Tensor(f"{name}.scales", "F16", (into // 128, out))
    else:
        yield _bf16(f"{name}.weight", out, into)


def _ends(config: dict[str, Any], head: bool = True, prefix: str = "model") -> Shapes:
    text = config.get("text_config", config)
    hidden, vocabulary = text["hidden_size"], text.get("vocab_size", 262208)
    yield _bf16(f"{prefix}.embed_tokens.weight", vocabulary, hidden)
    yield _bf16(f"{prefix}.norm.weight", hidden)
    if head:
        yield _bf16("lm_head.weight", vocabulary, hidden)


def _attention(config: dict[str, Any], at: str, *, normed: bool = False, gated: bool = False) -> Shapes:
    text = config.get("text_config", config)
    hidden = text["hidden_size"]
    heads, kv = text.get("num_attention_heads", 8), text.get("num_key_value_heads", 4)
    size = text.get("head_dim", 256 if "gemma" in text["model_type"] else hidden // heads)
    yield from _linear(config, f"{at}.self_attn.q_proj", heads * size * (2 if gated else 1), hidden)
    yield from _linear(config, f"{at}.self_attn.k_proj", kv * size, hidden)
    yield from _linear(config, f"{at}.self_attn.v_proj", kv * size, hidden)
    yield from _linear(config, f"{at}.self_attn.o_proj", hidden, heads * size)
    for name in ("q_norm", "k_norm") if normed else ():
        yield _bf16(f"{at}.self_attn.{name}.weight", size)


def _mlp(config: dict[str, Any], at: str, hidden: int, width: int, names: str = "gate up down") -> Shapes:
    first, second, last = (f"{each}_proj" if len(each) > 2 else each for each in names.split())
    yield from _linear(config, f"{at}.{first}", width, hidden)
    yield from _linear(config, f"{at}.{second}", width, hidden)
    yield from _linear(config, f"{at}.{last}", hidden, width)


def _norms(at: str, hidden: int, *names: str) -> Shapes:
    for name in names or ("input_layernorm", "post_attention_layernorm"):
        yield _bf16(f"{at}.{name}.weight", hidden)


def _dense(config: dict[str, Any]) -> Shapes:
    hidden = config["hidden_size"]
    yield from _ends(config)
    for each in range(config["num_hidden_layers"]):
        at = f"model.layers.{each}"
        yield from _attention(config, at, normed=config["model_type"] == "qwen3")
        yield from _mlp(config, f"{at}.mlp", hidden, config["intermediate_size"])
        yield from _norms(at, hidden)


def _gemma3(config: dict[str, Any]) -> Shapes:
    text = config["text_config"]
    hidden, inner = text["hidden_size"], "language_model.model"
    yield from _ends(config, head=False, prefix=inner)
    for each in range(text["num_hidden_layers"]):
        at = f"{inner}.layers.{each}"
        yield from _attention(config, at, normed=True)
        yield from _mlp(config, f"{at}.mlp", hidden, text["intermediate_size"])
        feedforward = ("pre_feedforward_layernorm", "post_feedforward_layernorm")
        yield from _norms(at, hidden, "input_layernorm", "post_attention_layernorm", *feedforward)
    yield from _siglip(config["vision_config"])
    yield _bf16(
        "multi_modal_projector.mm_input_projection_weight", config["vision_config"]["hidden_size"], hidden
    )
    yield _bf16("multi_modal_projector.mm_soft_emb_norm.weight", config["vision_config"]["hidden_size"])


def _siglip(vision: dict[str, Any]) -> Shapes:
    at, hidden, width = "vision_tower.vision_model", vision["hidden_size"], vision["intermediate_size"]
    patch, side = vision["patch_size"], vision["image_size"] // vision["patch_size"]
    yield _bf16(f"{at}.embeddings.patch_embedding.weight", hidden, 3, patch, patch)
    yield _bf16(f"{at}.embeddings.patch_embedding.bias", hidden)
    yield _bf16(f"{at}.embeddings.position_embedding.weight", side * side, hidden)
    pairs = {f"self_attn.{name}_proj": (hidden, hidden) for name in ("q", "k", "v", "out")}
    pairs |= {"mlp.fc1": (width, hidden), "mlp.fc2": (hidden, width)}
    for each in range(vision["num_hidden_layers"]):
        for name, (out, into) in pairs.items():
            yield _bf16(f"{at}.encoder.layers.{each}.{name}.weight", out, into)
            yield _bf16(f"{at}.encoder.layers.{each}.{name}.bias", out)
        for name in ("layer_norm1", "layer_norm2"):
            yield _bf16(f"{at}.encoder.layers.{each}.{name}.weight", hidden)
            yield _bf16(f"{at}.encoder.layers.{each}.{name}.bias", hidden)
    yield _bf16(f"{at}.post_layernorm.weight", hidden)
    yield _bf16(f"{at}.post_layernorm.bias", hidden)


def _mixtral(config: dict[str, Any]) -> Shapes:
    hidden = config["hidden_size"]
    yield from _ends(config)
    for each in range(config["num_hidden_layers"]):
        at = f"model.layers.{each}"
        moe = f"{at}.block_sparse_moe"
        yield from _attention(config, at)
        yield _bf16(f"{moe}.gate.weight", config["num_local_experts"], hidden)
        for expert in range(config["num_local_experts"]):
            yield from _mlp(
                config, f"{moe}.experts.{expert}", hidden, config["intermediate_size"], "w1 w3 w2"
            )
        yield from _norms(at, hidden)


def _qwen3_moe(config: dict[str, Any]) -> Shapes:
    hidden = config["hidden_size"]
    yield from _ends(config)
    for each in range(config["num_hidden_layers"]):
        at = f"model.layers.{each}"
        yield from _attention(config, at, normed=True)
        yield _bf16(f"{at}.mlp.gate.weight", config["num_experts"], hidden)
        for expert in range(config["num_experts"]):
            yield from _mlp(config, f"{at}.mlp.experts.{expert}", hidden, config["moe_intermediate_size"])
        yield from _norms(at, hidden)


def _gpt_oss(config: dict[str, Any]) -> Shapes:
    hidden, width, experts = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    heads, kv, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    yield from _ends(config)
    for each in range(config["num_hidden_layers"]):
        at = f"model.layers.{each}"
        yield from _attention(config, at)
        for name, out in (("q", heads * size), ("k", kv * size), ("v", kv * size), ("o", hidden)):
            yield _bf16(f"{at}.self_attn.{name}_proj.bias", out)
        yield _bf16(f"{at}.self_attn.sinks", heads)
        yield _bf16(f"{at}.mlp.router.weight", experts, hidden)
        yield _bf16(f"{at}.mlp.router.bias", experts)
        for name, out, into in (("gate_up_proj", 2 * width, hidden), ("down_proj", hidden, width)):
            yield Tensor(f"{at}.mlp.experts.{name}_blocks", "U8", (experts, out, into // 32, 16))
            yield Tensor(f"{at}.mlp.experts.{name}_scales", "U8", (experts, out, into // 32))
            yield _bf16(f"{at}.mlp.experts.{name}_bias", experts, out)
        yield from _norms(at, hidden)


def _deepseek(config: dict[str, Any]) -> Shapes:
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    yield from _ends(config)
    for each in range(layers + config["num_nextn_predict_layers"]):
        at = f"model.layers.{each}"
        yield from _latent_attention(config, f"{at}.self_attn")
        yield from _norms(at, hidden)
        if each < config["first_k_dense_replace"]:
            yield from _mlp(config, f"{at}.mlp", hidden, config["intermediate_size"])
            continue
        width, experts = config["moe_intermediate_size"], config["n_routed_experts"]
        yield _bf16(f"{at}.mlp.gate.weight", experts, hidden)
        yield Tensor(f"{at}.mlp.gate.e_score_correction_bias", "F32", (experts,))
        for expert in range(experts):
            yield from _mlp(config, f"{at}.mlp.experts.{expert}", hidden, width)
        yield from _mlp(config, f"{at}.mlp.shared_experts", hidden, width)
        if each >= layers:
            yield _bf16(f"{at}.eh_proj.weight", hidden, 2 * hidden)
            yield from _norms(at, hidden, "enorm", "hnorm", "shared_head.norm")
            yield _bf16(f"{at}.embed_tokens.weight", config["vocab_size"], hidden)
            yield _bf16(f"{at}.shared_head.head.weight", config["vocab_size"], hidden)


def _latent_attention(config: dict[str, Any], at: str) -> Shapes:
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    q, kv, rope = config["q_lora_rank"], config["kv_lora_rank"], config["qk_rope_head_dim"]
    nope, value = config["qk_nope_head_dim"], config["v_head_dim"]
    yield from _linear(config, f"{at}.q_a_proj", q, hidden)
    yield from _linear(config, f"{at}.q_b_proj", heads * (nope + rope), q)
    yield from _linear(config, f"{at}.kv_a_proj_with_mqa", kv + rope, hidden)
    yield from _linear(config, f"{at}.kv_b_proj", heads * (nope + value), kv)
    yield from _linear(config, f"{at}.o_proj", hidden, heads * value)
    yield from (
        _bf16(f"{at}.{name}.weight", size) for name, size in (("q_a_layernorm", q), ("kv_a_layernorm", kv))
    )


def _qwen3_next(config: dict[str, Any]) -> Shapes:
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    yield from _ends(config)
    for each in range(layers):
        at = f"model.layers.{each}"
        if (each + 1) % config["full_attention_interval"]:
            yield from _delta_net(config, f"{at}.linear_attn")
        else:
            yield from _attention(config, at, normed=True, gated=True)
        yield from _next_experts(config, at)
    yield from _attention(config, "mtp.layers.0", normed=True, gated=True)
    yield from _next_experts(config, "mtp.layers.0")
    yield _bf16("mtp.fc.weight", hidden, 2 * hidden)
    yield from _norms("mtp", hidden, "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")


def _next_experts(config: dict[str, Any], at: str) -> Shapes:
    hidden, experts = config["hidden_size"], config["num_experts"]
    yield _bf16(f"{at}.mlp.gate.weight", experts, hidden)
    for expert in range(experts):
        yield from _mlp(config, f"{at}.mlp.experts.{expert}", hidden, config["moe_intermediate_size"])
    yield from _mlp(config, f"{at}.mlp.shared_expert", hidden, config["shared_expert_intermediate_size"])
    yield _bf16(f"{at}.mlp.shared_expert_gate.weight", 1, hidden)
    yield from _norms(at, hidden)


def _delta_net(config: dict[str, Any], at: str) -> Shapes:
    hidden = config["hidden_size"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    heads, size = config["linear_num_value_heads"], config["linear_value_head_dim"]
    values = heads * size
    yield _bf16(f"{at}.in_proj_qkvz.weight", 2 * keys + 2 * values, hidden)
    yield _bf16(f"{at}.in_proj_ba.weight", 2 * heads, hidden)
    yield _bf16(f"{at}.conv1d.weight", 2 * keys + values, 1, config["linear_conv_kernel_dim"])
    yield from (_bf16(f"{at}.{name}", heads) for name in ("A_log", "dt_bias"))
    yield _bf16(f"{at}.norm.weight", size)
    yield _bf16(f"{at}.out_proj.weight", hidden, values)


GENERATORS = {
    "qwen3": _dense,
    "llama": _dense,
    "gemma3_text": _gemma3,
    "mixtral": _mixtral,
    "qwen3_moe": _qwen3_moe,
    "gpt_oss": _gpt_oss,
    "deepseek_v3": _deepseek,
    "kimi_k2": _deepseek,
    "qwen3_next": _qwen3_next,
}


def _config(
    type_: str, layers: int, hidden: int, heads: str, vocabulary: int, positions: int, **more: Any
) -> dict[str, Any]:
    """Return a configuration; ``heads`` is query heads, KV heads and their size."""
    q, kv, size = map(int, heads.split())
    sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "vocab_size": vocabulary}
    attention = {"num_attention_heads": q, "num_key_value_heads": kv, "head_dim": size}
    return sizes | attention | {"model_type": type_, "max_position_embeddings": positions} | more


_FP8 = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
_LATENT = {
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
_QWEN3_8B = _config("qwen3", 36, 4096, "32 8 128", 151936, 40960, intermediate_size=12288)
_TO_8, _TO_16, _TO_32 = (1, 2, 4, 8), (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32)

CHECKPOINTS = {
    "Qwen/Qwen3-0.6B": Checkpoint(
        _config(
            "qwen3", 28, 1024, "16 8 128", 151936, 40960, intermediate_size=3072, tie_word_embeddings=True,
        ),
        596_049_920, 596_049_920, 1.503, 114_688, _TO_16,
    ),
    "Qwen/Qwen3-8B": Checkpoint(_QWEN3_8B, 8_190_735_360, 8_190_735_360, 16.38, 147_456, _TO_32),
    "Qwen/Qwen3-8B-AWQ": Checkpoint(
        _QWEN3_8B | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
        8_190_735_360, 8_190_735_360, 6.10, 147_456, _TO_32,
    ),
    "meta-llama/Llama-3.1-8B-Instruct": Checkpoint(
        _config("llama", 32, 4096, "32 8 128", 128256, 131072, intermediate_size=14336),
        8_030_261_248, 8_030_261_248, 16.06, 131_072, _TO_32,
    ),
    "google/gemma-3-4b-it": Checkpoint(
        {
            "model_type": "gemma3",
            # The released file has no more of the text model.
            "text_config": {
                "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                "num_hidden_layers": 34, "sliding_window": 1024,
            },
            "vision_config": {
                "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "image_size": 896,
                "patch_size": 14,
            },
        },
        4_300_079_472, 4_300_079_472, 8.60, 139_264, _TO_8,
    ),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": Checkpoint(
        _config(
            "mixtral", 32, 4096, "32 8 128", 32000, 32768,
            intermediate_size=14336, num_local_experts=8, num_experts_per_tok=2, sliding_window=None,
        ),
        46_702_792_704, 12_879_925_248, 93.41, 131_072, _TO_32,
    ),
    "Qwen/Qwen3-30B-A3B": Checkpoint(
        _config(
            "qwen3_moe", 48, 2048, "32 4 128", 151936, 40960,
            intermediate_size=6144, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768,
        ),
        30_532_122_624, 3_353_032_704, 61.06, 98_304, _TO_32,
    ),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": Checkpoint(
        _config(
            "qwen3_moe", 62, 6144, "96 8 128", 151936, 262144,
            intermediate_size=8192, num_experts=160, num_experts_per_tok=8, moe_intermediate_size=2560,
        ),
        480_154_875_392, 35_474_765_312, 960.3, 253_952, _TO_32,
    ),
    "openai/gpt-oss-20b": Checkpoint(
        _config(
            "gpt_oss", 24, 2880, "64 8 64", 201088, 131072,
            intermediate_size=2880, num_local_experts=32, num_experts_per_tok=4, sliding_window=128,
            layer_types=["sliding_attention", "full_attention"] * 12,
            quantization_config={"quant_method": "mxfp4"},
        ),
        20_914_757_184, 4_187_440_704, 13.76, 49_152, _TO_8,
    ),
    "deepseek-ai/DeepSeek-V3": Checkpoint(
        _config(
            "deepseek_v3", 61, 7168, "128 128 192", 129280, 163840,
            intermediate_size=18432, n_routed_experts=256, num_experts_per_tok=8, moe_intermediate_size=2048,
            first_k_dense_replace=3, num_nextn_predict_layers=1, **_LATENT, **_FP8,
        ),
        671_026_419_200, 37_552_297_472, 688.6, 70_272, _TO_16,
    ),
    "moonshotai/Kimi-K2-Instruct": Checkpoint(
        _config(
            "kimi_k2", 61, 7168, "64 64 192", 163840, 131072,
            intermediate_size=18432, n_routed_experts=384, num_experts_per_tok=8, moe_intermediate_size=2048,
            first_k_dense_replace=1, num_nextn_predict_layers=0, **_LATENT, **_FP8,
        ),
        1_026_408_232_448, 32_861_500_928, 1029.2, 70_272, _TO_16,
    ),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": Checkpoint(
        _config(
            "qwen3_next", 48, 2048, "16 2 256", 151936, 262144,
            intermediate_size=5120, num_experts=512, num_experts_per_tok=10, moe_intermediate_size=512,
            shared_expert_intermediate_size=512, full_attention_interval=4, linear_num_key_heads=16,
            linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128,
            linear_conv_kernel_dim=4,
        ),
        79_674_391_296, 3_874_929_408, 162.6, 24_576, _TO_16,
    ),
}  # fmt: skip


def safetensors(tensors: Any) -> bytes:
    """Return the beginning of a safetensors file: the length of the header, and the header."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for each in tensors:
        entries[each.name] = {
            "dtype": each.dtype, "shape": list(each.shape), "data_offsets": [start, start + each.size],
        }  # fmt: skip
        start += each.size
    content = json.dumps(entries).encode()
    return struct.pack("<Q", len(content)) + content

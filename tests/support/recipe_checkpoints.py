"""Checkpoints of the recipes: released configurations, beside the twelve of the sizing tests.

A checkpoint whose tensors are not known exactly is represented by its model in 16 bits, as if it were
converted.
"""

from dataclasses import replace
from typing import Any

from modelplane.sizing.loaded_weights import Tensor
from support.checkpoint_shapes import CHECKPOINTS, GENERATORS, Checkpoint, Shapes

_GEMMA = CHECKPOINTS["google/gemma-3-4b-it"]
_LLAMA = CHECKPOINTS["meta-llama/Llama-3.1-8B-Instruct"]
_CODER = CHECKPOINTS["Qwen/Qwen3-Coder-480B-A35B-Instruct"]
_KIMI = CHECKPOINTS["moonshotai/Kimi-K2-Instruct"]
_GPT_OSS = CHECKPOINTS["openai/gpt-oss-20b"]
_FP8 = CHECKPOINTS["deepseek-ai/DeepSeek-V3"].config["quantization_config"]
_TO_8 = (1, 2, 4, 8)


def _qwen2_tensors(config: dict[str, Any]) -> Shapes:
    """Yield the tensors of Qwen2: those of Llama, with biases of queries, keys and values."""
    for tensor in GENERATORS["llama"](config):
        if tensor.name != "lm_head.weight" or not config.get("tie_word_embeddings"):
            yield tensor
    heads = (("q", "num_attention_heads"), ("k", "num_key_value_heads"), ("v", "num_key_value_heads"))
    for layer in range(config["num_hidden_layers"]):
        for name, count in heads:
            at = f"model.layers.{layer}.self_attn.{name}_proj.bias"
            yield Tensor(at, "BF16", (config[count] * config["head_dim"],))


GENERATORS["qwen2"] = _qwen2_tensors


def _qwen2(hidden: int, layers: int, heads: int, kv: int, width: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "qwen2", "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv, "head_dim": hidden // heads, "intermediate_size": width,
        "max_position_embeddings": 32768,
    } | more  # fmt: skip


_GEMMA_27B = replace(
    _GEMMA,
    config=_GEMMA.config
    | {
        "text_config": _GEMMA.config["text_config"]
        | {
            "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
            "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
        }
    },
    total=27_432_406_640, active=27_432_406_640, gigabytes=54.86, token=1_015_808,
)  # fmt: skip

RECIPE_CHECKPOINTS = {
    "Qwen/Qwen2.5-0.5B-Instruct": Checkpoint(
        _qwen2(896, 24, 14, 2, 4864, vocab_size=151936, tie_word_embeddings=True),
        494_032_768, 494_032_768, 0.988, 12_288, (1, 2),
    ),
    # Its MLP is padded from 29,568, so that groups of a split over eight GPUs stay whole.
    "Qwen/Qwen2.5-72B-Instruct-AWQ": Checkpoint(
        _qwen2(
            8192, 80, 64, 8, 29696, vocab_size=152064,
            quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128},
        ),
        72_957_861_888, 72_957_861_888, 41.6, 327_680, _TO_8,
    ),
    "meta-llama/Llama-3.3-70B-Instruct": replace(
        _LLAMA,
        config=_LLAMA.config
        | {
            "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
            "num_attention_heads": 64,
        },
        total=70_553_706_496, active=70_553_706_496, gigabytes=141.11, token=327_680,
    ),
    "google/gemma-3-27b-it": _GEMMA_27B,
    "openai/gpt-oss-120b": replace(
        _GPT_OSS,
        config=_GPT_OSS.config
        | {
            "num_hidden_layers": 36, "num_local_experts": 128,
            "layer_types": ["sliding_attention", "full_attention"] * 18,
        },
        total=116_829_156_672, active=5_711_982_912, gigabytes=65.25, token=73_728,
    ),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8": replace(
        _CODER, config=_CODER.config | {"quantization_config": _FP8}, gigabytes=482.1, tensor_sizes=(1, 2, 4)
    ),
    "moonshotai/Kimi-K2-Instruct in 16 bits": replace(
        _KIMI,
        config={key: value for key, value in _KIMI.config.items() if key != "quantization_config"},
        gigabytes=2 * _KIMI.total / 10**9,
    ),
}  # fmt: skip
"""By repository, unless the name says that the checkpoint stands for another one."""

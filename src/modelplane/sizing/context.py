"""The longest context of a model, as engines derive it from ``config.json``.

An engine refuses to start with a longer one, unless a variable allows it. llama.cpp starts, and answers get
worse beyond what the model was trained for.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from modelplane.sizing.architecture import Architecture, Rope
from modelplane.user_error import UserError

_NESTED: Final = "text_config"
_UNSCALED: Final = frozenset({"su", "longrope", "llama3"})
"""Types whose factor vLLM does not count: their configurations have the extended length."""


def find_vllm_length(model: Architecture) -> int:
    """Return the longest context for vLLM (``_get_and_verify_max_len``); 0 if it has no limit of its own."""
    longest = float(model.max_positions)
    factor = 1.0
    # That of Gemma 3 has the extended length.
    for rope in () if "gemma3" in model.model_type else model.ropes:
        if rope.kind not in _UNSCALED:
            factor = rope.factor or factor
            if rope.kind == "yarn":
                longest = float(rope.original or model.max_positions)
    return max(int(longest * factor), model.stated_length) if model.max_positions else 0


def find_sglang_length(model: Architecture) -> int:
    """Return the longest context for SGLang (``get_context_length``); 0 if none is known."""
    rope = next(iter(model.ropes), Rope(""))
    factor = 1.0 if rope.original or rope.kind == "llama3" else rope.factor or 1.0
    return int((model.stated_length or model.max_positions) * factor)


def find_llama_cpp_length(model: Architecture) -> int:
    """Return the length that the model was trained for, which llama.cpp compares."""
    return model.max_positions


def replace_settings(content: bytes, changes: str) -> bytes:
    """Return the text of ``config.json`` with changes in JSON, such as those of ``--hf-overrides``.

    Raises ``UserError``.
    """
    try:
        settings: dict[str, Any] = msgspec.json.decode(changes, type=dict)
        whole = _merged(msgspec.json.decode(content, type=dict), settings)
        if isinstance(nested := whole.get(_NESTED), dict):
            whole[_NESTED] = _merged(
                nested, {key: change for key, change in settings.items() if key != _NESTED}
            )
        return msgspec.json.encode(whole)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise UserError(f'cannot read the changes of "config.json": {error}: write a JSON object') from error


def _merged(whole: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**whole, **changes}
    if "rope_scaling" in changes and "rope_parameters" not in changes:
        merged.pop("rope_parameters", None)  # the newer name of the same
    for key, value in changes.items():
        if key.endswith("_config") and isinstance(value, dict) and isinstance(before := whole.get(key), dict):
            merged[key] = _merged(before, value)
    return merged


LONGEST: Final[Mapping[str, Callable[[Architecture], int]]] = {
    "vllm": find_vllm_length,
    "sglang": find_sglang_length,
    "llama.cpp": find_llama_cpp_length,
}
"""The longest context, by the engine's table of flags."""

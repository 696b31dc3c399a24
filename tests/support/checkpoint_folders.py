"""Checkpoints as folders: a configuration, an index, and shards with their headers, but without weights."""

import json
from collections.abc import Iterator
from pathlib import Path

from modelplane.sizing.loaded_weights import Tensor
from support.checkpoint_shapes import Checkpoint, safetensors

_SHARD = 5 * 10**9
"""Bytes of a shard, as transformers writes them."""
_LEAST = 200_000
"""Bytes of a file on disk, so that a hub takes it for a large one."""


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint as the hub has it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(checkpoint.config))
    shards = [*_shards(checkpoint.tensors())]
    names = {
        number: f"model-{number:05}-of-{len(shards):05}.safetensors"
        if len(shards) > 1
        else "model.safetensors"
        for number in range(1, len(shards) + 1)
    }
    for number, tensors in enumerate(shards, 1):
        with (folder / names[number]).open("wb") as file:
            file.write(safetensors(tensors))
            file.truncate(max(file.tell(), _LEAST))
    if len(shards) > 1:
        places = {each.name: names[number] for number, tensors in enumerate(shards, 1) for each in tensors}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def _shards(tensors: Iterator[Tensor]) -> Iterator[list[Tensor]]:
    shard: list[Tensor] = []
    size = 0
    for each in tensors:
        if shard and size + each.size > _SHARD:
            yield shard
            shard, size = [], 0
        shard.append(each)
        size += each.size
    yield shard

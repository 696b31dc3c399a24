"""A checkpoint as both readers return it, the choice of its files, and its model, as it is sized."""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec

from modelplane.sizing.architecture import MAX_CONFIG_BYTES, parse_architecture
from modelplane.sizing.loaded_weights import MAX_SHARDS, PRECISIONS, Tensor, sum_weights
from modelplane.sizing.memory import Model
from modelplane.user_error import UserError

CONFIG: Final = "config.json"
INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
MAX_INDEX_BYTES: Final = 100_000_000
_AT_A_TIME: Final = 8
"""Headers that are read at the same time."""

_FileName = Annotated[str, msgspec.Meta(max_length=255, pattern=r"^[A-Za-z0-9_][\w.-]*\.safetensors$")]


class _Index(msgspec.Struct, frozen=True):
    weight_map: dict[str, _FileName]


class Checkpoint(NamedTuple):
    """The configuration, as text, and the tensors that engines load."""

    name: str
    config: bytes
    tensors: tuple[Tensor, ...]
    needs_token: bool = False
    """True if the hub gives it only to those who have a token."""


class Source(Protocol):
    """Location of the files of a checkpoint."""

    name: str
    needs_token: bool

    def list_files(self) -> Collection[str]:
        """Return the names of its files."""

    def read_content(self, file: str, limit: int) -> bytes:
        """Return a file of at most ``limit`` bytes."""

    def read_header(self, file: str) -> Iterator[Tensor]:
        """Yield the tensors of a safetensors file."""


def read(source: Source) -> Checkpoint:
    """Read a checkpoint. Raises ``UserError``."""

    files = source.list_files()
    if CONFIG not in files:
        raise UserError(f"{source.name} has no {CONFIG}: {_other(files)}")
    config = source.read_content(CONFIG, MAX_CONFIG_BYTES)
    if INDEX in files:
        return Checkpoint(source.name, config, _indexed(source, files), source.needs_token)
    shards = [file for file in files if file.endswith(".safetensors") and "/" not in file]
    single = SINGLE if SINGLE in shards else shards[0] if len(shards) == 1 else ""
    if not single:
        why = f"{len(shards)} safetensors files and no {INDEX}" if shards else "no safetensors file"
        remedy = "download the index as well" if shards else _other(files)
        raise UserError(f"{source.name} has {why}: {remedy}")
    return Checkpoint(source.name, config, tuple(source.read_header(single)), source.needs_token)


def _indexed(source: Source, files: Collection[str]) -> tuple[Tensor, ...]:
    """Return the tensors that the index names. A repository may hold copies beside them."""
    try:
        places = msgspec.json.decode(source.read_content(INDEX, MAX_INDEX_BYTES), type=_Index).weight_map
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {INDEX} of {source.name}: {error}: download it again") from error
    shards = sorted(set(places.values()))
    if len(shards) > MAX_SHARDS:
        raise UserError(
            f"{INDEX} of {source.name} names more than {MAX_SHARDS:,} files: it is none of a model"
        )
    if missing := [shard for shard in shards if shard not in files]:
        raise UserError(
            f"{source.name} lacks {len(missing)} of the {len(shards)} files that {INDEX} names, such as "
            f"{missing[0]}: download them"
        )
    # A hub answers each request after a while, and a model may have hundreds of files.
    pool = ThreadPoolExecutor(_AT_A_TIME)
    try:
        headers = pool.map(lambda shard: (shard, tuple(source.read_header(shard))), shards)
        tensors = tuple(
            tensor
            for shard, shard_tensors in headers
            for tensor in shard_tensors
            if places.get(tensor.name) == shard
        )
    finally:
        pool.shutdown(cancel_futures=True)
    if len(tensors) != len(places):
        raise UserError(
            f"{len(places) - len(tensors):,} tensors that {INDEX} of {source.name} names are not in their "
            "files: download the checkpoint again"
        )
    return tensors


def _other(files: Collection[str]) -> str:
    """Return the remedy for a checkpoint of another format."""
    if any(file.endswith(".gguf") for file in files):
        return "a GGUF file cannot be sized: name the safetensors checkpoint that it was made from"
    if any(file.endswith((".bin", ".pt", ".pth")) for file in files):
        return "PyTorch files cannot be sized: convert them to safetensors"
    return "name a checkpoint in the format of transformers, with config.json and safetensors files"


def build_model(checkpoint: Checkpoint, quantization: str | None) -> Model:
    """Return the model, as if it were converted to a quantization. Raises ``UserError``."""
    architecture = parse_architecture(checkpoint.config)
    precision = PRECISIONS[quantization] if quantization else None
    return Model(
        architecture,
        sum_weights(architecture, checkpoint.tensors, precision),
        precision.quantization if precision else architecture.quantization,
    )

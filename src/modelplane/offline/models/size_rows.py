"""The size of a model as rows of tables."""

from collections.abc import Iterator, Sequence
from typing import Final

from modelplane.offline.models.size_report import HardwareSize, Size, SplitSize

Row = tuple[str, ...]
"""One row of a table."""

WEIGHT_COLUMNS: Final = ("PART", "PARAMETERS", "BYTES", "GIB")
SPLIT_COLUMNS: Final = ("SPLIT", "WEIGHTS", "+ KV", "+ OTHER", "/ 0.92 = GPU", "NODE")

_GIB: Final = 2**30
_GPUS_OF_NODES: Final = (4, 8)
"""The usual numbers, for which pipelines over several nodes are told."""


def format_gib(size: int) -> str:
    """Return a number of bytes in GiB."""
    return f"{size / _GIB:,.2f}"


def describe_model(size: Size) -> str:
    """Return the parameters of a model in one line."""
    quantization = f", {size.quantization}" if size.quantization else ""
    active = f", {size.active_parameters:,} active" if size.active_parameters != size.parameters else ""
    return f"{size.model}: {size.parameters:,} parameters{active}{quantization}"


def list_weight_rows(size: Size) -> Iterator[Row]:
    """Yield a row for each part of the model, and those of their sums."""
    for part in size.parts:
        yield (part.name, f"{part.parameters:,}", f"{part.bytes:,}", format_gib(part.bytes))
    yield ("loaded", f"{size.parameters:,}", f"{size.weights_bytes:,}", format_gib(size.weights_bytes))
    yield ("checkpoint", "", f"{size.checkpoint_bytes:,}", format_gib(size.checkpoint_bytes))


def describe_cache(size: Size) -> str:
    """Return the KV cache of the sequences in one line."""
    per_sequence, several = size.cache.sequence_bytes, size.cache.sequence_bytes * size.concurrency
    return (
        f"{size.context:,} tokens = {format_gib(per_sequence)} GiB of a sequence, in whole blocks, x "
        f"{size.concurrency:,} = {format_gib(several)} GiB"
    )


def list_split_rows(size: Size) -> Iterator[Row]:
    """Yield a row for each legal split of the usual numbers of GPUs."""
    for split in size.splits:
        if not split.rejections and (split.pipeline == 1 or split.tensor in _GPUS_OF_NODES):
            yield _split(split)


def _split(split: SplitSize) -> Row:
    sizes = (split.weights_bytes, split.cache_bytes, split.overhead_bytes, split.gpu_bytes, split.node_bytes)
    return (split.name, *map(format_gib, sizes))


def list_hardware_columns(hardware: Sequence[HardwareSize], told: Sequence[HardwareSize]) -> Row:
    """Return the columns of hardware that serves a model: pools have a place, and some hardware a price."""
    cost = ("COST/HOUR",) if any(size.cost_per_hour for size in told) else ()
    return (
        *list_place_columns(hardware),
        "CLASS",
        "DEVICES",
        "NODES",
        "SPLIT",
        "GIB OF EACH",
        "SEQUENCES",
        *cost,
    )


def list_place_columns(hardware: Sequence[HardwareSize]) -> Row:
    """Return the columns of a pool; none for classes."""
    return ("CLUSTER", "POOL") if any(size.cluster for size in hardware) else ()


def list_served_rows(hardware: Sequence[HardwareSize], told: Sequence[HardwareSize]) -> Iterator[Row]:
    """Yield a row for each hardware that serves the model."""
    is_pool, columns = bool(list_place_columns(hardware)), list_hardware_columns(hardware, told)
    for size in told:
        row = (
            *_place(size, is_pool),
            size.inference_class,
            f"{size.devices} {size.device}",
            str(size.nodes),
            size.split,
            f"{format_gib(size.needed_bytes)} of {format_gib(size.device_bytes)}",
            f"{size.concurrency:,}" if size.concurrency else "any number",
            f"{size.cost_per_hour} {size.currency}" if size.cost_per_hour else "",
        )
        yield row[: len(columns)]


def list_refused_rows(hardware: Sequence[HardwareSize]) -> Iterator[Row]:
    """Yield a row for each hardware that cannot serve the model."""
    is_pool = bool(list_place_columns(hardware))
    for size in hardware:
        if size.reason:
            yield (*_place(size, is_pool), size.inference_class, size.reason)


def _place(size: HardwareSize, is_pool: bool) -> Row:
    return (size.cluster, size.pool) if is_pool else ()

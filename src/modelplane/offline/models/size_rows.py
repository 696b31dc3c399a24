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


def gib(size: int) -> str:
    """Return a number of bytes in GiB."""
    return f"{size / _GIB:,.2f}"


def headline(size: Size) -> str:
    """Return the parameters of a model in one line."""
    quantization = f", {size.quantization}" if size.quantization else ""
    active = f", {size.active_parameters:,} active" if size.active_parameters != size.parameters else ""
    return f"{size.model}: {size.parameters:,} parameters{active}{quantization}"


def weight_rows(size: Size) -> Iterator[Row]:
    """Yield a row for each part of the model, and those of their sums."""
    for each in size.parts:
        yield (each.name, f"{each.parameters:,}", f"{each.bytes:,}", gib(each.bytes))
    yield ("loaded", f"{size.parameters:,}", f"{size.weights_bytes:,}", gib(size.weights_bytes))
    yield ("checkpoint", "", f"{size.checkpoint_bytes:,}", gib(size.checkpoint_bytes))


def cache_of_sequences(size: Size) -> str:
    """Return the KV cache of the sequences in one line."""
    each, several = size.cache.sequence_bytes, size.cache.sequence_bytes * size.concurrency
    return (
        f"{size.context:,} tokens = {gib(each)} GiB of a sequence, in whole blocks, x "
        f"{size.concurrency:,} = {gib(several)} GiB"
    )


def split_rows(size: Size) -> Iterator[Row]:
    """Yield a row for each legal split of the usual numbers of GPUs."""
    for each in size.splits:
        if not each.rejections and (each.pipeline == 1 or each.tensor in _GPUS_OF_NODES):
            yield _split(each)


def _split(each: SplitSize) -> Row:
    sizes = (each.weights_bytes, each.cache_bytes, each.overhead_bytes, each.gpu_bytes, each.node_bytes)
    return (each.name, *map(gib, sizes))


def hardware_columns(hardware: Sequence[HardwareSize], told: Sequence[HardwareSize]) -> Row:
    """Return the columns of hardware that serves a model: pools have a place, and some hardware a price."""
    cost = ("COST/HOUR",) if any(each.cost_per_hour for each in told) else ()
    return (*place_columns(hardware), "CLASS", "DEVICES", "NODES", "SPLIT", "GIB OF EACH", "SEQUENCES", *cost)


def place_columns(hardware: Sequence[HardwareSize]) -> Row:
    """Return the columns of a pool; none for classes."""
    return ("CLUSTER", "POOL") if any(each.cluster for each in hardware) else ()


def served_rows(hardware: Sequence[HardwareSize], told: Sequence[HardwareSize]) -> Iterator[Row]:
    """Yield a row for each hardware that serves the model."""
    is_pool, columns = bool(place_columns(hardware)), hardware_columns(hardware, told)
    for each in told:
        row = (
            *_place(each, is_pool),
            each.inference_class,
            f"{each.devices} {each.device}",
            str(each.nodes),
            each.split,
            f"{gib(each.needed_bytes)} of {gib(each.device_bytes)}",
            f"{each.concurrency:,}" if each.concurrency else "any number",
            f"{each.cost_per_hour} {each.currency}" if each.cost_per_hour else "",
        )
        yield row[: len(columns)]


def refused_rows(hardware: Sequence[HardwareSize]) -> Iterator[Row]:
    """Yield a row for each hardware that cannot serve the model."""
    is_pool = bool(place_columns(hardware))
    for each in hardware:
        if each.reason:
            yield (*_place(each, is_pool), each.inference_class, each.reason)


def _place(each: HardwareSize, is_pool: bool) -> Row:
    return (each.cluster, each.pool) if is_pool else ()

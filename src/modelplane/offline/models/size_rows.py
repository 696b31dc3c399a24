"""Tables and sentences about the size of a model."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from modelplane.api.report_tables import Columns, Table
from modelplane.offline.models.size_report import HardwareSize, Size, SplitSize

_Column = tuple[str, Callable[[HardwareSize], str]]

_GIB: Final = 2**30
_GPUS_OF_NODES: Final = (4, 8)
"""The usual numbers of nodes, for which pipelines are listed."""


def format_gib(size: int) -> str:
    """Return a number of bytes in GiB."""
    return f"{size / _GIB:,.2f}"


def describe_model(size: Size) -> str:
    """Return the parameters of a model in one line."""
    quantization = f", {size.quantization}" if size.quantization else ""
    active = f", {size.active_parameters:,} active" if size.active_parameters != size.parameters else ""
    return f"{size.model}: {size.parameters:,} parameters{active}{quantization}"


def describe_cache(size: Size) -> str:
    """Return the KV cache of the sequences in one line."""
    per_sequence, several = size.cache.sequence_bytes, size.cache.sequence_bytes * size.concurrency
    return (
        f"{size.context:,} tokens = {format_gib(per_sequence)} GiB per sequence (whole blocks), x "
        f"{size.concurrency:,} = {format_gib(several)} GiB"
    )


class Weights(NamedTuple):
    """Weights of a part of the model, or a sum of them."""

    part: str
    parameters: int | None
    bytes: int


WEIGHTS: Final = Columns[Weights](
    ("PART", lambda weights: weights.part),
    ("PARAMETERS", lambda weights: "" if weights.parameters is None else f"{weights.parameters:,}"),
    ("BYTES", lambda weights: f"{weights.bytes:,}"),
    ("GIB", lambda weights: format_gib(weights.bytes)),
)
SPLITS: Final = Columns[SplitSize](
    ("SPLIT", lambda split: split.name),
    ("WEIGHTS", lambda split: format_gib(split.weights_bytes)),
    ("KV CACHE", lambda split: format_gib(split.cache_bytes)),
    ("OTHER", lambda split: format_gib(split.overhead_bytes)),
    ("MINIMUM GPU", lambda split: format_gib(split.gpu_bytes)),
    ("PER NODE", lambda split: format_gib(split.node_bytes)),
)
SPLITS_TITLE: Final = "Memory per GPU in GiB (OTHER: runtime, communication, and activations)"
_POOL: Final[tuple[_Column, ...]] = (("CLUSTER", lambda size: size.cluster), ("POOL", lambda size: size.pool))
_CLASS: Final[_Column] = ("CLASS", lambda size: size.inference_class)
_SERVED: Final[tuple[_Column, ...]] = (
    ("DEVICES", lambda size: f"{size.devices} {size.device}"),
    ("NODES", lambda size: str(size.nodes)),
    ("SPLIT", lambda size: size.split),
    ("GIB/DEVICE", lambda size: f"{format_gib(size.needed_bytes)} of {format_gib(size.device_bytes)}"),
    ("SEQUENCES", lambda size: f"{size.concurrency:,}" if size.concurrency else "unlimited"),
)
_COST: Final[_Column] = (
    "COST/HOUR",
    lambda size: f"{size.cost_per_hour} {size.currency}" if size.cost_per_hour else "",
)
_REASON: Final[_Column] = ("REASON", lambda size: size.reason)


def list_weights(size: Size) -> Iterator[Weights]:
    """Yield the weights of each part of the model, and their sums."""
    yield from (Weights(part.name, part.parameters, part.bytes) for part in size.parts)
    yield Weights("loaded", size.parameters, size.weights_bytes)
    yield Weights("checkpoint", None, size.checkpoint_bytes)


def list_splits(size: Size) -> Iterator[SplitSize]:
    """Yield each legal split of the usual numbers of GPUs."""
    for split in size.splits:
        if not split.rejections and (split.pipeline == 1 or split.tensor in _GPUS_OF_NODES):
            yield split


def tabulate_served(hardware: Sequence[HardwareSize], most: int | None) -> Table:
    """Return the hardware that serves the model: pools have a place, and some hardware a price."""
    served = [size for size in hardware if not size.reason]
    has_costs = any(size.cost_per_hour for size in served[:most])
    columns = Columns[HardwareSize](
        *(_POOL if _is_fleet(hardware) else ()), _CLASS, *_SERVED, *((_COST,) if has_costs else ())
    )
    return columns.tabulate("Hardware that can serve the model", served, most)


def tabulate_refused(hardware: Sequence[HardwareSize]) -> Table:
    """Return the hardware that cannot serve the model."""
    columns = Columns[HardwareSize](*(_POOL if _is_fleet(hardware) else ()), _CLASS, _REASON)
    return columns.tabulate("Hardware that can't serve the model", (size for size in hardware if size.reason))


def _is_fleet(hardware: Sequence[HardwareSize]) -> bool:
    return any(size.cluster for size in hardware)

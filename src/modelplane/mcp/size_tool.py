"""Tool that sizes a model of the Hugging Face hub: the figures of ``modelplane size``."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Final

from modelplane.api.meta import Object
from modelplane.api.schema.decode import InvalidObject
from modelplane.api.user_error import UserError
from modelplane.catalogue.catalogue_files import load_catalogue
from modelplane.catalogue.inference_classes import build_class
from modelplane.checkpoints import checkpoint
from modelplane.checkpoints.checkpoint import build_model
from modelplane.checkpoints.hub import Hub
from modelplane.controllers import fleet_resources
from modelplane.mcp.fleet import Fleet
from modelplane.mcp.quoting import clean, format_table, quote
from modelplane.offline.models import size_report, size_rows
from modelplane.offline.models.size_report import HardwareSize, Size
from modelplane.sizing.memory import Load, Model

_MOST: Final = 20
"""Rows of hardware."""
_PATIENCE_S: Final = 60.0
_MODEL: Final = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.ASCII)
_ELEMENTS: Final = {"auto": 2, "fp8": 1}


class SizeTool:
    """The tool; it compares with the catalogue, or with the pools of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def size(
        self,
        model: str,
        *,
        context: int,
        concurrency: int,
        quantization: str,
        kv_cache_dtype: str,
        in_fleet: bool,
    ) -> str:
        """Return the memory of a model, and the hardware that can serve it. Raises ``UserError``."""
        if not _MODEL.fullmatch(model):
            raise UserError(f'"{clean(model, 100)}" is not OWNER/NAME of the hub: correct it')
        pools = None
        if in_fleet:
            resources = (fleet_resources.INFERENCE_CLASSES, fleet_resources.INFERENCE_CLUSTERS)
            snapshot = await self._fleet.take_snapshot(resources)
            pools = [item for kind in resources for item in snapshot.list_objects(kind.kind)]

        def compute() -> Size:
            read = checkpoint.read(Hub(model))
            sized = build_model(read, quantization or None)
            load = Load(_context(sized, context), concurrency, _ELEMENTS[kv_cache_dtype])
            return size_report.size(read.name, sized, load, _hardware(sized, load, pools))

        try:
            async with asyncio.timeout(_PATIENCE_S):
                return quote(_lines(await asyncio.to_thread(compute)))
        except TimeoutError:
            raise UserError(f"the hub gave no answer within {_PATIENCE_S:.0f} seconds: try again") from None
        except (UserError, InvalidObject) as error:
            raise UserError(clean(str(error))) from error
        except ModuleNotFoundError as error:
            raise UserError(f"{error.name} is not installed: run `pip install 'modelplane[mcp]'`") from error


def _context(model: Model, context: int) -> int:
    most = model.architecture.max_positions
    if not context and not most:
        raise UserError("the configuration of the model has no max_position_embeddings: give context")
    if context and most and context > most:
        raise UserError(f"the model has at most {most:,} positions: give a smaller context")
    return context or most


def _hardware(model: Model, load: Load, pools: Sequence[Object] | None) -> Iterator[HardwareSize]:
    if pools is not None:
        return size_report.size_pools(model, load, pools)
    catalogue = load_catalogue()
    classes = [build_class(catalogue, machine) for machine in catalogue.machines.values()]
    return size_report.size_classes(model, load, classes)


def _lines(size: Size) -> Iterator[str]:
    yield clean(size_rows.describe_model(size))
    yield from format_table("Weights", size_rows.WEIGHT_COLUMNS, size_rows.list_weight_rows(size))
    yield ""
    yield f"KV cache: {size_rows.describe_cache(size)}"
    title = "Each GPU, in GiB (other: runtime, communication and activations)"
    yield from format_table(title, size_rows.SPLIT_COLUMNS, size_rows.list_split_rows(size))
    fitting = [node for node in size.hardware if not node.reason]
    told = fitting[:_MOST]
    columns = size_rows.list_hardware_columns(size.hardware, told)
    yield from format_table(
        "Hardware that can serve it", columns, size_rows.list_served_rows(size.hardware, told)
    )
    if len(fitting) > len(told):
        yield f"and {len(fitting) - len(told)} more"
    if not fitting:
        columns = (*size_rows.list_place_columns(size.hardware), "CLASS", "REASON")
        yield from format_table("Hardware that cannot", columns, size_rows.list_refused_rows(size.hardware))

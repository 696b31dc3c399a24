"""Tool that sizes a model of the Hugging Face hub: the figures of ``modelplane size``."""

import asyncio
import re
from collections.abc import Iterator
from typing import Final

from modelplane.api.schema.decode import InvalidObject
from modelplane.checkpoints import checkpoint
from modelplane.checkpoints.hub import Hub
from modelplane.controllers import fleet_resources
from modelplane.mcp.fleet import Fleet
from modelplane.mcp.quoting import clean, format_table, quote
from modelplane.offline.models import size_rows
from modelplane.offline.models.size_report import Size
from modelplane.operations.model_sizes import size_model
from modelplane.user_error import UserError

_MOST: Final = 20
"""Rows of hardware."""
_PATIENCE_S: Final = 60.0
_MODEL: Final = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.ASCII)


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
            return size_model(
                checkpoint.read(Hub(model)),
                quantization=quantization or None,
                tokens=context or None,
                concurrency=concurrency,
                kv_cache_dtype=kv_cache_dtype,
                fleet=pools,
                option="context",
            )

        try:
            async with asyncio.timeout(_PATIENCE_S):
                return quote(_lines(await asyncio.to_thread(compute)))
        except TimeoutError:
            raise UserError(f"the hub gave no answer within {_PATIENCE_S:.0f} seconds: try again") from None
        except (UserError, InvalidObject) as error:
            raise UserError(clean(str(error))) from error
        except ModuleNotFoundError as error:
            raise UserError(f"{error.name} is not installed: run `pip install 'modelplane[mcp]'`") from error


def _lines(size: Size) -> Iterator[str]:
    yield clean(size_rows.describe_model(size))
    yield from format_table(size_rows.WEIGHTS.tabulate("Weights", size_rows.list_weights(size)))
    yield ""
    yield f"KV cache: {size_rows.describe_cache(size)}"
    yield from format_table(size_rows.SPLITS.tabulate(size_rows.SPLITS_TITLE, size_rows.list_splits(size)))
    served = size_rows.tabulate_served(size.hardware, _MOST)
    yield from format_table(served)
    if not served.rows:
        yield from format_table(size_rows.tabulate_refused(size.hardware))

"""Health and metrics endpoint of a long-running command."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelplane.telemetry.metric_definitions import Program, Sample


@contextmanager
def serve_health(
    address: str | None,
    program: "Program",
    ready: Callable[[], str | None],
    observe: "Callable[[], Iterable[Sample]]" = tuple,
) -> Iterator[None]:
    """Serve health and metrics inside the block, if an address is given.

    ``ready`` and ``observe`` are called in any thread.
    """
    if address is None:
        yield
        return
    from modelplane.telemetry import metrics, server

    loop = asyncio.get_running_loop()
    registry = metrics.build_registry(program, observe)
    with server.serve(address, alive=server.watch_loop(loop), ready=ready, registry=registry):
        yield

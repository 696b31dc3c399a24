"""Health and metrics endpoint of a long-running command."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from modelplane.cli.errors import UserError

if TYPE_CHECKING:
    from modelplane.telemetry.observed import State
    from modelplane.telemetry.table import Program


@contextmanager
def health(
    address: str | None,
    program: "Program",
    ready: Callable[[], str],
    observe: "Callable[[], State] | None" = None,
) -> Iterator[None]:
    """Serve health and metrics inside the block, if an address is given.

    ``ready`` is called in any thread, ``observe`` on this event loop.
    """
    if address is None:
        yield
        return
    from modelplane.telemetry import event_loop, metrics, server
    from modelplane.telemetry.observed import State

    loop = asyncio.get_running_loop()
    registry = metrics.registry(program, event_loop.asked(loop, observe) if observe else State)
    try:
        served = server.serve(address, alive=event_loop.alive(loop), ready=ready, registry=registry)
    except server.CannotListen as error:
        raise UserError(str(error)) from error
    with served:
        yield

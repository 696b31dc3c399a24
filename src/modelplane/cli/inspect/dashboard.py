"""``modelplane dashboard``: show a fleet as a web page on this machine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from modelplane.cli.options import format_example
from modelplane.cli.target import Target, add_target_options

if TYPE_CHECKING:
    from modelplane.dashboard.fleet_view import FleetView

_PATIENCE_S = 10.0


@click.command(epilog=format_example("modelplane dashboard --port 8790"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8790,
    metavar="PORT",
    help="Port on the loopback address. 0 chooses a free port. Default: 8790.",
)
@add_target_options
def dashboard(*, port: int, target: Target) -> None:
    """Show the fleet in a web browser: clusters, deployments, services, events, and plans.

    Open the printed URL on this machine. The page uses the permissions of the kubeconfig and is read-only.
    Press Ctrl-C to stop.
    """
    from modelplane.dashboard.pages import Pages
    from modelplane.dashboard.server import Server

    async def serve() -> None:
        async with (
            watch_fleet(target) as view,
            Server(Pages(_origin(target)), view).serve(port) as address,
        ):
            click.echo(f"Open {address}")
            await asyncio.Event().wait()

    asyncio.run(serve())


@contextlib.asynccontextmanager
async def watch_fleet(target: Target) -> "AsyncIterator[FleetView]":
    """Watch a fleet and its traffic inside the block."""
    from datetime import UTC, datetime

    from modelplane.dashboard.fleet_view import FleetView, Watched
    from modelplane.dashboard.traffic import open_feed

    async with (
        target.open_client() as client,
        open_feed(target.find_local_home(), client) as (records, problem),
    ):
        watched = Watched(client, datetime.now(UTC))
        async with watched.keep_current(_PATIENCE_S):
            view = FleetView(watched, records, problem)
            async with view.follow():
                yield view


def _origin(target: Target) -> str:
    if target.find_local_home() is not None:
        return "this machine"
    return target.context or (target.kubeconfig.name if target.kubeconfig else "control plane")

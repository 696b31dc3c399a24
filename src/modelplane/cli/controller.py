"""``modelplane controller``: reconcile a fleet from the control plane that a kubeconfig names."""

import asyncio
import logging
import signal
from pathlib import Path

import click

from modelplane.cli.errors import UserError


@click.command()
@click.option(
    "--kubeconfig",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="The control plane, and who to be there.",
)
@click.option(
    "--gateway-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the local Envoy reads its configuration.",
)
@click.option("--front-door", default="", metavar="HOST:PORT", help="Where the local Envoy accepts requests.")
@click.option("--debug", is_flag=True, help="Log every step.")
def controller(kubeconfig: str, gateway_dir: Path | None, front_door: str, debug: bool) -> None:
    """Run the controllers against a control plane, until they are stopped."""
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    logging.getLogger("httpcore2").setLevel(logging.WARNING)
    asyncio.run(_run(kubeconfig, gateway_dir, front_door))


async def _run(kubeconfig: str, gateway_dir: Path | None, front_door: str) -> None:
    from modelplane.controllers.manager import Manager
    from modelplane.kube.client import Client
    from modelplane.local import addresses, envoy

    try:
        connection = Client.from_kubeconfig(kubeconfig)
    except ValueError as error:
        raise UserError(f'{error}: give --kubeconfig another file than "{kubeconfig}", or mend it') from error
    async with connection as client:
        manager = Manager(
            client,
            front_door=front_door,
            gateway_dir=gateway_dir,
            write=envoy.write,
            dial=addresses.bound,
        )
        task = asyncio.create_task(manager.run())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return

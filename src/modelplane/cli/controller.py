"""``modelplane controller``: reconcile a fleet from the control plane that a kubeconfig names."""

import asyncio
from pathlib import Path

import click

from modelplane.cli.errors import UserError
from modelplane.cli.logs import log_to_stderr


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
    log_to_stderr(debug=debug)
    asyncio.run(_run(kubeconfig, gateway_dir, front_door))


async def _run(kubeconfig: str, gateway_dir: Path | None, front_door: str) -> None:
    from modelplane.controllers.manager import Manager
    from modelplane.kube.client import Client
    from modelplane.local import addresses, envoy
    from modelplane.local.signals import until_signalled

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
        await until_signalled(manager.run())

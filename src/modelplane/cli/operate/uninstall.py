"""``modelplane uninstall``: remove Modelplane from a cluster, with ``--delete-models`` every model first."""

from typing import TYPE_CHECKING

import click

from modelplane.cli.machine.running import refuse_local_fleet
from modelplane.cli.options import format_example
from modelplane.cli.target import Target, add_target_options, run_steps

if TYPE_CHECKING:
    from modelplane.install.waiting import Deadline, Report
    from modelplane.kube.client import Client


@click.command(epilog=format_example("modelplane uninstall --context staging"))
@click.option(
    "--delete-models",
    is_flag=True,
    help="First delete every model, then clusters, classes, gateways, and the CRDs.",
)
@add_target_options
def uninstall(*, delete_models: bool, target: Target) -> None:
    """Remove Modelplane from a cluster.

    The command refuses to run while models exist, and keeps CRDs that still have objects.
    """
    refuse_local_fleet(target.find_local_home())

    async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
        from modelplane.install.removing import Uninstaller

        await Uninstaller(client, report, deadline).uninstall(delete_models=delete_models)

    run_steps(target, do)

"""``modelplane uninstall``: remove Modelplane from a cluster, with ``--delete-models`` every model first."""

from typing import TYPE_CHECKING

import click

from modelplane.cli.operate.api_server import Server, add_api_server_options, run_steps

if TYPE_CHECKING:
    from modelplane.install.steps.waiting import Deadline, Report
    from modelplane.kube.client import Client


@click.command()
@click.option(
    "--delete-models",
    is_flag=True,
    help="Delete every model first, then the clusters, classes and gateways, and the CRDs.",
)
@add_api_server_options
def uninstall(*, delete_models: bool, server: Server) -> None:
    """Remove an installation. Refuse while there are models.

    The CRDs are removed only when none of their objects is left.
    """

    async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
        from modelplane.install.steps.removing import Uninstaller

        await Uninstaller(client, report, deadline).uninstall(delete_models=delete_models)

    run_steps(server, do)

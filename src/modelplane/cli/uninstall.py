"""``modelplane uninstall``: take Modelplane off a cluster, and with it, if told so, every model."""

from typing import TYPE_CHECKING

import click

from modelplane.cli.api_server import Server, api_server_options, work

if TYPE_CHECKING:
    from modelplane.install.waiting import Deadline, Report
    from modelplane.kube.client import Client


@click.command()
@click.option(
    "--delete-models",
    is_flag=True,
    help="Delete every model first, then the clusters, classes and gateways, and the kinds themselves.",
)
@api_server_options
def uninstall(*, delete_models: bool, server: Server) -> None:
    """Remove an installation. While there are models, it refuses.

    The kinds go only when no object of theirs is left.
    """

    async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
        from modelplane.install.removing import Uninstaller

        await Uninstaller(client, report, deadline).uninstall(delete_models=delete_models)

    work(server, do)

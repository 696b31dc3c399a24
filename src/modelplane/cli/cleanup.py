"""``modelplane cleanup``: delete from inference clusters what a deleted namespace left behind."""

from typing import TYPE_CHECKING

import click

from modelplane.cli.api_server import Server, api_server_options, work
from modelplane.cli.errors import FAILED

if TYPE_CHECKING:
    from modelplane.install.waiting import Deadline, Report
    from modelplane.kube.client import Client


@click.command()
@click.argument("namespace")
@click.option(
    "--cluster", "clusters", multiple=True, metavar="NAME", help="Only on this one; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
@api_server_options
def cleanup(namespace: str, *, clusters: tuple[str, ...], dry_run: bool, yes: bool, server: Server) -> None:
    """Delete from inference clusters what a deleted NAMESPACE left behind, under Crossplane.

    For a namespace whose deletion hangs, because its provider-kubernetes Objects cannot be finished.
    """
    doubts: list[str] = []

    async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
        from modelplane.cli.inference_clusters import InferenceClusters
        from modelplane.cli.leftovers import Cleaner

        reached = InferenceClusters(client)
        try:
            cleaner = Cleaner(client, reached, namespace)
            found = await cleaner.find(clusters)
            doubts.extend(found.doubts)
            for each in found.there:
                click.echo(str(each))
            if dry_run or not found.items:
                click.echo(f"{len(found.there)} to delete, {len(found.items)} Objects to let go")
                return
            if found.there and not yes:
                click.confirm(f"Delete these {len(found.there)} from their clusters?", abort=True)
            await cleaner.delete(found, deadline)
            report(f"inference clusters: {len(found.there)} deleted")
            report(f"Objects: {await cleaner.release(found)} let go")
        finally:
            await reached.close()

    work(server, do)
    for doubt in doubts:
        click.echo(doubt, err=True)
    if doubts:
        raise click.exceptions.Exit(FAILED)

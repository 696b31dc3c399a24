"""``modelplane cleanup``: delete the objects of a deleted namespace that remain on inference clusters."""

from typing import TYPE_CHECKING

import click

from modelplane.cli.errors import FAILED
from modelplane.cli.operate.api_server import Server, add_api_server_options, run_steps

if TYPE_CHECKING:
    from modelplane.install.steps.waiting import Deadline, Report
    from modelplane.kube.client import Client


@click.command()
@click.argument("namespace")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    help="Only this InferenceCluster; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="List the objects to delete, and delete nothing.")
@click.option("--yes", is_flag=True, help="Delete without confirmation.")
@add_api_server_options
def cleanup(namespace: str, *, clusters: tuple[str, ...], dry_run: bool, yes: bool, server: Server) -> None:
    """Delete the objects of a deleted NAMESPACE that remain on inference clusters, under Crossplane.

    Use it when the deletion of a namespace hangs, because provider-kubernetes cannot finalize its Objects.
    """
    doubts: list[str] = []

    async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
        from modelplane.cli.inference_clusters import InferenceClusters
        from modelplane.cli.operate.leftovers import Cleaner

        reached = InferenceClusters(client)
        try:
            cleaner = Cleaner(client, reached, namespace)
            leftovers = await cleaner.find(clusters)
            doubts.extend(leftovers.doubts)
            for leftover in leftovers.there:
                click.echo(str(leftover))
            if dry_run or not leftovers.items:
                click.echo(f"{len(leftovers.there)} to delete, {len(leftovers.items)} Objects to release")
                return
            if leftovers.there and not yes:
                click.confirm(f"Delete these {len(leftovers.there)} from their clusters?", abort=True)
            await cleaner.delete(leftovers, deadline)
            report(f"inference clusters: {len(leftovers.there)} deleted")
            report(f"Objects: {await cleaner.release(leftovers)} released")
        finally:
            await reached.close()

    run_steps(server, do)
    for doubt in doubts:
        click.echo(doubt, err=True)
    if doubts:
        raise click.exceptions.Exit(FAILED)

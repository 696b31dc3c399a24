"""``modelplane cleanup``: delete the objects of a deleted namespace that remain on inference clusters."""

from typing import TYPE_CHECKING

import click

from modelplane.cli.exit_statuses import FAILED
from modelplane.cli.options import add_dry_run_option, add_yes_option, confirm, format_example
from modelplane.cli.target import Target, add_target_options, run_steps

if TYPE_CHECKING:
    from modelplane.install.waiting import Deadline, Report
    from modelplane.kube.client import Client


@click.command(epilog=format_example("modelplane cleanup ml-team --dry-run"))
@click.argument("namespace")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    help="Clean up only this InferenceCluster. You can repeat the option.",
)
@add_target_options
@add_dry_run_option
@add_yes_option
def cleanup(namespace: str, *, clusters: tuple[str, ...], target: Target, dry_run: bool, yes: bool) -> None:
    """Delete objects that remain on clusters after the deletion of NAMESPACE, under Crossplane.

    Use this command if the deletion of a namespace hangs, because provider-kubernetes can't finalize its
    Objects.
    """
    doubts: list[str] = []

    async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
        from modelplane.operations.leftovers import Cleaner
        from modelplane.operations.pod_logs import InferenceClusters

        reached = InferenceClusters(client)
        try:
            cleaner = Cleaner(client, reached, namespace)
            leftovers = await cleaner.find(clusters)
            doubts.extend(leftovers.doubts)
            for leftover in leftovers.there:
                click.echo(str(leftover))
            if dry_run or not leftovers.items:
                click.echo(
                    f"Would delete {len(leftovers.there)} objects on clusters, and release "
                    f"{len(leftovers.items)} Crossplane Objects"
                )
                return
            if leftovers.there:
                confirm(f"Delete these {len(leftovers.there)} objects from the clusters?", yes=yes)
            await cleaner.delete(leftovers, deadline)
            report(f"Deleted {len(leftovers.there)} objects on clusters")
            report(f"Released {await cleaner.release(leftovers)} Crossplane Objects")
        finally:
            await reached.close()

    run_steps(target, do)
    for doubt in doubts:
        click.echo(doubt, err=True)
    if doubts:
        raise click.exceptions.Exit(FAILED)

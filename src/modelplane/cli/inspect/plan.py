"""``modelplane plan``: show where deployments would be placed, on a fleet of files or a live one.

``explain``, ``deploy`` and drains print placements in the same way. For a large fleet only the rows that
concern the deployments are printed, and the rest is counted. ``--all`` and ``-o json`` print everything.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.exit_statuses import UNMET
from modelplane.cli.options import MANIFESTS, add_all_option, add_fleet_option, format_example, load
from modelplane.cli.output import TEXT, add_output_option, print_document, print_table
from modelplane.cli.target import Target, add_target_options, read_fleet
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.offline.plan.placements import Deployment, Plan

MOST: Final = 20
"""Number of pools, and of a deployment's refusals, up to which all are printed."""


def print_placements(deployments: "Sequence[Deployment]", *, everything: bool) -> None:
    """Print how many replicas are placed, and where, and what refused the others; of many, the closest."""
    from modelplane.offline.plan import placement_tables

    print_replicas(deployments)
    for deployment in deployments:
        if deployment.diagnosis:
            click.echo(f"\n{deployment.name}: {deployment.diagnosis}")
            shown = None if everything else MOST
            print_table(placement_tables.tabulate_refusals("", deployment.refusals, shown))


def print_replicas(deployments: "Sequence[Deployment]") -> None:
    """Print how many replicas are placed, and where."""
    from modelplane.offline.plan import placement_tables

    click.echo(placement_tables.describe_placed(deployments))
    print_table(placement_tables.REPLICAS.tabulate("Replicas", placement_tables.list_places(deployments)))


def print_cost(deployments: "Sequence[Deployment]") -> None:
    """Print the cost of deployments, if a pool of the fleet has a price."""
    from modelplane.offline.plan import placement_tables

    if costs := [cost for deployment in deployments if (cost := placement_tables.describe_cost(deployment))]:
        click.echo("\nCost:\n" + "\n".join(costs))


def print_fleet(result: "Plan", deployments: "Sequence[Deployment]", *, everything: bool) -> None:
    """Print the free capacity of the pools, those that do not exist yet, and the clusters assumed ready."""
    from modelplane.offline.plan import placement_tables

    pools = result.pools
    told = pools if everything else placement_tables.select_pools(pools, deployments, MOST)
    print_table(placement_tables.CAPACITY.tabulate("Remaining capacity", placement_tables.list_amounts(told)))
    if len(told) < len(pools):
        rest = f"{len(pools) - len(told):,}"
        counted = f"and {rest} more pools" if told else f"\nRemaining capacity: {rest} pools"
        click.echo(f"{counted} without these replicas: --all shows them")
    if notes := [*placement_tables.describe_pools(told, result.assumed_ready)]:
        click.echo("\n" + "\n".join(notes))


@click.command(epilog=format_example("modelplane plan deployments/ --fleet fleet/"))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=MANIFESTS)
@add_fleet_option("Manifests of classes, clusters, and existing replicas.")
@click.option(
    "--compare",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help=(
        "Also plan these files instead of PATH, and print only the differences. You can repeat the option."
    ),
)
@click.option("--live", "on_live", is_flag=True, help="Use the fleet of the control plane.")
@add_target_options
@add_all_option
@add_output_option
def plan(
    paths: tuple[str, ...],
    *,
    fleet: tuple[str, ...],
    compare: tuple[str, ...],
    on_live: bool,
    target: Target,
    everything: bool,
    output: str,
) -> None:
    """Show where the ModelDeployments in PATH would be placed.

    The fleet is described by files, or read from the control plane with --live. The exit status is 2 if a
    replica is not placed, and 1 if a file is invalid.
    """
    from modelplane.api.inference_cluster import InferenceCluster
    from modelplane.api.meta import kind_name
    from modelplane.api.model_deployment import ModelDeployment

    # Refuse options that contradict each other.
    if on_live and fleet:
        raise click.UsageError("--live reads the fleet from the API server: omit --live or --fleet")
    if target.is_chosen and not on_live:
        raise click.UsageError("--kubeconfig, --context, and --home select a live fleet: add --live")
    fleet_objects, given, former = load(fleet, paths, compare)
    if all(item["kind"] != kind_name(ModelDeployment) for item in (*given, *former)):
        raise UserError("PATH contains no ModelDeployment: name a file that contains one")
    if on_live:
        from modelplane.controllers.fleet_resources import NEEDED_TO_PLAN

        fleet_objects = tuple(read_fleet(target, NEEDED_TO_PLAN))
    result = _planned(fleet_objects, given, live=on_live)
    if compare:
        _tell_difference(_planned(fleet_objects, former, live=on_live), result, output)
    else:
        _tell(result, output, everything=everything)
    are_clusters = (item["kind"] == kind_name(InferenceCluster) for item in (*fleet_objects, *given))
    if not (result.placed or on_live or any(are_clusters)):
        click.echo("These files contain no InferenceCluster: add --fleet PATH or --live", err=True)
    if not result.placed:
        raise click.exceptions.Exit(UNMET)


def _planned(fleet_objects: "tuple[Object, ...]", given: "tuple[Object, ...]", *, live: bool) -> "Plan":
    from modelplane.offline.plan import placements

    return placements.plan_manifests(fleet_objects, given, live=live)


def _tell(result: "Plan", output: str, *, everything: bool) -> None:
    if output != TEXT:
        print_document(result, output)
        return
    print_placements(result.deployments, everything=everything)
    for field in ("rollout", "standby"):
        for deployment in result.deployments:
            if state := getattr(deployment, field):
                click.echo(f"\n{deployment.name}: {field}: {state}")
    print_cost(result.deployments)
    print_fleet(result, result.deployments, everything=everything)


def _tell_difference(before: "Plan", after: "Plan", output: str) -> None:
    from modelplane.offline.plan import plan_comparison as comparison

    differences = comparison.compare(before, after)
    if output != TEXT:
        print_document(differences, output)
        return
    click.echo(comparison.describe(differences))
    print_table(comparison.DEPLOYMENTS.tabulate("Deployments", differences.changes))
    print_table(comparison.PLACES.tabulate("Replicas", comparison.list_places(differences)))
    for line in comparison.list_refused(differences):
        click.echo(f"\n{line}")

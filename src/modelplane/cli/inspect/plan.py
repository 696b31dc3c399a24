"""``modelplane plan``: show where deployments would be placed, on a fleet of files or a live one."""

from typing import TYPE_CHECKING

import click

from modelplane.cli.inspect import placing
from modelplane.cli.manifest_files import MANIFESTS, load
from modelplane.cli.options import add_all_option, add_fleet_option, format_example
from modelplane.cli.output import TEXT, add_output_option, print_document
from modelplane.cli.target import Target, add_target_options, read_fleet
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.offline.plan.placements import Plan


@click.command(epilog=format_example("modelplane plan deployments/ --fleet fleet/"))
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=MANIFESTS)
@add_fleet_option("Classes, clusters and existing replicas.")
@click.option(
    "--compare",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Plan these files in place of PATH too, and print only the differences. You can repeat the option.",
)
@click.option("--live", "on_live", is_flag=True, help="Plan on the fleet of the control plane.")
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
    """Place every ModelDeployment in PATH, one after the other, on the fleet that the files describe.

    With --live, use the fleet of the control plane, with the objects in PATH instead of its own. The exit
    status is 2 if a replica is not placed, and 1 if a file is invalid.
    """
    # Refuse options that contradict each other.
    if on_live and fleet:
        raise click.UsageError("--live reads the fleet from the API server: leave out --live or --fleet")
    if target.is_chosen and not on_live:
        raise click.UsageError("--kubeconfig, --context and --home choose a live fleet: give --live too")
    fleet_objects, given, former = load(fleet, paths, compare)
    if not any(map(_is_deployment, (*given, *former))):
        raise UserError("PATH has no ModelDeployment to place: name a file that has one")
    if on_live:
        from modelplane.controllers.fleet_resources import NEEDED_TO_PLAN

        fleet_objects = tuple(read_fleet(target, NEEDED_TO_PLAN))
    result = _planned(fleet_objects, given, live=on_live)
    if compare:
        _tell_difference(_planned(fleet_objects, former, live=on_live), result, output)
    else:
        _tell(result, output, everything=everything)
    if not result.placed:
        raise click.exceptions.Exit(placing.NOT_PLACED)


def _planned(fleet_objects: "tuple[Object, ...]", given: "tuple[Object, ...]", *, live: bool) -> "Plan":
    from modelplane.offline.plan import placements

    return placements.plan_manifests(fleet_objects, given, live=live)


def _tell(result: "Plan", output: str, *, everything: bool) -> None:
    if output != TEXT:
        print_document(result, output)
        return
    placing.print_placements(result.deployments, everything=everything)
    placing.print_rollout(result.deployments)
    placing.print_standby(result.deployments)
    placing.print_cost(result.deployments)
    placing.print_fleet(result, result.deployments, everything=everything)


def _tell_difference(before: "Plan", after: "Plan", output: str) -> None:
    from modelplane.cli.output import print_table
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


def _is_deployment(item: "Object") -> bool:
    from modelplane.api.meta import kind_name
    from modelplane.api.model_deployment import ModelDeployment

    return bool(item["kind"] == kind_name(ModelDeployment))

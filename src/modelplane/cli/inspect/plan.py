"""``modelplane plan``: show where deployments would be placed, on a fleet of files or a live one."""

from typing import TYPE_CHECKING

import click

from modelplane.cli.errors import UserError
from modelplane.cli.inspect import placing
from modelplane.cli.live import Live, add_live_options
from modelplane.cli.live_objects import read_fleet
from modelplane.cli.manifest_files import MANIFESTS, add_output_option, add_paths_argument, load

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.offline.plan.placements import Plan


@click.command()
@add_paths_argument
@click.option(
    "--fleet",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Classes, clusters and existing replicas; may be repeated.",
)
@click.option(
    "--compare",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Plan these files too, in place of PATH, and print only what differs; may be repeated.",
)
@click.option("--live", "on_live", is_flag=True, help="Plan on the fleet of the API server; write nothing.")
@add_live_options
@placing.add_all_option
@add_output_option("table", "Tables to read, or a JSON document.")
def plan(
    paths: tuple[str, ...],
    *,
    fleet: tuple[str, ...],
    compare: tuple[str, ...],
    on_live: bool,
    live: Live,
    everything: bool,
    output: str,
) -> None:
    """Place every ModelDeployment in PATH, one after the other, on the fleet that the files describe.

    With --live, on the fleet of the API server as it is now, with the objects in PATH in place of those that
    it has. The exit status is 2 if a replica is not placed, and 1 if a file is invalid.
    """
    _check_options(fleet, live, on_live=on_live)
    fleet_objects, given, former = load(fleet, paths, compare)
    if not any(map(_is_deployment, (*given, *former))):
        raise UserError("PATH has no ModelDeployment to place: name a file that has one")
    if on_live:
        fleet_objects = _live_fleet(live)
    result = _planned(fleet_objects, given, live=on_live)
    if compare:
        _tell_difference(_planned(fleet_objects, former, live=on_live), result, output)
    else:
        _tell(result, output, everything=everything)
    if not result.placed:
        raise click.exceptions.Exit(placing.NOT_PLACED)


def _check_options(fleet: tuple[str, ...], live: Live, *, on_live: bool) -> None:
    """Refuse options that contradict each other."""
    if on_live and fleet:
        raise click.UsageError("--live reads the fleet from the API server: leave out --live or --fleet")
    if not on_live and (live.kubeconfig or live.context or live.home):
        raise click.UsageError("--kubeconfig, --context and --home choose a live fleet: give --live too")


def _live_fleet(live: Live) -> "tuple[Object, ...]":
    from modelplane.controllers.fleet_resources import NEEDED_TO_PLAN

    return tuple(read_fleet(live, NEEDED_TO_PLAN))


def _planned(fleet_objects: "tuple[Object, ...]", given: "tuple[Object, ...]", *, live: bool) -> "Plan":
    from modelplane.offline.plan import placements

    return placements.plan_manifests(fleet_objects, given, live=live)


def _tell(result: "Plan", output: str, *, everything: bool) -> None:
    from modelplane.offline.files import output as documents

    if output == "json":
        click.echo(documents.to_json(result))
        return
    placing.print_placements(result.deployments, everything=everything)
    placing.print_rollout(result.deployments)
    placing.print_standby(result.deployments)
    placing.print_cost(result.deployments)
    placing.print_fleet(result, result.deployments, everything=everything)


def _tell_difference(before: "Plan", after: "Plan", output: str) -> None:
    from modelplane.cli import tables
    from modelplane.offline.files import output as documents
    from modelplane.offline.plan import plan_comparison as comparison

    differences = comparison.compare(before, after)
    if output == "json":
        click.echo(documents.to_json(differences))
        return
    click.echo(comparison.describe(differences))
    tables.show("Deployments:", comparison.DEPLOYMENT_COLUMNS, comparison.list_deployment_rows(differences))
    tables.show("Replicas:", comparison.REPLICA_COLUMNS, comparison.list_replica_rows(differences))
    for line in comparison.list_refused(differences):
        click.echo(f"\n{line}")


def _is_deployment(item: "Object") -> bool:
    from modelplane.api.meta import kind_name
    from modelplane.api.model_deployment import ModelDeployment

    return bool(item["kind"] == kind_name(ModelDeployment))

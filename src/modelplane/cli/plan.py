"""``modelplane plan``: show where deployments would be placed, from files alone."""

from typing import TYPE_CHECKING

import click

from modelplane.cli import placing
from modelplane.cli.errors import UserError
from modelplane.cli.files import MANIFESTS, load, output_option, paths_argument

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.offline.placements import Plan


@click.command()
@paths_argument
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
@placing.all_option
@output_option("table", "Tables to read, or a JSON document.")
def plan(
    paths: tuple[str, ...], *, fleet: tuple[str, ...], compare: tuple[str, ...], everything: bool, output: str
) -> None:
    """Place every ModelDeployment in PATH, one after the other, on the fleet that the files describe.

    The exit status is 2 if a replica is not placed, and 1 if a file is invalid.
    """
    there, given, former = load(fleet, paths, compare)
    if not any(map(_is_deployment, (*given, *former))):
        raise UserError("PATH has no ModelDeployment to place: name a file that has one")
    result = _planned(there, given)
    if compare:
        _tell_difference(_planned(there, former), result, output)
    else:
        _tell(result, output, everything=everything)
    if not result.placed:
        raise click.exceptions.Exit(placing.NOT_PLACED)


def _planned(there: "tuple[Object, ...]", given: "tuple[Object, ...]") -> "Plan":
    from modelplane.offline import placements
    from modelplane.offline.fleet import Unplannable, assemble

    wanted = {_identity(item) for item in given if _is_deployment(item)}
    try:
        files = assemble((*there, *given))
        return placements.plan(files, [item for item in files.deployments if _identity(item) in wanted])
    except Unplannable as error:
        raise UserError(str(error)) from error


def _tell(result: "Plan", output: str, *, everything: bool) -> None:
    from modelplane.offline import output as documents

    if output == "json":
        click.echo(documents.as_json(result))
        return
    placing.tell_replicas(result.deployments)
    for each in result.deployments:
        if each.diagnosis:
            click.echo(f"\n{each.name}: {each.diagnosis}")
            placing.tell_refusals("", each.refusals, everything=everything)
    placing.tell_rollout(result.deployments)
    placing.tell_standby(result.deployments)
    placing.tell_cost(result.deployments)
    placing.tell_fleet(result, result.deployments, everything=everything)


def _tell_difference(before: "Plan", after: "Plan", output: str) -> None:
    from modelplane.cli import tables
    from modelplane.offline import output as documents
    from modelplane.offline import plan_comparison as comparison

    found = comparison.compare(before, after)
    if output == "json":
        click.echo(documents.as_json(found))
        return
    click.echo(comparison.summary(found))
    tables.show("Deployments:", comparison.DEPLOYMENT_COLUMNS, comparison.deployment_rows(found))
    tables.show("Replicas:", comparison.REPLICA_COLUMNS, comparison.replica_rows(found))
    for line in comparison.refused(found):
        click.echo(f"\n{line}")


def _is_deployment(item: "Object") -> bool:
    from modelplane.api.meta import kind_name
    from modelplane.api.model_deployment import ModelDeployment

    return bool(item["kind"] == kind_name(ModelDeployment))


def _identity(item: "Object") -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace") or "default", metadata["name"]

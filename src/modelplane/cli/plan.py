"""``modelplane plan``: show where deployments would be placed, from files alone."""

from typing import TYPE_CHECKING

import click

from modelplane.cli import placing
from modelplane.cli.errors import UserError
from modelplane.cli.files import MANIFESTS, load, output_option, paths_argument

if TYPE_CHECKING:
    from modelplane.api.meta import Object


@click.command()
@paths_argument
@click.option(
    "--fleet",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Classes, clusters and existing replicas; may be repeated.",
)
@placing.all_option
@output_option("table", "Tables to read, or a JSON document.")
def plan(paths: tuple[str, ...], fleet: tuple[str, ...], everything: bool, output: str) -> None:
    """Place every ModelDeployment in PATH, one after the other, on the fleet that the files describe.

    The exit status is 2 if a replica is not placed, and 1 if a file is invalid.
    """
    from modelplane.api.meta import kind_name
    from modelplane.api.model_deployment import ModelDeployment
    from modelplane.offline import output as documents
    from modelplane.offline import placements
    from modelplane.offline.fleet import Unplannable, assemble

    there, given = load(fleet, paths)
    wanted = {_identity(item) for item in given if item["kind"] == kind_name(ModelDeployment)}
    if not wanted:
        raise UserError("PATH has no ModelDeployment to place: name a file that has one")
    try:
        files = assemble((*there, *given))
        planned = [item for item in files.deployments if _identity(item) in wanted]
        result = placements.plan(files, planned)
    except Unplannable as error:
        raise UserError(str(error)) from error
    if output == "json":
        click.echo(documents.as_json(result))
    else:
        placing.tell_replicas(result.deployments)
        for each in result.deployments:
            if each.diagnosis:
                click.echo(f"\n{each.name}: {each.diagnosis}")
                placing.tell_refusals("", each.refusals, everything=everything)
        placing.tell_rollout(result.deployments)
        placing.tell_standby(result.deployments)
        placing.tell_cost(result.deployments)
        placing.tell_fleet(result, result.deployments, everything=everything)
    if not result.placed:
        raise click.exceptions.Exit(placing.NOT_PLACED)


def _identity(item: "Object") -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace") or "default", metadata["name"]

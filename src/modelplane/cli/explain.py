"""``modelplane explain``: say why a deployment is where it is, or why not.

The fleet is the one that runs, or a dump of one: the same code looks at both.
"""

from typing import TYPE_CHECKING

import click

from modelplane.cli import named, placing
from modelplane.cli.errors import UserError
from modelplane.cli.files import MANIFESTS, load, output_option
from modelplane.cli.live import Live, live_options, read

if TYPE_CHECKING:
    from modelplane.compose.composition import Object
    from modelplane.kube.client import Client
    from modelplane.offline.fleet import Files


@click.command()
@click.argument("name", metavar="md/NAME")
@click.option(
    "-n", "--namespace", default="", help="The deployment's namespace, where the name is not enough."
)
@click.option(
    "--fleet",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="The fleet's objects, as kubectl get -o yaml prints them; by default the API server is asked.",
)
@live_options
@placing.all_option
@output_option("table", "Tables to read, or a JSON document.")
def explain(
    name: str, namespace: str, fleet: tuple[str, ...], live: Live, everything: bool, output: str
) -> None:
    """Say where the replicas of the ModelDeployment NAME are and why, and what refused those that are not.

    The exit status is 2 where a replica has no place, and 1 where a file is wrong.
    """
    from modelplane.cli import tables
    from modelplane.offline import output as documents
    from modelplane.offline import placement_tables, placements
    from modelplane.offline.fleet import Unplannable

    called = _called(name)
    try:
        files = _files(fleet, live)
        wanted = named.found(files.deployments, "ModelDeployment", called, namespace)
        result = placements.explain(files, wanted)
    except Unplannable as error:
        raise UserError(str(error)) from error
    if output == "json":
        click.echo(documents.as_json(result))
    else:
        deployment = result.deployment
        said = deployment.diagnosis or placement_tables.verdict([deployment])
        click.echo(f"{deployment.name}: {said}")
        tables.show("Replicas:", placement_tables.WHERE_COLUMNS, placement_tables.where_rows(deployment))
        placing.tell_refusals("Refused by:", deployment.refusals, everything=everything)
        tables.show(
            "To place one more, one of:",
            placement_tables.REMEDY_COLUMNS,
            placement_tables.remedy_rows(deployment),
        )
        placing.tell_fleet(result, [deployment], everything=everything)
    if not result.placed:
        raise click.exceptions.Exit(placing.NOT_PLACED)


def _called(name: str) -> str:
    """Return the name of a deployment out of what kubectl would take for it."""
    from modelplane.api.kinds import kind_of
    from modelplane.api.model_deployment import ModelDeployment

    kind = kind_of(ModelDeployment)
    meant = named.called(name, (kind,))
    if meant is None:
        raise click.BadParameter(
            f'"{name}" names no ModelDeployment: write {kind.short}/NAME', param_hint="md/NAME"
        )
    return meant[1]


def _files(fleet: tuple[str, ...], live: Live) -> "Files":
    """Return the fleet of the files, or where there are none the one that an API server has."""
    from modelplane.offline.fleet import assemble

    if fleet:
        (objects,) = load(fleet)
        return assemble(objects)
    return assemble(read(live, "the fleet", _objects), live=True)


async def _objects(client: "Client") -> "list[Object]":
    """Return what a placement is computed from."""
    from modelplane.kube import resources

    kinds = (
        resources.INFERENCE_CLUSTERS,
        resources.MODEL_CACHES,
        resources.MODEL_DEPLOYMENTS,
        resources.MODEL_REPLICAS,
    )
    return [item for kind in kinds for item in (await client.list(kind)).items]

"""``modelplane explain``: say why a deployment is where it is, or why not, from a dump of the fleet."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from modelplane.cli import placing
from modelplane.cli.errors import UserError
from modelplane.cli.files import MANIFESTS, load, output_option

if TYPE_CHECKING:
    from modelplane.compose.composition import Object


@click.command()
@click.argument("name", metavar="md/NAME")
@click.option(
    "-n", "--namespace", default="", help="The deployment's namespace, where the name is not enough."
)
@click.option(
    "--fleet",
    metavar="PATH",
    multiple=True,
    required=True,
    type=MANIFESTS,
    help="The fleet's objects, as kubectl get -o yaml prints them.",
)
@placing.all_option
@output_option("table", "Tables to read, or a JSON document.")
def explain(name: str, namespace: str, fleet: tuple[str, ...], everything: bool, output: str) -> None:
    """Say where the replicas of the ModelDeployment NAME are and why, and what refused those that are not.

    The exit status is 2 where a replica has no place, and 1 where a file is wrong.
    """
    from modelplane.cli import tables
    from modelplane.offline import output as documents
    from modelplane.offline import placement_tables, placements
    from modelplane.offline.fleet import Unplannable, assemble

    called = _called(name)
    (objects,) = load(fleet)
    try:
        files = assemble(objects)
        result = placements.explain(files, _found(files.deployments, called, namespace))
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

    resource, slash, rest = name.rpartition("/")
    kind = kind_of(ModelDeployment)
    known = {kind.short, kind.singular, kind.plural, kind.definition}
    if not rest or (slash and resource.lower() not in known):
        raise click.BadParameter(
            f'"{name}" names no ModelDeployment: write {kind.short}/NAME', param_hint="md/NAME"
        )
    return rest


def _found(deployments: "Iterable[Object]", name: str, namespace: str) -> "Object":
    everything = [item["metadata"] for item in deployments]
    named = [
        item
        for item in deployments
        if item["metadata"]["name"] == name and namespace in ("", item["metadata"]["namespace"])
    ]
    if len(named) == 1:
        return named[0]
    where = f' in namespace "{namespace}"' if namespace else ""
    if named:
        found = ", ".join(sorted(item["metadata"]["namespace"] for item in named))
        raise UserError(
            f'there is a ModelDeployment "{name}" in several namespaces: say which by -n: {found}'
        )
    known = sorted(f"{each['name']} -n {each['namespace']}" for each in everything)
    there = f"there are: {', '.join(known[:10])}" if known else "it holds none at all"
    raise UserError(f'the fleet has no ModelDeployment "{name}"{where}; {there}')

"""``modelplane render``: show the objects that an object would compose, from files alone."""

import click

from modelplane.cli.manifest_files import MANIFESTS, add_output_option, load
from modelplane.cli.options import add_gateway_address_option


@click.command()
@click.argument("owner", metavar="OWNER", type=MANIFESTS)
@click.option(
    "--observed",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Existing children of the object; may be repeated.",
)
@click.option(
    "--required",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Other objects that it reads; may be repeated.",
)
@add_gateway_address_option("Address of the fleet's gateway.")
@add_output_option("yaml", "YAML documents, or one JSON document.")
def render(
    owner: str, observed: tuple[str, ...], required: tuple[str, ...], gateway_address: str, output: str
) -> None:
    """Compose the object in the file OWNER as the controllers would, and print its children and status.

    Objects that the files do not hold do not exist.
    """
    from modelplane.offline.files import output as documents
    from modelplane.offline.render import rendering

    owners, children, others = load((owner,), observed, required)
    rendered, with_status = rendering.render(owners, children, others, gateway_address)
    if output == "json":
        click.echo(documents.to_json(rendered))
    else:
        click.echo("".join(rendering.format_documents(rendered, with_status)), nl=False)
    if rendered.doubt:
        raise click.exceptions.Exit(1)

"""``modelplane render``: show the objects that an object would compose, from files alone."""

import click

from modelplane.cli.exit_statuses import FAILED
from modelplane.cli.options import MANIFESTS, add_gateway_address_option, format_example, load
from modelplane.cli.output import add_chosen_output, print_document


@click.command(epilog=format_example("modelplane render deployment.yaml --required fleet/"))
@click.argument("owner", metavar="OWNER", type=MANIFESTS)
@click.option(
    "--observed",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Manifests of existing child objects. You can repeat the option.",
)
@click.option(
    "--required",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Manifests of other objects that the object depends on. You can repeat the option.",
)
@add_gateway_address_option("Address of the gateway of the fleet.")
@add_chosen_output(
    "yaml", "json", help_text="Output format: YAML documents, or one JSON document. Default: yaml."
)
def render(
    owner: str, observed: tuple[str, ...], required: tuple[str, ...], gateway_address: str, output: str
) -> None:
    """Print the child objects and the status that the controllers would create for the object in file OWNER.

    Objects that are not in the given files are treated as missing.
    """
    from modelplane.offline.render import rendering

    owners, children, others = load((owner,), observed, required)
    rendered, with_status = rendering.render(owners, children, others, gateway_address)
    if output == "json":
        print_document(rendered, output)
    else:
        click.echo("".join(rendering.format_documents(rendered, with_status)), nl=False)
    if rendered.doubt:
        raise click.exceptions.Exit(FAILED)

"""``modelplane classes``: list, print or apply the InferenceClasses of known machine types."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from modelplane.cli.options import add_dry_run_option, format_example
from modelplane.cli.output import TEXT, add_chosen_output, print_document
from modelplane.cli.target import Target, add_target_options, write_changes
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.catalogue.descriptions import Listed
    from modelplane.catalogue.entries import Machine
    from modelplane.kube.client import Client

F = TypeVar("F", bound=Callable[..., Any])

_RESOURCE = "inferenceclass.modelplane.ai"
_SAID = {"changed": "configured"}
"""Outcomes that kubectl has another word for."""
_CONFLICT = "keep these values, or overwrite them with --force-conflicts"


@click.group(epilog=format_example("modelplane classes list --card h200"))
def classes() -> None:
    """List, print or apply the InferenceClasses of known machine types."""


@classes.command("list", epilog=format_example("modelplane classes list --card h200"))
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@click.option(
    "--cloud", default="", metavar="CLOUD", help="List only classes of this cloud, or own for existing nodes."
)
@click.option(
    "--card", default="", metavar="TEXT", help="List only GPUs with this text in the name, such as h100."
)
@add_chosen_output(
    TEXT,
    *("json", "yaml", "name"),
    help_text="Output format. With name, print only the names. Default: text.",
)
def list_classes(words: tuple[str, ...], cloud: str, card: str, output: str) -> None:
    """List the classes in the catalogue.

    With TEXT, list only rows that contain all of these words.
    """
    from modelplane.catalogue import descriptions
    from modelplane.catalogue.catalogue_files import load_catalogue

    entries = load_catalogue()
    rows = [descriptions.describe_class(entries, machine) for machine in entries.machines.values()]
    clouds = {row.cloud.lower(): row.cloud for row in rows}
    if cloud and cloud.lower() not in clouds:
        raise click.BadParameter(
            f'"{cloud}" is not one of {", ".join(clouds.values())}', param_hint="--cloud"
        )
    machines = [
        row
        for row in rows
        if (not cloud or row.cloud == clouds[cloud.lower()])
        and card.lower() in row.card.lower()
        and all(word.lower() in descriptions.join_cells(row).lower() for word in words)
    ]
    _write(machines, output)


def _write(machines: "list[Listed]", output: str) -> None:
    if output == "name":
        click.echo("".join(f"{row.name}\n" for row in machines), nl=False)
    elif output != TEXT:
        print_document({"items": machines}, output)
    elif machines:
        from modelplane.catalogue.descriptions import CLASSES
        from modelplane.cli.output import print_table

        print_table(CLASSES.tabulate("", machines))
    else:
        click.echo("No class in the catalogue matches", err=True)


def _names_argument(command: F) -> F:
    return click.argument("names", metavar="NAME...", nargs=-1, required=True)(command)


@classes.command("show", epilog=format_example("modelplane classes show gke-h200-8x-a3-ib"))
@_names_argument
def show_classes(names: tuple[str, ...]) -> None:
    """Print the manifests of classes, for `kubectl apply -f -`.

    Comments contain the source of each number, and the taints of the nodes.
    """
    from modelplane.api.schema.decode import encode
    from modelplane.catalogue.catalogue_files import load_catalogue
    from modelplane.catalogue.descriptions import list_comments
    from modelplane.catalogue.inference_classes import build_class
    from modelplane.offline.files.yaml_text import to_yaml

    entries = load_catalogue()
    documents = [
        "".join(f"# {line}\n" for line in list_comments(entries, machine))
        + to_yaml(encode(build_class(entries, machine)))
        for machine in _find(names)
    ]
    click.echo("---\n".join(documents), nl=False)


@classes.command("apply", epilog=format_example("modelplane classes apply gke-h200-8x-a3-ib l4-1x"))
@_names_argument
@click.option("--force-conflicts", is_flag=True, help="Overwrite fields that another manager has changed.")
@add_target_options
@add_dry_run_option
def apply_classes(names: tuple[str, ...], *, force_conflicts: bool, target: Target, dry_run: bool) -> None:
    """Apply classes to a control plane.

    The API server refuses a class with fields that another manager has changed.
    """
    from modelplane.api.schema.decode import encode
    from modelplane.catalogue.catalogue_files import load_catalogue
    from modelplane.catalogue.inference_classes import build_class
    from modelplane.install.applying import apply
    from modelplane.kube.errors import Conflict

    manifests = [encode(build_class(load_catalogue(), machine)) for machine in _find(names)]

    async def do(client: "Client") -> None:
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            try:
                outcome = await apply(client, manifest, force=force_conflicts, dry_run=dry_run)
            except Conflict as error:
                raise UserError(f'InferenceClass "{name}": {error}: {_CONFLICT}') from error
            suffix = " (dry run)" if dry_run else ""
            click.echo(f"{_RESOURCE}/{name} {_SAID.get(outcome, outcome)}{suffix}")

    write_changes(target, "InferenceClasses", do)


def _find(names: tuple[str, ...]) -> "list[Machine]":
    """Return the machines of names, each once; raise ``UserError`` for the first that is unknown."""
    from difflib import get_close_matches

    from modelplane.api.listing import join_alternatives
    from modelplane.catalogue.catalogue_files import load_catalogue

    machines = load_catalogue().machines
    for name in names:
        if name not in machines:
            longer = [machine for machine in machines if name in machine]
            near = list(dict.fromkeys((*longer, *get_close_matches(name, machines))))[:3]
            meant = f"did you mean {join_alternatives(near)}? " if near else ""
            raise UserError(f'unknown class "{name}": {meant}`modelplane classes list` lists the classes')
    return [machines[name] for name in dict.fromkeys(names)]

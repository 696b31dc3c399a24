"""``modelplane schema``: print JSON Schemas of the kinds, or write them to files."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.options import format_example
from modelplane.cli.output import add_chosen_output
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.kinds import Kind

ALL: Final = "all.json"
"""File of the schema for manifests of every kind that is asked for."""


@click.command(epilog=format_example("modelplane schema ModelDeployment"))
@click.argument("kinds", metavar="[KIND]...", nargs=-1)
@click.option(
    "--dir",
    "folder",
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Write GROUP/KIND_VERSION.json for each kind, and {ALL} for all, to this folder.",
)
@add_chosen_output(
    "json",
    *("yaml", "name"),
    help_text=("Output format. With name, print the names of the files that --dir writes. Default: json."),
)
def schema(kinds: tuple[str, ...], folder: Path | None, output: str) -> None:
    """Print the JSON Schema of each KIND, or of every kind, for editors and other validators.

    Several kinds are combined in one schema, which accepts objects of all other kinds.
    """
    import json

    from modelplane.api.schema.json_schema import build_file_name, build_json_schema, combine_schemas

    chosen = _kinds(kinds)
    if folder is not None:
        files = {build_file_name(kind): build_json_schema(kind) for kind in chosen} | {
            ALL: combine_schemas(chosen)
        }
        for name, content in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        click.echo(f"Wrote {len(files)} schemas to {folder}", err=True)
        return
    if output == "name":
        click.echo("\n".join((*map(build_file_name, chosen), ALL)))
        return
    content = build_json_schema(chosen[0]) if len(chosen) == 1 else combine_schemas(chosen)
    if output == "json":
        click.echo(json.dumps(content, indent=2))
    else:
        from modelplane.offline.files.yaml_text import to_yaml

        click.echo(to_yaml(content), nl=False)


def _kinds(names: tuple[str, ...]) -> "list[Kind]":
    """Return the kinds of names, in the order of the list of kinds; of no names, every kind."""
    from difflib import get_close_matches

    from modelplane.api.kinds import KINDS
    from modelplane.api.listing import join_alternatives

    kinds_by_name = {name: kind for kind in KINDS for name in (kind.singular, kind.plural, kind.short)}
    for name in names:
        if name.lower() not in kinds_by_name:
            near = [
                kinds_by_name[spelling].name for spelling in get_close_matches(name.lower(), kinds_by_name)
            ]
            meant = f"did you mean {join_alternatives(list(dict.fromkeys(near)))}? " if near else ""
            raise UserError(f'unknown kind "{name}": {meant}`modelplane schema -o name` lists the kinds')
    asked = {kinds_by_name[name.lower()].name for name in names}
    return [kind for kind in KINDS if not names or kind.name in asked]

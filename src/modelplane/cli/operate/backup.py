"""``modelplane backup``: save the objects of a fleet's control plane in a file."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.cli.options import format_example
from modelplane.cli.target import Target, add_target_options, read
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.backup.saving import Saved
    from modelplane.kube.client import Client


@click.command(epilog=format_example("modelplane backup fleet.backup --passphrase-file passphrase"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=(
        "File that contains a passphrase. Secrets and ModelKeys are then also saved, "
        "encrypted. Default: save only their names."
    ),
)
@add_target_options
def backup(file: Path, *, passphrase_file: Path | None, target: Target) -> None:
    """Save the objects on a control plane to a new FILE that only you can read.

    To restore them to an empty control plane, use `modelplane restore`.
    """
    from modelplane.api.listing import count_noun
    from modelplane.backup.archive import read_passphrase
    from modelplane.backup.saving import Saver

    async def do(client: "Client") -> "Saved":
        passphrase = read_passphrase(passphrase_file) if passphrase_file else None
        return await Saver(client, lambda line: click.echo(f"  {line}")).save(file, passphrase)

    try:
        saved = read(target, "the fleet", do)
    except FileExistsError as error:
        raise UserError(f"{file} already exists: choose another file") from error
    except FileNotFoundError as error:
        raise UserError(f"cannot write {file}: folder {file.parent} does not exist") from error
    click.echo(f"{file}: {count_noun(saved.objects, 'object')}, sha256 {saved.digest}")
    if saved.references and not saved.has_contents:
        click.echo(
            "The backup contains only the names of Secrets and ConfigMaps: store their contents elsewhere, "
            "or use --passphrase-file"
        )

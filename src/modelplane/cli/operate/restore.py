"""``modelplane restore``: write the objects of a backup to an empty control plane."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.cli.options import add_dry_run_option, format_example
from modelplane.cli.target import Target, add_target_options, write_changes
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.backup.restoring import Restored
    from modelplane.kube.client import Client


@click.command(epilog=format_example("modelplane restore fleet.backup --dry-run"))
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=("File that contains the backup's passphrase. Secrets and ModelKeys are then also restored."),
)
@add_target_options
@add_dry_run_option
def restore(file: Path, *, passphrase_file: Path | None, target: Target, dry_run: bool) -> None:
    """Restore the objects in the backup FILE to an empty control plane.

    Controllers with leader election pause during the restore. If a restore is interrupted, run it again to
    complete it.
    """
    from modelplane.backup.archive import Damaged, open_file, read_passphrase
    from modelplane.backup.restoring import Restorer
    from modelplane.cli.output import clean_text
    from modelplane.install.waiting import Deadline

    if target.find_local_home() is not None:
        raise UserError(_LOCAL)

    async def do(client: "Client") -> "Restored":
        passphrase = read_passphrase(passphrase_file) if passphrase_file else None
        with open_file(file) as reader:
            return await Restorer(
                client, reader, passphrase, lambda line: click.echo(f"  {line}"), Deadline(target.timeout_s)
            ).restore(dry_run=dry_run)

    try:
        restored = write_changes(target, "a backup", do)
    except Damaged as error:
        raise UserError(f"{file} is not a complete backup: {clean_text(str(error))}") from error
    except UserError as error:
        raise UserError(clean_text(str(error))) from error
    _tell(restored, dry_run=dry_run)


_LOCAL = (
    "cannot restore a backup to a fleet that `modelplane up` manages, because its controllers are already "
    "running: select another control plane with --kubeconfig"
)


def _tell(restored: "Restored", *, dry_run: bool) -> None:
    from modelplane.api.listing import count_noun
    from modelplane.cli.output import clean_text

    for item in restored.missing:
        click.echo(f"missing: {item}: create it")
    for item in restored.differing:
        click.echo(f"kept: {item} existed with different content")
    for item in restored.leaving:
        click.echo(f"was being deleted when the backup was made: {item}: delete it again")
    count = count_noun(len(restored.plan.entries), "object")
    done = "would be restored" if dry_run else "restored"
    click.echo(f"{count} as of {clean_text(restored.plan.header.time)} {done}")

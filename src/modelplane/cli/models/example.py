"""``modelplane example``: list, print or write to files the manifests that come with Modelplane."""

from pathlib import Path

import click

from modelplane.api.listing import in_order
from modelplane.cli.options import format_example
from modelplane.user_error import UserError


@click.command(epilog=format_example("modelplane example first-answer | modelplane kubectl apply -f -"))
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Write the files and READMEs to this directory. Without NAME, write every example.",
)
@click.option("--overwrite", is_flag=True, help="With --dir, overwrite files that differ.")
def example(names: tuple[str, ...], directory: Path | None, overwrite: bool) -> None:
    """List the examples, or print the manifests of NAME for `kubectl apply -f -`."""
    from modelplane.local import examples

    if overwrite and directory is None:
        raise click.UsageError("--overwrite requires --dir")
    chosen = tuple(map(examples.find, names))
    if directory is not None:
        _write(
            [entry.folder for entry in chosen] or [examples.find_root()],
            examples.find_root(),
            directory,
            overwrite,
        )
    elif chosen:
        click.echo(
            "---\n".join(path.read_text("utf-8") for entry in chosen for path in entry.manifests), nl=False
        )
    else:
        from modelplane.api.report_tables import Columns
        from modelplane.cli.output import print_table

        columns = Columns[examples.Example](
            ("NAME", lambda entry: entry.name), ("TITLE", lambda entry: entry.title)
        )
        print_table(columns.tabulate("", examples.list_examples()))


def _write(folders: list[Path], root: Path, directory: Path, overwrite: bool) -> None:
    """Copy the files of folders to the same places below a directory; refuse before the first one."""
    copies = {
        directory / path.relative_to(root): path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    try:
        different = [
            path for path, content in copies.items() if path.exists() and path.read_bytes() != content
        ]
        if different and not overwrite:
            raise UserError(_refusal(different))
        for path, content in copies.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise UserError(f"cannot write the examples: {error.filename}: {error.strerror}") from error
    replaced = f", {len(different)} replaced" if different else ""
    click.echo(f"{len(copies)} files written to {directory}{replaced}")


def _refusal(different: list[Path]) -> str:
    shown = in_order(list(map(str, different)))
    one = len(different) == 1
    differ, them = ("differs from the example", "it") if one else ("differ from the examples", "them")
    return (
        f"nothing was written, because {shown} {differ}: choose another directory, or replace {them} with "
        "--overwrite"
    )

"""``modelplane validate``: check manifests, before an API server does."""

from pathlib import Path

import click

from modelplane.cli.files import output_option, paths_argument, read


@click.command()
@paths_argument
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings.")
@click.option(
    "--checkpoints",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Compare lengths of contexts with OWNER/NAME/config.json of this folder as well.",
)
@click.option(
    "--skip-unrelated",
    is_flag=True,
    help="Skip files without the text modelplane.ai, and documents that are not Kubernetes objects.",
)
@output_option("text", "One line for each problem, or a JSON document.")
def validate(
    paths: tuple[str, ...], *, strict: bool, checkpoints: Path | None, skip_unrelated: bool, output: str
) -> None:
    """Check the manifests in PATH: files, folders, or - for standard input.

    The exit status is 1 if there is an error.
    """
    from modelplane.checkpoints.at_hand import AtHand
    from modelplane.offline import output as documents
    from modelplane.offline import sources, validation

    given = read(paths)
    found = validation.validate(
        sources.related(given) if skip_unrelated else given, AtHand(checkpoints).config
    )
    if output == "json":
        click.echo(documents.as_json(found))
    else:
        for problem in found.problems:
            click.echo("\n".join((str(problem), *(f"    {line}" for line in problem.excerpt))))
        click.echo(validation.summary(found))
    if not found.valid or (strict and found.summary.warnings):
        raise click.exceptions.Exit(1)

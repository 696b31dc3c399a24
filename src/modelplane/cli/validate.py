"""``modelplane validate``: check manifests, before an API server does."""

import click

from modelplane.cli.files import output_option, paths_argument, read


@click.command()
@paths_argument
@click.option("--strict", is_flag=True, help="Exit with 1 if there are warnings.")
@output_option("text", "One line for each problem, or a JSON document.")
def validate(paths: tuple[str, ...], strict: bool, output: str) -> None:
    """Check the manifests in PATH: files, folders, or - for standard input.

    The exit status is 1 if there is an error.
    """
    from modelplane.offline import output as documents
    from modelplane.offline import validation

    found = validation.validate(read(paths))
    if output == "json":
        click.echo(documents.as_json(found))
    else:
        for problem in found.problems:
            click.echo("\n".join((str(problem), *(f"    {line}" for line in problem.excerpt))))
        click.echo(validation.summary(found))
    if not found.valid or (strict and found.summary.warnings):
        raise click.exceptions.Exit(1)

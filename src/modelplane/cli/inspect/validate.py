"""``modelplane validate``: check manifests, before an API server does."""

from pathlib import Path

import click

from modelplane.cli.exit_statuses import FAILED
from modelplane.cli.options import MANIFESTS, format_example, read
from modelplane.cli.output import TEXT, add_output_option, print_document
from modelplane.cli.target import Target, add_target_options, read_fleet


@click.command(epilog=format_example("modelplane validate examples/01-first-answer"))
@click.argument("paths", metavar="PATH...", nargs=-1, type=MANIFESTS)
@click.option("--strict", is_flag=True, help="Exit with status 1 if there are warnings.")
@click.option(
    "--checkpoints",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Also compare context lengths with OWNER/NAME/config.json in this folder.",
)
@click.option(
    "--skip-unrelated",
    is_flag=True,
    help=("Skip files that don't contain modelplane.ai, and documents that are not Kubernetes objects."),
)
@click.option(
    "--live",
    "on_live",
    is_flag=True,
    help="Also check the device selectors of the fleet. PATH is then optional.",
)
@add_target_options
@add_output_option
def validate(
    paths: tuple[str, ...],
    *,
    strict: bool,
    checkpoints: Path | None,
    skip_unrelated: bool,
    on_live: bool,
    target: Target,
    output: str,
) -> None:
    """Check the manifests in PATH without a cluster.

    PATH is a file, a folder, or - for standard input. The exit status is 1 if there is an error.
    """
    from modelplane.offline.check import validation
    from modelplane.offline.files import sources

    if not (paths or on_live):
        raise click.UsageError("Missing argument 'PATH...'.")
    if target.is_chosen and not on_live:
        raise click.UsageError("--kubeconfig, --context, and --home select a live fleet: add --live")
    given = read(paths)

    def read_config(repo: str, revision: str) -> bytes | None:
        # Few files need a model's configuration.
        from modelplane.checkpoints.folder import AtHand

        return AtHand(checkpoints).read_config(repo, revision)

    report = validation.validate(sources.select_related(given) if skip_unrelated else given, read_config)
    if on_live:
        from modelplane.controllers import fleet_resources as fleet

        items = read_fleet(target, (fleet.INFERENCE_CLASSES, fleet.MODEL_DEPLOYMENTS, fleet.MODEL_REPLICAS))
        report = validation.add_stored(report, validation.find_stored_problems(items), len(items))
    if output != TEXT:
        print_document(report, output)
    else:
        for problem in report.problems:
            click.echo("\n".join((str(problem), *(f"    {line}" for line in problem.excerpt))))
        click.echo(validation.describe(report, live=on_live))
    if not report.valid or (strict and report.summary.warnings):
        raise click.exceptions.Exit(FAILED)

"""``modelplane deploy``: from the name of a model to manifests, a plan and an applied deployment."""

import sys
from typing import TYPE_CHECKING

import click

from modelplane.cli.errors import UserError
from modelplane.cli.inspect import placing
from modelplane.cli.live import Live, live_options_beside_context
from modelplane.cli.live_objects import read_fleet
from modelplane.cli.manifest_files import MANIFESTS, load
from modelplane.cli.models import deploy_output
from modelplane.cli.models.deploy_options import TOKEN_SECRET, Asked, deploy_options

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.offline.models.model_manifests import Wanted
    from modelplane.offline.models.proposals import Proposed
    from modelplane.sizing.memory import Load


@click.command()
@deploy_options
@click.option(
    "--fleet",
    metavar="PATH",
    multiple=True,
    type=MANIFESTS,
    help="Plan on these classes and clusters, and apply nothing; may be repeated.",
)
@live_options_beside_context
@placing.all_option
@click.option("-o", "--output", type=click.Choice(["yaml"]), help="Print the manifests only.")
@click.option("--yes", is_flag=True, help="Apply the objects without a question.")
def deploy(
    *,
    asked: Asked,
    fleet: tuple[str, ...],
    live: Live,
    everything: bool,
    output: str | None,
    yes: bool,
) -> None:
    """Deploy a model: choose the hardware, write the manifests, plan them, and apply them after a yes.

    MODEL is OWNER/NAME on the Hugging Face hub, or a folder, of which only config.json and the headers of
    the safetensors files are read. The exit status is 2 if a replica has no place; nothing is applied then.
    """
    from modelplane.sizing.memory import Load

    _check_options(output, yes=yes, fleet=fleet)
    asked.check()
    wanted = _wanted(asked)
    needed = Load(wanted.context, asked.concurrency)
    proposed = _propose(wanted, needed, fleet, live, use_cache=asked.use_cache)
    _finish(proposed, wanted, live, output=output, everything=everything, yes=yes, files=bool(fleet))


def _wanted(asked: Asked) -> "Wanted":
    """Read the model, and return its deployment apart from the hardware."""
    from modelplane.checkpoints.checkpoint import model_of
    from modelplane.cli.models.model_argument import context_of, read_checkpoint
    from modelplane.offline.models.engine_containers import Engine
    from modelplane.offline.models.model_manifests import Wanted, name_of
    from modelplane.sizing.unsizable import Unsizable

    try:
        checkpoint = read_checkpoint(asked.model, asked.revision)
        found = model_of(checkpoint, asked.quantization)
    except Unsizable as error:
        raise UserError(str(error)) from error
    called = asked.name or name_of(asked.models_name)
    return Wanted(
        model=found,
        name=called,
        namespace=asked.namespace,
        replicas=asked.replicas,
        context=context_of(checkpoint.name, found, asked.context),
        engine=Engine(asked.engine),
        image=asked.image,
        repo="" if asked.is_folder else asked.model,
        revision=asked.revision,
        claim=(asked.claim or called) if asked.is_folder else "",
        converted_to=asked.quantization or "",
        token_secret=asked.token_secret or (TOKEN_SECRET if checkpoint.needs_token else ""),
    )


def _check_options(output: str | None, *, yes: bool, fleet: tuple[str, ...]) -> None:
    """Refuse options that contradict each other, and a question that nobody can answer."""
    if fleet and yes:
        raise click.UsageError("--fleet names files, and nothing can be applied to them: leave out --yes")
    if output and yes:
        raise click.UsageError("-o prints the manifests and applies nothing: leave out -o or --yes")
    if not (fleet or output or yes or _has_terminal()):
        raise UserError(
            "there is no terminal to ask whether to apply the objects: give --yes, or -o yaml to print them"
        )


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _propose(
    wanted: "Wanted", needed: "Load", fleet: tuple[str, ...], live: Live, *, use_cache: bool
) -> "Proposed":
    from modelplane.api.schema.decode import InvalidObject
    from modelplane.controllers.fleet_resources import NEEDED_TO_PLAN
    from modelplane.offline.models.proposals import propose
    from modelplane.offline.plan.fleet_of_files import Unplannable

    objects = load(fleet)[0] if fleet else read_fleet(live, NEEDED_TO_PLAN)
    try:
        proposed = propose(wanted, needed, objects, use_cache=use_cache, live=not fleet)
    except (Unplannable, InvalidObject) as error:
        raise UserError(str(error)) from error
    if proposed.best:
        _validate(proposed.best.manifests)
    return proposed


def _validate(manifests: "tuple[Object, ...]") -> None:
    """Refuse what an API server would, such as a name that is none."""
    from modelplane.offline.check.validation import validate
    from modelplane.offline.files.diagnostics import Severity
    from modelplane.offline.files.sources import Source

    found = validate([Source("manifests", deploy_output.as_documents(manifests))])
    errors = [each for each in found.problems if each.severity is Severity.ERROR]
    if errors:
        raise UserError("; ".join(f"{each.field}: {each.message}" for each in errors))


def _finish(
    proposed: "Proposed",
    wanted: "Wanted",
    live: Live,
    *,
    output: str | None,
    everything: bool,
    yes: bool,
    files: bool,
) -> None:
    """Print the proposal, and apply it if it has a place and the user agrees."""
    best = proposed.best
    if best is None:
        deploy_output.show_refusals(proposed, everything=everything)
        raise click.exceptions.Exit(placing.NOT_PLACED)
    if output:
        click.echo(deploy_output.as_documents(best.manifests), nl=False)
        for line in deploy_output.needs(wanted, best):
            click.echo(line, err=True)
        for each in best.plan.deployments:
            if each.diagnosis:
                click.echo(f"{each.name}: {each.diagnosis}", err=True)
    else:
        deploy_output.show(best, wanted, everything=everything)
    if not best.plan.placed:
        if not output and not files:
            click.echo("\nNothing is applied, because not every replica has a place", err=True)
        raise click.exceptions.Exit(placing.NOT_PLACED)
    if output or files:
        return
    if not yes:
        click.confirm("\nApply these objects?", abort=True)
    from modelplane.cli.models.deploy_apply import apply_all

    apply_all(live, best.manifests)

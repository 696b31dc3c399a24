"""``modelplane deploy``: from the name of a model to manifests, a plan and an applied deployment."""

import sys
from typing import TYPE_CHECKING

import click

from modelplane.cli import deploy_output, placing
from modelplane.cli.errors import UserError
from modelplane.cli.files import MANIFESTS, load
from modelplane.cli.live import Live, live_options_beside_context, read

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.kube.client import Client
    from modelplane.offline.model_manifests import Wanted
    from modelplane.offline.proposals import Proposed
    from modelplane.sizing.memory import Load

_TOKEN_SECRET = "hf-token"  # noqa: S105  the name of a Secret


@click.command()
@click.argument("model", metavar="MODEL|./FOLDER")
@click.option("--revision", default="", metavar="NAME", help="Branch, tag or commit on the hub.")
@click.option(
    "--context",
    type=click.IntRange(1, 2**31),
    help="Tokens of a sequence, prompt and answer; by default the most that the model has.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1_000_000),
    default=1,
    show_default=True,
    help="Sequences of that length to have room for.",
)
@click.option(
    "--quantization",
    type=click.Choice(["fp8"]),
    help="Have the engine convert a 16-bit checkpoint to this when it loads it.",
)
@click.option("--name", default="", help="Name of the objects; by default made from the model's.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the objects.")
@click.option("--replicas", type=click.IntRange(1, 10_000), default=1, show_default=True)
@click.option(
    "--engine", type=click.Choice(["vllm", "sglang"]), default="vllm", show_default=True, help="Engine."
)
@click.option("--image", default="", help="Image of the engine; by default one that is known to work.")
@click.option(
    "--cache/--no-cache",
    "use_cache",
    default=True,
    show_default=True,
    help="Stage the weights with a ModelCache where the cluster has storage for it.",
)
@click.option("--claim", default="", metavar="NAME", help="PersistentVolumeClaim with the files of ./FOLDER.")
@click.option(
    "--token-secret",
    default="",
    metavar="NAME",
    help=f"Secret with HF_TOKEN; by default {_TOKEN_SECRET} for a gated or private model.",
)
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
def deploy(  # noqa: PLR0913  an argument for each option
    *,
    model: str,
    revision: str,
    context: int | None,
    concurrency: int,
    quantization: str | None,
    name: str,
    namespace: str,
    replicas: int,
    engine: str,
    image: str,
    use_cache: bool,
    claim: str,
    token_secret: str,
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
    from modelplane.checkpoints.model import model_of
    from modelplane.cli.model_argument import context_of, is_folder, read_checkpoint
    from modelplane.offline.engine_containers import Engine
    from modelplane.offline.model_manifests import Wanted, name_of
    from modelplane.sizing.memory import Load
    from modelplane.sizing.unsizable import Unsizable

    _check_options(output, yes=yes, fleet=fleet)
    if claim and not is_folder(model):
        raise click.UsageError("--claim is for a folder: leave it out for a model of the hub")
    try:
        checkpoint = read_checkpoint(model, revision)
        found = model_of(checkpoint, quantization)
    except Unsizable as error:
        raise UserError(str(error)) from error
    length = context_of(checkpoint.name, found, context)
    called = name or name_of(_last(model))
    wanted = Wanted(
        model=found,
        name=called,
        namespace=namespace,
        replicas=replicas,
        context=length,
        engine=Engine(engine),
        image=image,
        repo="" if is_folder(model) else model,
        revision=revision,
        claim=(claim or called) if is_folder(model) else "",
        converted_to=quantization or "",
        token_secret=token_secret or (_TOKEN_SECRET if checkpoint.needs_token else ""),
    )
    proposed = _propose(wanted, Load(length, concurrency), fleet, live, use_cache=use_cache)
    _finish(proposed, wanted, live, output=output, everything=everything, yes=yes, files=bool(fleet))


def _check_options(output: str | None, *, yes: bool, fleet: tuple[str, ...]) -> None:
    """Refuse options that contradict each other, and a question that nobody can answer."""
    if fleet and yes:
        raise click.UsageError("--fleet names files, and nothing can be applied to them: leave out --yes")
    if output and yes:
        raise click.UsageError("-o prints the manifests and applies nothing: leave out -o or --yes")
    if not (fleet or output or yes or sys.stdin.isatty()):
        raise UserError(
            "there is no terminal to ask whether to apply the objects: give --yes, or -o yaml to print them"
        )


def _last(model: str) -> str:
    """Return the name of a model or of its folder."""
    from pathlib import Path

    from modelplane.cli.model_argument import is_folder

    return Path(model).expanduser().resolve().name if is_folder(model) else model


def _propose(
    wanted: "Wanted", needed: "Load", fleet: tuple[str, ...], live: Live, *, use_cache: bool
) -> "Proposed":
    from modelplane.api.decode import InvalidObject
    from modelplane.offline.fleet import Unplannable
    from modelplane.offline.proposals import propose

    objects = load(fleet)[0] if fleet else read(live, "the fleet", _listed)
    try:
        proposed = propose(wanted, needed, objects, use_cache=use_cache, live=not fleet)
    except (Unplannable, InvalidObject) as error:
        raise UserError(str(error)) from error
    if proposed.best:
        _validate(proposed.best.manifests)
    return proposed


async def _listed(client: "Client") -> "list[Object]":
    """Return the objects from which a new deployment is placed."""
    from modelplane.cli.device_quotas import device_quotas
    from modelplane.controllers.fleet_resources import LATER_KINDS, NEEDED_TO_PLAN

    needed = [each for each in NEEDED_TO_PLAN if each not in LATER_KINDS]
    found = [item for each in needed for item in (await client.list(each)).items]
    return [*found, *await device_quotas(client)]


def _validate(manifests: "tuple[Object, ...]") -> None:
    """Refuse what an API server would, such as a name that is none."""
    from modelplane.offline.diagnostics import Severity
    from modelplane.offline.sources import Source
    from modelplane.offline.validation import validate

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
        raise click.exceptions.Exit(placing.NOT_PLACED)
    if output or files:
        return
    if not yes:
        click.confirm("\nApply these objects?", abort=True)
    from modelplane.cli.deploy_apply import apply_all

    apply_all(live, best.manifests)

"""``modelplane deploy``: from the name of a model to manifests, a plan and an applied deployment."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from modelplane.cli.exit_statuses import UNMET
from modelplane.cli.inspect import plan
from modelplane.cli.models.deploy_options import TOKEN_SECRET, DeployOptions, add_deploy_options
from modelplane.cli.options import (
    add_all_option,
    add_fleet_option,
    add_yes_option,
    confirm,
    format_example,
    load,
    require_terminal,
)
from modelplane.cli.output import TEXT, add_chosen_output, print_table
from modelplane.cli.target import Target, add_target_options, read_fleet, write_changes
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.api.report_tables import Table
    from modelplane.kube.client import Client
    from modelplane.offline.models.model_manifests import ModelSettings
    from modelplane.offline.models.proposals import Proposal, Proposed
    from modelplane.sizing.memory import Load

MANAGER: Final = "modelplane-deploy"
"""The field manager of the objects, by which a later run knows them as its own."""
_SAID: Final = {"changed": "configured"}
_MOST: Final = 20
"""Pools up to which all are printed."""


@click.command(epilog=format_example("modelplane deploy Qwen/Qwen3-8B --context-length 16384 -n ml-team"))
@add_deploy_options
@add_fleet_option("Plan on the classes and clusters in these manifests, and apply nothing.")
@add_target_options
@add_yes_option
@add_all_option
@add_chosen_output(
    TEXT,
    *("json", "yaml"),
    help_text="Output format. With json or yaml, print only the manifests. Default: text.",
)
def deploy(
    *,
    options: DeployOptions,
    fleet: tuple[str, ...],
    target: Target,
    yes: bool,
    everything: bool,
    output: str,
) -> None:
    """Deploy a model by name: generate manifests, show the plan, and apply them after confirmation.

    MODEL is OWNER/NAME on the Hugging Face hub, or a folder. The command reads only config.json and the
    headers of the safetensors files. If a replica can't be placed, nothing is applied, and the exit status is
    2.
    """
    from modelplane.sizing.memory import Load

    _check_options(output, target, yes=yes, fleet=fleet)
    options.check()
    # Files have no context, and kubectl applies their objects to the namespace "default".
    settings = _read_settings(
        options, options.namespace or "default" if fleet else target.choose_namespace(options.namespace)
    )
    needed = Load(settings.context, options.concurrency)
    proposed = _propose(settings, needed, fleet, target, use_cache=options.use_cache)
    _finish(proposed, settings, target, output=output, everything=everything, yes=yes, files=bool(fleet))


def _read_settings(options: DeployOptions, namespace: str) -> "ModelSettings":
    """Read the model, and return its deployment apart from the hardware."""
    from modelplane.checkpoints.checkpoint import build_model
    from modelplane.cli.models.deploy_options import TOKENS_OPTION, read_checkpoint
    from modelplane.offline.models.model_manifests import Engine, ModelSettings, make_name
    from modelplane.operations.model_sizes import choose_context

    checkpoint = read_checkpoint(options.model, options.revision)
    model = build_model(checkpoint, options.quantization)
    context = choose_context(model, options.context_length, TOKENS_OPTION)
    called = options.name or make_name(options.models_name)
    return ModelSettings(
        model=model,
        name=called,
        namespace=namespace,
        replicas=options.replicas,
        context=context,
        engine=Engine(options.engine),
        image=options.image,
        repo="" if options.is_folder else options.model,
        revision=options.revision,
        claim=(options.claim or called) if options.is_folder else "",
        converted_to=options.quantization or "",
        token_secret=options.token_secret or (TOKEN_SECRET if checkpoint.needs_token else ""),
    )


def _check_options(output: str, target: Target, *, yes: bool, fleet: tuple[str, ...]) -> None:
    if target.context.isdecimal():
        raise click.UsageError(
            f'--context is a kubeconfig context, not "{target.context}": to set the tokens per sequence, '
            "use --context-length"
        )
    if fleet and target.is_chosen:
        raise click.UsageError(
            "--kubeconfig, --context, and --home select a control plane: omit them with --fleet"
        )
    if fleet and yes:
        raise click.UsageError("--fleet reads files, so nothing can be applied: omit --yes")
    if output != TEXT and yes:
        raise click.UsageError("-o only prints the manifests: omit -o or --yes")
    if not (fleet or output != TEXT or yes):
        require_terminal()


def _propose(
    settings: "ModelSettings", needed: "Load", fleet: tuple[str, ...], target: Target, *, use_cache: bool
) -> "Proposed":
    from modelplane.api.schema.decode import InvalidObject
    from modelplane.controllers.fleet_resources import NEEDED_TO_PLAN
    from modelplane.offline.models.proposals import propose

    objects = load(fleet)[0] if fleet else read_fleet(target, NEEDED_TO_PLAN)
    try:
        proposed = propose(settings, needed, objects, use_cache=use_cache, live=not fleet)
    except InvalidObject as error:
        raise UserError(str(error)) from error
    if proposed.best:
        # Refuse what an API server would, such as a name that is none.
        from modelplane.offline.check.validation import validate
        from modelplane.offline.files.diagnostics import Severity
        from modelplane.offline.files.sources import Source

        report = validate([Source("manifests", _as_documents(proposed.best.manifests))])
        errors = [problem for problem in report.problems if problem.severity is Severity.ERROR]
        if errors:
            raise UserError("; ".join(f"{problem.field}: {problem.message}" for problem in errors))
    return proposed


def _finish(
    proposed: "Proposed",
    settings: "ModelSettings",
    target: Target,
    *,
    output: str,
    everything: bool,
    yes: bool,
    files: bool,
) -> None:
    """Print the proposal, and apply it if it has a place and the user agrees."""
    best = proposed.best
    if best is None:
        _show_refusals(proposed, everything=everything)
        raise click.exceptions.Exit(UNMET)
    if output != TEXT:
        if output == "json":
            from modelplane.offline.files.report_documents import to_json

            click.echo(to_json({"apiVersion": "v1", "kind": "List", "items": best.manifests}))
        else:
            click.echo(_as_documents(best.manifests), nl=False)
        for line in _needs(settings):
            click.echo(line, err=True)
        for deployment in best.plan.deployments:
            if deployment.diagnosis:
                click.echo(f"{deployment.name}: {deployment.diagnosis}", err=True)
    else:
        _show_proposal(best, settings, everything=everything)
    if not best.plan.placed:
        if output == TEXT and not files:
            click.echo("\nNothing was applied, because not every replica can be placed", err=True)
        raise click.exceptions.Exit(UNMET)
    if output != TEXT or files:
        return
    confirm("\nApply these objects?", yes=yes)
    apply_all(target, best.manifests)


def _as_documents(manifests: "Sequence[Object]") -> str:
    from modelplane.offline.files.yaml_text import to_yaml

    return "---\n".join(to_yaml(manifest) for manifest in manifests)


def _show_proposal(proposal: "Proposal", settings: "ModelSettings", *, everything: bool) -> None:
    from modelplane.offline.models.size_rows import format_gib

    served, result = proposal.served, proposal.plan
    node = served.node
    devices = f"{served.split.gpus} {node.device}"
    nodes = f" on {served.nodes} nodes" if served.nodes > 1 else ""
    click.echo(
        f"{settings.engine} with {served.split} on {devices}{nodes}: {format_gib(served.memory.gpu)} of "
        f"{format_gib(node.memory)} GiB per device, context length {settings.context:,} tokens"
    )
    print_table(_tabulate_objects(proposal, settings))
    click.echo()
    plan.print_placements(result.deployments, everything=everything)
    plan.print_cost(result.deployments)
    plan.print_fleet(result, result.deployments, everything=everything)
    for number, line in enumerate(_needs(settings)):
        click.echo(line if number else f"\n{line}")


def _tabulate_objects(proposal: "Proposal", settings: "ModelSettings") -> "Table":
    from modelplane.api.listing import count_noun
    from modelplane.api.meta import kind_name
    from modelplane.api.model_cache import ModelCache
    from modelplane.api.model_deployment import ModelDeployment
    from modelplane.api.model_service import ModelService
    from modelplane.api.report_tables import Columns

    split = proposal.served.split
    devices = f"{split.tensor} {'device' if split.tensor == 1 else 'devices'}"
    pods = "1 pod" if split.pipeline == 1 else f"{split.pipeline} pods"
    suffix = "" if split.pipeline == 1 else " each"
    replicas = count_noun(settings.replicas, "replica")
    what = {
        kind_name(ModelCache): f"weights from claim {settings.claim}"
        if settings.claim
        else f"weights of {settings.repo}",
        kind_name(ModelDeployment): f"{replicas}: {pods} with {devices}{suffix}",
        kind_name(ModelService): "URL for requests",
    }
    return Columns["Object"](
        ("KIND", lambda item: item["kind"]),
        ("NAMESPACE", lambda item: item["metadata"]["namespace"]),
        ("NAME", lambda item: item["metadata"]["name"]),
        ("PURPOSE", lambda item: what[item["kind"]]),
    ).tabulate("Objects", proposal.manifests)


def _needs(settings: "ModelSettings") -> Iterator[str]:
    """Yield what must exist for the replicas to start."""
    namespace = f'namespace "{settings.namespace}"'
    if settings.claim:
        yield (
            f'PersistentVolumeClaim "{settings.claim}" with the folder\'s files must exist in {namespace} '
            "on each cluster"
        )
    if settings.token_secret:
        yield (
            f'Secret "{settings.token_secret}" with your token as HF_TOKEN must exist in {namespace} on '
            "the control plane"
        )


def _show_refusals(proposed: "Proposed", *, everything: bool) -> None:
    refusals = proposed.refusals
    if not refusals:
        click.echo("No InferenceCluster of the fleet has a node pool: register a cluster")
        return
    click.echo("No pool in the fleet can serve the model")
    from modelplane.offline.models.proposals import REFUSALS

    print_table(REFUSALS.tabulate("Pools", refusals, None if everything else _MOST))


def apply_all(target: Target, manifests: "tuple[Object, ...]") -> None:
    """Apply objects by server-side apply with the user's permissions, and print the outcomes."""
    from modelplane.install.applying import apply
    from modelplane.kube.errors import Conflict, NotFound, NotInstalled

    async def do(client: "Client") -> None:
        for manifest in manifests:
            await _check_owner(client, manifest)
        for dry_run in (True, False):
            for manifest in manifests:
                try:
                    outcome = await apply(client, dict(manifest), force=False, dry_run=dry_run)
                except Conflict as error:
                    raise UserError(
                        f"{_named(manifest)}: {error}: another manager owns these fields: choose another "
                        "--name, or edit the object"
                    ) from error
                except NotInstalled:
                    raise
                except NotFound as error:
                    namespace = manifest["metadata"]["namespace"]
                    raise UserError(
                        f"{_named(manifest)}: {error}: run `kubectl create namespace {namespace}`, or "
                        "select another namespace with --namespace"
                    ) from error
                if not dry_run:
                    click.echo(f"{_named(manifest)} {_SAID.get(outcome, outcome)}")

    write_changes(target, "the deployment", do, MANAGER)


async def _check_owner(client: "Client", manifest: "Object") -> None:
    """Refuse an object of the same name that this command has not written."""
    from modelplane.controllers.fleet_resources import resource_of

    metadata = manifest["metadata"]
    stored = await client.get(resource_of(manifest), metadata["name"], metadata["namespace"])
    if stored is None:
        return
    managers = {entry.get("manager") for entry in stored["metadata"].get("managedFields", ())}
    if MANAGER not in managers:
        raise UserError(
            f"{_named(manifest)} already exists and wasn't created by `modelplane deploy`: choose another "
            "--name, or edit the object"
        )


def _named(manifest: "Object") -> str:
    metadata = manifest["metadata"]
    return f'{manifest["kind"]} "{metadata["name"]}" in namespace "{metadata["namespace"]}"'

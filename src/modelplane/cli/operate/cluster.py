"""``modelplane cluster``: register an existing cluster with a fleet; cordon, drain and uncordon one."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from modelplane.cli.exit_statuses import FAILED, UNMET
from modelplane.cli.inspect import plan
from modelplane.cli.options import (
    add_all_option,
    add_credential_lifetime_option,
    add_dry_run_option,
    format_example,
    parse_seconds,
)
from modelplane.cli.output import TEXT, add_output_option, clean_text, print_document
from modelplane.cli.target import Target, add_target_options, read, read_fleet, run_steps, write_changes
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.fields.cluster.drain_settings import Cordon
    from modelplane.api.meta import Object
    from modelplane.install.registration.registration_proposal import Choices, Proposal
    from modelplane.install.waiting import Deadline, Report
    from modelplane.kube.client import Client
    from modelplane.offline.plan.placements import Plan

F = TypeVar("F", bound=Callable[..., Any])


def _target(command: F) -> F:
    """Give a command NAME, ``--pool`` and the options of the control plane."""
    pool = click.option(
        "--pool", default="", metavar="POOL", help="Apply only to this node pool of the cluster."
    )
    return click.argument("name")(pool(add_target_options(command)))


@click.command(epilog=format_example("modelplane cluster cordon gpu-1 --pool h100"))
@_target
def cordon(name: str, pool: str, target: Target) -> None:
    """Cordon a cluster: place no new replicas on it.

    Existing replicas don't move. A drain in progress stops.
    """
    from modelplane.api.fields.cluster.drain_settings import Cordon

    write_changes(target, "InferenceClusters", lambda client: _close(client, name, pool, Cordon.CORDONED))
    click.echo(f"Cordoned {_called(name, pool)}: no new replicas are placed there")


@click.command(epilog=format_example("modelplane cluster uncordon gpu-1"))
@_target
def uncordon(name: str, pool: str, target: Target) -> None:
    """Uncordon a cluster: allow new replicas again.

    A drain in progress stops, and the remaining replicas don't move.
    """
    from modelplane.api.fields.cluster.drain_settings import Cordon

    write_changes(target, "InferenceClusters", lambda client: _close(client, name, pool, Cordon.NONE))
    click.echo(f"Uncordoned {_called(name, pool)}")


@click.command(epilog=format_example("modelplane cluster drain gpu-1 --timeout 1h"))
@_target
@add_dry_run_option
@add_all_option
@add_output_option
def drain(*, name: str, pool: str, target: Target, dry_run: bool, everything: bool, output: str) -> None:
    """Drain a cluster: move its replicas to other clusters.

    The command waits until no replicas remain. A replica is removed once its replacement is serving. The
    drain continues after --timeout. --all and -o apply to --dry-run. The exit status is 2 if a replica
    doesn't fit elsewhere, and 1 if the drain is not complete in time.
    """
    from modelplane.api.fields.cluster.drain_settings import Cordon

    if dry_run:
        _tell(_plan(target, name, pool), everything=everything, output=output)
        return

    async def do(client: "Client") -> str:
        tainted = await _close(client, name, pool, Cordon.DRAINING)
        return await _wait(client, tainted, target.timeout_s)

    problem = write_changes(target, "InferenceClusters", do)
    if not problem:
        click.echo(f"Drained {_called(name, pool)}")
        return
    click.echo(f"Error: {_called(name, pool)}: {clean_text(problem)}", err=True)
    click.echo("The drain continues. To stop it, run `modelplane cluster uncordon`", err=True)
    from modelplane.api.conditions.reasons import InferenceClusterCondition, InferenceClusterReason
    from modelplane.compose.readiness import condition_of

    drained = condition_of(read(target, "the cluster", _getter(name)), InferenceClusterCondition.DRAINED)
    is_blocked = drained.get("reason") == InferenceClusterReason.DRAIN_BLOCKED
    raise click.exceptions.Exit(UNMET if is_blocked else FAILED)


def _called(name: str, pool: str) -> str:
    return f'pool "{pool}" of cluster "{name}"' if pool else f'cluster "{name}"'


def _getter(name: str) -> "Callable[[Client], Any]":
    from modelplane.controllers.fleet_resources import INFERENCE_CLUSTERS

    async def get(client: "Client") -> "Object":
        cluster = await client.get(INFERENCE_CLUSTERS, name)
        if cluster is None:
            raise UserError(
                f'cluster "{name}" does not exist: `modelplane kubectl get ic` lists the clusters'
            )
        return cluster

    return get


async def _close(client: "Client", name: str, pool: str, cordon: "Cordon") -> "Object":
    """Give a cluster or a pool a cordon; return the cluster as it is then."""
    from modelplane.operations import cordons

    cluster: Object = await _getter(name)(client)
    pools = [node_pool["name"] for node_pool in cluster["spec"].get("nodePools", ())]
    if pool and pool not in pools:
        raise UserError(f'cluster "{name}" has no pool "{pool}": the pools are {", ".join(pools) or "none"}')
    client.field_manager = cordons.MANAGER
    tainted = await client.apply(cordons.build_manifest(cluster, pool, cordon))
    for key, managers in cordons.find_others(tainted, pool, cordon).items():
        declares = " and ".join(managers) or "another field manager"
        raise UserError(
            f"{_called(name, pool)} still has the taint {key}, which {declares} applies: remove the "
            "taint there"
        )
    return tainted


async def _wait(client: "Client", tainted: "Object", timeout_s: float) -> str:
    """Wait for the end of a drain, with a line for each step; return what is left in the end."""
    from modelplane.api.conditions.reasons import InferenceClusterCondition, InferenceClusterReason
    from modelplane.compose.readiness import condition_of, observed_generation
    from modelplane.install.waiting import Deadline, NotInTime

    name, generation = tainted["metadata"]["name"], tainted["metadata"]["generation"]
    told = ""

    async def find_missing() -> str:
        nonlocal told
        cluster: Object = await _getter(name)(client)
        drained = condition_of(cluster, InferenceClusterCondition.DRAINED)
        if observed_generation(cluster, InferenceClusterCondition.DRAINED) < generation:
            return "the controllers have not reported the drain yet: check that they are running"
        if drained["reason"] == InferenceClusterReason.NOT_DRAINING:
            raise UserError(f'someone else ended the drain of cluster "{name}"')
        if drained["message"] != told:
            told = drained["message"]
            click.echo(f"  {clean_text(told)}")
        return "" if drained["status"] == "True" else str(drained["message"])

    try:
        await Deadline(timeout_s).wait_until_nothing(find_missing)
    except NotInTime as error:
        return str(error)
    return ""


def _plan(target: Target, name: str, pool: str) -> "Plan":
    from modelplane.controllers import fleet_resources
    from modelplane.offline.plan.drains import drain_plan

    resources = (
        fleet_resources.INFERENCE_CLUSTERS,
        fleet_resources.MODEL_CACHES,
        fleet_resources.MODEL_DEPLOYMENTS,
        fleet_resources.MODEL_REPLICAS,
        fleet_resources.DEVICE_QUOTAS,
    )

    return drain_plan(read_fleet(target, resources), name, pool)


def _tell(result: "Plan", *, everything: bool, output: str) -> None:
    if output != TEXT:
        print_document(result, output)
    elif not result.deployments:
        click.echo("No replicas would move")
    else:
        plan.print_replicas(result.deployments)
        for deployment in result.deployments:
            if deployment.diagnosis:
                click.echo(f"\n{deployment.name}: {clean_text(deployment.diagnosis)}")
        plan.print_fleet(result, result.deployments, everything=everything)
    if not result.placed:
        raise click.exceptions.Exit(UNMET)


@click.group(epilog=format_example("modelplane cluster drain gpu-1"))
def cluster() -> None:
    """Register, cordon, drain, and uncordon clusters."""


for command in (cordon, drain, uncordon):
    cluster.add_command(command)


@cluster.command(
    epilog=format_example("modelplane cluster register gpu-1 --cluster-kubeconfig gpu.kubeconfig --apply")
)
@click.argument("name")
@click.option(
    "--apply/--dry-run",
    "applied",
    default=False,
    help="Register the cluster, or only show what would change. Default: --dry-run.",
)
@click.option(
    "--profile",
    type=click.Choice(["Standard", "Minimal", "None"]),
    help=(
        "Set of components to install for serving. Default: the components that are missing on the cluster."
    ),
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda _context, _parameter, values: dict(map(_label, values)),
    help="Label for the InferenceCluster. Deployments can select by it. You can repeat the option.",
)
@click.option(
    "--cluster-kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=("Kubeconfig with administrator permissions. The command doesn't store the file. Required."),
)
@click.option(
    "--cluster-context",
    default="",
    metavar="NAME",
    help="Context of --cluster-kubeconfig. Default: the current context.",
)
@add_credential_lifetime_option
@add_target_options
def register(
    *,
    name: str,
    applied: bool,
    profile: str | None,
    labels: dict[str, str],
    cluster_kubeconfig: Path | None,
    cluster_context: str,
    credential_lifetime: str,
    target: Target,
) -> None:
    """Register an existing cluster under NAME.

    The command reads the cluster, and proposes InferenceClasses, node pools, and components to install.
    """
    from modelplane.install.registration.account_kubeconfigs import Address

    if cluster_kubeconfig is None:
        raise click.UsageError(
            "--cluster-kubeconfig is required: --cluster-kubeconfig selects the cluster, and "
            "--kubeconfig the control plane"
        )
    choices = _choices(name, profile, labels)

    async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
        address = Address.from_file(cluster_kubeconfig, cluster_context)
        address.build_kubeconfig("a.b.c")
        proposal = await _proposed(client, choices)
        if applied:
            from modelplane.install.registration.registering import Registration, Sides

            for pool in proposal.hardware.pools:
                report(str(pool))
            for note in proposal.notes:
                click.echo(f"Note: {note}", err=True)
            seconds = parse_seconds(credential_lifetime, "choose a shorter one")
            async with target.open_client() as control_plane:
                sides = Sides(control_plane, client, address, seconds)
                changed = await Registration(proposal, sides, report, deadline).register()
            click.echo(
                f'Registered cluster "{name}"'
                if changed
                else f'Cluster "{name}" is already registered: nothing changed'
            )
        else:
            # Print the proposal: comments, and the manifests of both sides.
            from modelplane.install.registration.registration_proposal import build_preview
            from modelplane.offline.files.yaml_text import to_yaml

            for section in build_preview(
                proposal, str(address.fields.get("server", "")), credential_lifetime
            ):
                click.echo("".join(f"# {line}".rstrip() + "\n" for line in section.lines), nl=False)
                click.echo("".join(f"---\n{to_yaml(item)}" for item in section.objects), nl=False)
            if rejected := proposal.rejected:
                raise UserError(rejected.message)

    run_steps(Target(cluster_kubeconfig, cluster_context, None, target.timeout_s), do)


def _label(text: str) -> tuple[str, str]:
    import re

    from modelplane.api.schema.fields import LABEL_VALUE, QUALIFIED_NAME

    key, separator, value = text.partition("=")
    is_value = len(value) <= 63 and re.fullmatch(LABEL_VALUE, value)
    if not (separator and re.fullmatch(QUALIFIED_NAME, key) and is_value):
        raise click.BadParameter(f'"{text}" is not a label of the form KEY=VALUE')
    return key, value


def _choices(name: str, profile: str | None, labels: dict[str, str]) -> "Choices":
    import re

    from modelplane.api.fields.cluster.stack_components import ServingProfile
    from modelplane.api.schema.fields import DNS_SUBDOMAIN
    from modelplane.install.registration.registration_proposal import LONGEST_NAME, Choices

    if len(name) > LONGEST_NAME or not re.fullmatch(DNS_SUBDOMAIN, name):
        raise click.BadParameter(
            f'"{name}" is not a valid cluster name: use at most {LONGEST_NAME} lower-case letters, digits, '
            '"-", and ".", with a letter or digit at both ends',
            param_hint="NAME",
        )
    return Choices(name, labels, ServingProfile(profile) if profile else None)


async def _proposed(client: "Client", choices: "Choices") -> "Proposal":
    from modelplane.catalogue.catalogue_files import load_catalogue
    from modelplane.install.registration.looking import look
    from modelplane.install.registration.registering import prefix_errors
    from modelplane.install.registration.registration_proposal import propose

    async with prefix_errors(f'cluster "{choices.name}"'):
        return propose(choices, await look(client), load_catalogue())

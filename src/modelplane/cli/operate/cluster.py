"""``modelplane cluster``: register a cluster that exists with a fleet; cordon and drain one of the fleet."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelplane.cli.errors import UserError
from modelplane.cli.operate import cluster_drain
from modelplane.cli.options import add_credential_lifetime_option, format_example, parse_seconds
from modelplane.cli.target import Target, add_target_options, run_steps

if TYPE_CHECKING:
    from modelplane.install.registration.account_kubeconfigs import Address
    from modelplane.install.registration.proposal import Choices, Proposal
    from modelplane.install.steps.waiting import Deadline, Report
    from modelplane.kube.client import Client


@click.group()
def cluster() -> None:
    """Register an existing cluster with a fleet; cordon, drain and uncordon a cluster."""


for command in (cluster_drain.cordon, cluster_drain.drain, cluster_drain.uncordon):
    cluster.add_command(command)


@cluster.command(
    epilog=format_example("modelplane cluster register gpu-1 --cluster-kubeconfig gpu.kubeconfig --apply")
)
@click.argument("name")
@click.option(
    "--apply/--dry-run",
    "applied",
    default=False,
    help="Register the cluster, or show what would change, and change nothing. Default: --dry-run.",
)
@click.option(
    "--profile",
    type=click.Choice(["Standard", "Minimal", "None"]),
    help="Components to install for serving. Default: those that the cluster lacks.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=lambda _context, _parameter, values: dict(map(_label, values)),
    help="Label of the InferenceCluster, which deployments select. You can repeat the option.",
)
@click.option(
    "--cluster-kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kubeconfig of the cluster, of its administrator. The command does not store the file. Required.",
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
    """Register the cluster of a kubeconfig under NAME.

    The command reads the cluster, and proposes InferenceClasses, node pools and components to install.
    """
    from modelplane.install.registration.account_kubeconfigs import Address

    if cluster_kubeconfig is None:
        raise click.UsageError(
            "--cluster-kubeconfig is missing: it names the cluster, and --kubeconfig the control plane"
        )
    choices = _choices(name, profile, labels)

    async def do(client: "Client", report: "Report", deadline: "Deadline") -> None:
        address = Address.from_file(cluster_kubeconfig, cluster_context)
        address.build_kubeconfig("a.b.c")
        proposal = await _proposed(client, choices)
        if applied:
            await _register(client, target, proposal, address, credential_lifetime, report, deadline)
        else:
            _show(proposal, address, credential_lifetime)

    run_steps(Target(cluster_kubeconfig, cluster_context, None, target.timeout_s), do)


def _label(text: str) -> tuple[str, str]:
    import re

    from modelplane.api.schema.fields import LABEL_VALUE, QUALIFIED_NAME

    key, separator, value = text.partition("=")
    is_value = len(value) <= 63 and re.fullmatch(LABEL_VALUE, value)
    if not (separator and re.fullmatch(QUALIFIED_NAME, key) and is_value):
        raise click.BadParameter(f'"{text}" is not of the form KEY=VALUE of a label')
    return key, value


def _choices(name: str, profile: str | None, labels: dict[str, str]) -> "Choices":
    import re

    from modelplane.api.fields.cluster.stack_components import ServingProfile
    from modelplane.api.schema.fields import DNS_SUBDOMAIN
    from modelplane.install.registration.proposal import LONGEST_NAME, Choices

    if len(name) > LONGEST_NAME or not re.fullmatch(DNS_SUBDOMAIN, name):
        raise click.BadParameter(
            f'"{name}" is not the name of a cluster: at most {LONGEST_NAME} lower-case letters, digits, '
            '"-" and ".", with a letter or digit at both ends',
            param_hint="NAME",
        )
    return Choices(name, labels, ServingProfile(profile) if profile else None)


async def _proposed(client: "Client", choices: "Choices") -> "Proposal":
    from modelplane.catalogue.catalogue_files import load_catalogue
    from modelplane.install.registration.looking import look
    from modelplane.install.registration.proposal import propose
    from modelplane.install.registration.registering import name_server

    async with name_server(f'cluster "{choices.name}"'):
        return propose(choices, await look(client), load_catalogue())


def _show(proposal: "Proposal", address: "Address", lifetime: str) -> None:
    """Print the proposal: comments, and the manifests of both sides."""
    from modelplane.install.registration.preview import build_preview
    from modelplane.offline.files.yaml_output import to_yaml

    for section in build_preview(proposal, str(address.fields.get("server", "")), lifetime):
        click.echo("".join(f"# {line}".rstrip() + "\n" for line in section.lines), nl=False)
        click.echo("".join(f"---\n{to_yaml(item)}" for item in section.objects), nl=False)
    if rejected := proposal.rejected:
        raise UserError(rejected.message)


async def _register(
    client: "Client",
    target: Target,
    proposal: "Proposal",
    address: "Address",
    lifetime: str,
    report: "Report",
    deadline: "Deadline",
) -> None:
    from modelplane.install.registration.registering import Registration, Sides

    for pool in proposal.hardware.pools:
        report(str(pool))
    for note in proposal.notes:
        click.echo(f"Note: {note}", err=True)
    seconds = parse_seconds(lifetime, "choose a shorter one")
    async with target.open_client() as control_plane:
        sides = Sides(control_plane, client, address, seconds)
        changed = await Registration(proposal, sides, report, deadline).register()
    name = proposal.name
    click.echo(
        f'Cluster "{name}" is registered'
        if changed
        else f'Cluster "{name}" is registered already: nothing was changed'
    )

"""``modelplane cluster cordon``, ``drain`` and ``uncordon``: close a cluster or a pool, empty it, open it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from modelplane.cli.errors import UserError
from modelplane.cli.inspect import placing
from modelplane.cli.inspect.placing import NOT_PLACED
from modelplane.cli.options import add_all_option, add_dry_run_option, format_example
from modelplane.cli.output import TEXT, add_output_option, print_document
from modelplane.cli.tables import clean_text
from modelplane.cli.target import Target, add_target_options, read, read_fleet, write_changes

if TYPE_CHECKING:
    from modelplane.api.fields.cluster.drain_settings import Cordon
    from modelplane.api.meta import Object
    from modelplane.kube.client import Client
    from modelplane.offline.plan.placements import Plan

F = TypeVar("F", bound=Callable[..., Any])


def _target(command: F) -> F:
    """Give a command NAME, ``--pool`` and the options of the control plane."""
    pool = click.option("--pool", default="", metavar="POOL", help="Only this node pool of the cluster.")
    return click.argument("name")(pool(add_target_options(command)))


@click.command(epilog=format_example("modelplane cluster cordon gpu-1 --pool h100"))
@_target
def cordon(name: str, pool: str, target: Target) -> None:
    """Keep new replicas away from the cluster NAME. Nothing moves, and a drain stops."""
    from modelplane.api.fields.cluster.drain_settings import Cordon

    write_changes(target, "InferenceClusters", lambda client: _close(client, name, pool, Cordon.CORDONED))
    click.echo(f"{_called(name, pool)} is cordoned: it gets no new replicas")


@click.command(epilog=format_example("modelplane cluster uncordon gpu-1"))
@_target
def uncordon(name: str, pool: str, target: Target) -> None:
    """Open the cluster NAME for new replicas again. A drain stops, and what has not moved stays."""
    from modelplane.api.fields.cluster.drain_settings import Cordon

    write_changes(target, "InferenceClusters", lambda client: _close(client, name, pool, Cordon.NONE))
    click.echo(f"{_called(name, pool)} is open")


@click.command(epilog=format_example("modelplane cluster drain gpu-1 --timeout 1h"))
@_target
@add_dry_run_option
@add_all_option
@add_output_option
def drain(*, name: str, pool: str, target: Target, dry_run: bool, everything: bool, output: str) -> None:
    """Replace the replicas of the cluster NAME elsewhere, a few at a time, and wait until none is left.

    A replica is withdrawn when its replacement serves. The drain continues after --timeout. --all and -o are
    for --dry-run. The exit status is 2 if a replica has no other place, and 1 if the drain has not ended in
    time.
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
        click.echo(f"{_called(name, pool)} is drained")
        return
    click.echo(f"Error: {_called(name, pool)}: {clean_text(problem)}", err=True)
    click.echo("The drain goes on; `modelplane cluster uncordon` ends it", err=True)
    raise click.exceptions.Exit(NOT_PLACED if _is_blocked(read(target, "the cluster", _getter(name))) else 1)


def _called(name: str, pool: str) -> str:
    return f'pool "{pool}" of cluster "{name}"' if pool else f'cluster "{name}"'


def _getter(name: str) -> "Callable[[Client], Any]":
    from modelplane.controllers.fleet_resources import INFERENCE_CLUSTERS

    async def get(client: "Client") -> "Object":
        cluster = await client.get(INFERENCE_CLUSTERS, name)
        if cluster is None:
            raise UserError(f'there is no cluster "{name}": `modelplane kubectl get ic` lists them')
        return cluster

    return get


async def _close(client: "Client", name: str, pool: str, cordon: "Cordon") -> "Object":
    """Give a cluster or a pool a cordon; return the cluster as it is then."""
    from modelplane.operations import cordons

    cluster: Object = await _getter(name)(client)
    pools = [node_pool["name"] for node_pool in cluster["spec"].get("nodePools", ())]
    if pool and pool not in pools:
        raise UserError(f'cluster "{name}" has no pool "{pool}"; there are: {", ".join(pools) or "none"}')
    client.field_manager = cordons.MANAGER
    tainted = await client.apply(cordons.build_manifest(cluster, pool, cordon))
    for key, managers in cordons.find_others(tainted, pool, cordon).items():
        declares = " and ".join(managers) or "another field manager"
        raise UserError(
            f"{_called(name, pool)} still has the taint {key}: {declares} declares it, so remove it there"
        )
    return tainted


async def _wait(client: "Client", tainted: "Object", timeout_s: float) -> str:
    """Wait for the end of a drain, with a line for each step; return what is left in the end."""
    from modelplane.api.conditions.reasons import InferenceClusterCondition, InferenceClusterReason
    from modelplane.compose.readiness import condition_of, observed_generation
    from modelplane.install.steps.waiting import Deadline, NotInTime

    name, generation = tainted["metadata"]["name"], tainted["metadata"]["generation"]
    told = ""

    async def find_missing() -> str:
        nonlocal told
        cluster: Object = await _getter(name)(client)
        drained = condition_of(cluster, InferenceClusterCondition.DRAINED)
        if observed_generation(cluster, InferenceClusterCondition.DRAINED) < generation:
            return "the controllers have not reported on it yet: check that they run"
        if drained["reason"] == InferenceClusterReason.NOT_DRAINING:
            raise UserError(f'the drain of cluster "{name}" was ended by others')
        if drained["message"] != told:
            told = drained["message"]
            click.echo(f"  {clean_text(told)}")
        return "" if drained["status"] == "True" else str(drained["message"])

    try:
        await Deadline(timeout_s).wait_until_nothing(find_missing)
    except NotInTime as error:
        return str(error)
    return ""


def _is_blocked(cluster: "Object") -> bool:
    from modelplane.api.conditions.reasons import InferenceClusterCondition, InferenceClusterReason
    from modelplane.compose.readiness import condition_of

    drained = condition_of(cluster, InferenceClusterCondition.DRAINED)
    return bool(drained.get("reason") == InferenceClusterReason.DRAIN_BLOCKED)


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
    """Print the plan of a drain."""
    if output != TEXT:
        print_document(result, output)
    elif not result.deployments:
        click.echo("No replica would move")
    else:
        placing.print_replicas(result.deployments)
        for deployment in result.deployments:
            if deployment.diagnosis:
                click.echo(f"\n{deployment.name}: {clean_text(deployment.diagnosis)}")
        placing.print_fleet(result, result.deployments, everything=everything)
    if not result.placed:
        raise click.exceptions.Exit(NOT_PLACED)

"""``modelplane rollout``: show, pause, resume, promote and undo rollouts of ModelDeployments."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from modelplane.cli.exit_statuses import UNMET
from modelplane.cli.options import format_example
from modelplane.cli.output import clean_text
from modelplane.cli.target import (
    Target,
    add_namespace_option,
    add_target_options,
    find_one,
    parse_object_name,
    read,
    write_changes,
)
from modelplane.user_error import UserError

if TYPE_CHECKING:
    from modelplane.api.meta import Object
    from modelplane.api.rejected import Rejected
    from modelplane.kube.client import Client
    from modelplane.operations.rollouts import Patch

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_WITH_COUNTS: Final = ("CanaryRunning", "CanaryHolds")
"""Reasons whose message has counts of answers."""


@click.group(epilog=format_example("modelplane rollout status md/qwen -n ml-team"))
def rollout() -> None:
    """Show and control rollouts of ModelDeployments."""


def _target(command: F) -> F:
    return click.argument("name", metavar="md/NAME")(add_namespace_option(add_target_options(command)))


@rollout.command(epilog=format_example("modelplane rollout status md/qwen -n ml-team"))
@_target
def status(*, name: str, namespace: str, target: Target) -> None:
    """Show the progress of a rollout.

    The exit status is 2 until the rollout is complete.
    """
    from modelplane.api.conditions.reasons import ModelDeploymentCondition, ModelDeploymentReason
    from modelplane.compose.readiness import condition_of, observed_generation
    from modelplane.deciders.canary import COUNTS_EVERY_S

    item = read(target, "ModelDeployments", lambda client: _find(client, name, namespace, target))
    type_ = ModelDeploymentCondition.PROGRESSING
    condition = condition_of(item, type_)
    seen = observed_generation(item, type_) >= item["metadata"].get("generation", 0)
    click.echo(
        clean_text(condition["message"])
        if condition and seen
        else "The controllers have not observed the last change yet"
    )
    if seen and condition.get("reason") in _WITH_COUNTS and (written := _written(item)):
        click.echo(f"As of {written}. The counts are updated every {COUNTS_EVERY_S:.0f} seconds.")
    if not seen or condition.get("reason") != ModelDeploymentReason.ROLLOUT_COMPLETE:
        raise click.exceptions.Exit(UNMET)


def _written(item: "Object") -> str | None:
    """Return the time at which the status was written last, with its age; None if it is not known."""
    from modelplane.kube import timestamps

    entries = item["metadata"].get("managedFields", ())
    times = [entry["time"] for entry in entries if entry.get("subresource") == "status" and "time" in entry]
    if not times:
        return None
    return f"{max(times)} ({max(0, round(timestamps.measure_age_s(max(times))))} s ago)"


@rollout.command(epilog=format_example("modelplane rollout history md/qwen -n ml-team"))
@_target
def history(*, name: str, namespace: str, target: Target) -> None:
    """List the stored revisions of a deployment, newest first."""
    from modelplane.api.report_tables import Columns
    from modelplane.cli.output import print_table
    from modelplane.compose.deployment.revisions import get_revision_number
    from modelplane.operations import rollouts

    async def do(client: "Client") -> "tuple[Object, list[Object]]":
        item = await _find(client, name, namespace, target)
        return item, await rollouts.list_revisions(client, item)

    item, records = read(target, "revisions", do)
    current = _accept(rollouts.find_current_revision(item))
    columns = Columns["Object"](
        ("REVISION", lambda record: str(get_revision_number(record))),
        ("HASH", rollouts.get_hash),
        ("CREATED", lambda record: record["metadata"].get("creationTimestamp", "")),
        ("IMAGES", lambda record: ", ".join(rollouts.list_images(record))),
        ("", lambda record: "current" if rollouts.get_hash(record) == current else ""),
    )
    print_table(columns.tabulate("", records))


@rollout.command(epilog=format_example("modelplane rollout pause md/qwen -n ml-team"))
@_target
def pause(*, name: str, namespace: str, target: Target) -> None:
    """Pause a rollout. No more replicas are updated until you resume it."""
    from modelplane.operations import rollouts

    _write(name, namespace, target, lambda item: rollouts.build_pause(item, paused=True))
    click.echo(f"Paused {name}. Replicas that were already edited still restart")


@rollout.command(epilog=format_example("modelplane rollout resume md/qwen -n ml-team"))
@_target
def resume(*, name: str, namespace: str, target: Target) -> None:
    """Resume a paused rollout, or restart an aborted canary."""
    from modelplane.operations import rollouts

    _write(name, namespace, target, lambda item: rollouts.build_pause(item, paused=False))
    click.echo(f"Resumed {name}")


@rollout.command(epilog=format_example("modelplane rollout promote md/qwen -n ml-team"))
@_target
def promote(*, name: str, namespace: str, target: Target) -> None:
    """Promote a canary to the whole deployment. The remaining steps are skipped."""
    from modelplane.operations import rollouts

    item = _write(name, namespace, target, rollouts.build_promotion)
    current = _accept(rollouts.find_current_revision(item))
    click.echo(f"Promoted revision {current} of {name}: the remaining steps are skipped")


@rollout.command(epilog=format_example("modelplane rollout undo md/qwen -n ml-team --to-revision 3"))
@_target
@click.option(
    "--to-revision",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Revision number. Default: the latest revision with a different template.",
)
def undo(*, name: str, namespace: str, to_revision: int | None, target: Target) -> None:
    """Roll back to an earlier revision.

    If a tool such as Argo CD or Flux applies the manifests, also revert the change there.
    """
    from modelplane.compose.deployment.revisions import get_revision_number
    from modelplane.operations import rollouts

    async def do(client: "Client") -> "tuple[Object, Object]":
        item = await _find(client, name, namespace, target)
        records = await rollouts.list_revisions(client, item)
        chosen = _accept(rollouts.choose_revision(item, records, to_revision))
        _accept(await rollouts.write_patch(client, item, rollouts.build_undo(item, chosen)))
        return item, chosen

    item, chosen = write_changes(target, "the template", do)
    images = ", ".join(rollouts.list_images(chosen))
    click.echo(f"Rolled back {name} to the template of revision {get_revision_number(chosen)}: {images}")
    for manager in rollouts.list_other_managers(item):
        click.echo(
            f'warning: "{manager}" also applies this object and can overwrite the change: revert the '
            "change at its source",
            err=True,
        )


def _write(
    name: str, namespace: str, target: Target, build: "Callable[[Object], Patch | Rejected]"
) -> "Object":
    """Write a patch of a deployment; return the deployment as it was before."""
    from modelplane.operations import rollouts

    async def do(client: "Client") -> "Object":
        item = await _find(client, name, namespace, target)
        _accept(await rollouts.write_patch(client, item, _accept(build(item))))
        return item

    return write_changes(target, "the rollout", do)


async def _find(client: "Client", name: str, namespace: str, target: Target) -> "Object":
    """Return a deployment with a rollout by its name; raise ``UserError`` without one."""
    from modelplane.api.kinds import kind_of
    from modelplane.api.model_deployment import ModelDeployment
    from modelplane.controllers.fleet_resources import MODEL_DEPLOYMENTS
    from modelplane.operations.rollouts import check_rollout

    kind = kind_of(ModelDeployment)
    meant = parse_object_name(name, [kind])
    if meant is None:
        raise click.BadParameter(f'"{name}" is not of the form {kind.short}/NAME', param_hint="md/NAME")
    namespace = target.choose_namespace(namespace)
    deployments = (await client.list(MODEL_DEPLOYMENTS, namespace)).items
    item = find_one(deployments, kind.name, meant[1], namespace)
    _accept(check_rollout(item))
    return item


def _accept(checked: "T | Rejected") -> T:
    """Return a value; raise ``UserError`` for a refusal."""
    from modelplane.api.rejected import Rejected

    if isinstance(checked, Rejected):
        raise UserError(checked.message)
    return checked

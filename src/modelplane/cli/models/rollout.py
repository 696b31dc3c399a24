"""``modelplane rollout``: show, pause, resume, promote and undo rollouts of ModelDeployments."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from modelplane.cli import object_names
from modelplane.cli.errors import UserError
from modelplane.cli.tables import clean_text
from modelplane.cli.target import Target, add_namespace_option, add_target_options, read, write_changes

if TYPE_CHECKING:
    from modelplane.api.kinds import Kind
    from modelplane.api.meta import Object
    from modelplane.kube.client import Client
    from modelplane.kube.resources import Resource

F = TypeVar("F", bound=Callable[..., Any])

_UNFINISHED: Final = 2
"""Exit status of a rollout that is not complete."""

_WITH_COUNTS: Final = ("CanaryRunning", "CanaryHolds")
"""Reasons whose message has counts of answers."""

_OWN_MANAGERS: Final = ("modelplane", "kubectl")
"""Beginnings of the field managers of people and of Modelplane; any other one applies its own manifests."""


@click.group()
def rollout() -> None:
    """Show, pause, resume, promote and undo rollouts of ModelDeployments."""


def _target(command: F) -> F:
    return click.argument("name", metavar="md/NAME")(add_namespace_option(add_target_options(command)))


@rollout.command()
@_target
def status(*, name: str, namespace: str, target: Target) -> None:
    """Show how far a rollout is, and what it waits for.

    The exit status is 2 until it is complete.
    """
    from modelplane.api.conditions.reasons import ModelDeploymentCondition, ModelDeploymentReason
    from modelplane.compose.readiness import condition_of, observed_generation
    from modelplane.deciders.canary.state import COUNTS_EVERY_S

    async def do(client: "Client") -> "Object":
        return await _find(client, name, namespace)

    item = read(target, "ModelDeployments", do)
    _require_settings(item)
    type_ = ModelDeploymentCondition.PROGRESSING
    condition = condition_of(item, type_)
    seen = observed_generation(item, type_) >= item["metadata"].get("generation", 0)
    click.echo(
        clean_text(condition["message"])
        if condition and seen
        else "the last change has not been observed yet"
    )
    if seen and condition.get("reason") in _WITH_COUNTS and (written := _written(item)):
        click.echo(f"As of {written}: answers are reported every {COUNTS_EVERY_S:.0f} seconds.")
    if not seen or condition.get("reason") != ModelDeploymentReason.ROLLOUT_COMPLETE:
        raise click.exceptions.Exit(_UNFINISHED)


def _written(item: "Object") -> str:
    """Return the time at which the status was written last, with its age; empty if it is not known."""
    from modelplane.kube import timestamps

    entries = item["metadata"].get("managedFields", ())
    times = [entry["time"] for entry in entries if entry.get("subresource") == "status" and "time" in entry]
    if not times:
        return ""
    return f"{max(times)} ({max(0, round(timestamps.measure_age_s(max(times))))} s ago)"


@rollout.command()
@_target
def history(*, name: str, namespace: str, target: Target) -> None:
    """List the revisions that are kept, the newest first."""
    from modelplane.api.columns import Columns
    from modelplane.cli import tables
    from modelplane.compose.deployment.rollout.revisions import number_of

    async def do(client: "Client") -> "tuple[Object, list[Object]]":
        item = await _find(client, name, namespace)
        return item, await _revisions(client, item)

    item, records = read(target, "revisions", do)
    _require_settings(item)
    current = _current(item)
    columns = Columns["Object"](
        ("REVISION", lambda record: str(number_of(record))),
        ("HASH", _hash),
        ("CREATED", lambda record: record["metadata"].get("creationTimestamp", "")),
        ("IMAGES", lambda record: ", ".join(_images(record))),
        ("", lambda record: "current" if _hash(record) == current else ""),
    )
    tables.show(columns.tabulate("", records))


def _hash(record: "Object") -> str:
    from modelplane.api import labels

    return str(record["metadata"].get("labels", {}).get(labels.REVISION, ""))


@rollout.command()
@_target
def pause(*, name: str, namespace: str, target: Target) -> None:
    """Update no further replica until the rollout is resumed."""
    _set_paused(name, namespace, target, paused=True)
    click.echo(f"{name} is paused: replicas that have been edited already still restart")


@rollout.command()
@_target
def resume(*, name: str, namespace: str, target: Target) -> None:
    """Continue a paused rollout, or begin an aborted canary again."""
    _set_paused(name, namespace, target, paused=False)
    click.echo(f"{name} is resumed")


@rollout.command()
@_target
def promote(*, name: str, namespace: str, target: Target) -> None:
    """Skip the rest of a canary: the rollout goes on within its limits."""
    from modelplane.api import labels

    async def do(client: "Client") -> str:
        item = await _find(client, name, namespace)
        _require_settings(item)
        if "canary" not in item["spec"]["rollout"]:
            raise UserError(f"{_called(item)} has no spec.rollout.canary, so there are no steps to skip")
        current = _current(item)
        await _patch(client, item, {"metadata": {"annotations": {labels.PROMOTED: current}}})
        return current

    current = write_changes(target, "the canary", do)
    click.echo(f"{name} goes on with revision {current}, without further steps")


@rollout.command()
@_target
@click.option(
    "--to-revision",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Number of the revision. Default: the last one with another template.",
)
def undo(*, name: str, namespace: str, to_revision: int | None, target: Target) -> None:
    """Write an earlier template back to spec.

    A tool that applies manifests, such as Argo CD or Flux, overwrites it: revert its source too.
    """
    from modelplane.compose.deployment.rollout.revisions import number_of

    async def do(client: "Client") -> "tuple[Object, Object]":
        item = await _find(client, name, namespace)
        _require_settings(item)
        chosen = _chosen(item, await _revisions(client, item), to_revision)
        await _patch(client, item, {"spec": _spec_patch(item, chosen)})
        return item, chosen

    item, chosen = write_changes(target, "the template", do)
    click.echo(
        f"{name} returns to the template of revision {number_of(chosen)}: {', '.join(_images(chosen))}"
    )
    for manager in _appliers(item):
        click.echo(
            f'warning: "{manager}" applies this object too, and may overwrite the change: revert its source',
            err=True,
        )


def _chosen(item: "Object", records: "list[Object]", number: int | None) -> "Object":
    """Return the revision to return to: that of a number, or the last one with another template.

    In the middle of a canary, that is the revision that the other replicas have.
    """
    from modelplane.api import labels
    from modelplane.compose.deployment.rollout.revisions import number_of

    current = _current(item)
    stable = _canary(item).get("stableRevision", "")
    if number is None and stable:
        records = sorted(
            records, key=lambda record: record["metadata"].get("labels", {}).get(labels.REVISION) != stable
        )
    for record in records:
        differs = record["metadata"].get("labels", {}).get(labels.REVISION) != current
        if number_of(record) == number or (number is None and differs):
            return record
    numbers = ", ".join(str(number_of(record)) for record in records) or "none"
    target = "an earlier revision" if number is None else f"revision {number}"
    raise UserError(f"{_called(item)} has not kept {target}; there are: {numbers}")


def _spec_patch(item: "Object", chosen: "Object") -> dict[str, Any]:
    """Return the merge patch of spec that writes a revision's template, whichever way it is written."""
    kept = chosen["data"].get("spec", {})
    spec = item["spec"]
    before = spec["template"]["spec"] if "template" in spec else spec
    patch = {field: _replacing(before.get(field), kept.get(field)) for field in _FIELDS}
    return {"template": {"spec": patch}} if "template" in spec else patch


_FIELDS: Final = ("engines", "modelCacheRef", "serving")


def _replacing(before: Any, after: Any) -> Any:
    """Return a value for a merge patch that leaves nothing of the former one."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    absent = dict.fromkeys(before.keys() - after.keys())
    return {**absent, **{key: _replacing(before.get(key), value) for key, value in after.items()}}


def _canary(item: "Object") -> dict[str, Any]:
    """Return the state of a deployment's canary; empty without one."""
    return dict(((item.get("status") or {}).get("rollout") or {}).get("canary") or {})


def _set_paused(name: str, namespace: str, target: Target, *, paused: bool) -> None:
    from modelplane.api import labels

    async def do(client: "Client") -> None:
        item = await _find(client, name, namespace)
        _require_settings(item)
        body: dict[str, Any] = {"spec": {"rollout": {"paused": paused}}}
        canary = _canary(item)
        if not paused and "abortTime" in canary and canary.get("revision") == _current(item):
            body["metadata"] = {"annotations": {labels.RETRIED: canary["abortTime"]}}
        await _patch(client, item, body)

    write_changes(target, "spec.rollout", do)


async def _patch(client: "Client", item: "Object", body: dict[str, Any]) -> None:
    from modelplane.kube.errors import Conflict

    metadata = item["metadata"]
    guard = {**body.get("metadata", {}), "resourceVersion": metadata["resourceVersion"]}
    guarded = {**body, "metadata": guard}
    try:
        await client.patch(_resource(), metadata["name"], guarded, metadata["namespace"])
    except Conflict as error:
        raise UserError(f"{_called(item)} has just been changed: run the command again") from error


async def _find(client: "Client", name: str, namespace: str) -> "Object":
    kind = _kind()
    meant = object_names.parse_object_name(name, [kind])
    if meant is None:
        raise click.BadParameter(f'"{name}" is not of the form {kind.short}/NAME', param_hint="md/NAME")
    deployments = (await client.list(_resource(), namespace or None)).items
    return object_names.find_one(deployments, kind.name, meant[1], namespace)


async def _revisions(client: "Client", item: "Object") -> "list[Object]":
    """Return the revisions that a deployment owns, the newest first."""
    from modelplane.compose.deployment.rollout.revisions import number_of
    from modelplane.compose.workload_kinds import CONTROLLER_REVISION
    from modelplane.controllers.fleet_resources import of_row

    uid = item["metadata"]["uid"]
    records = (await client.list(of_row(CONTROLLER_REVISION), item["metadata"]["namespace"])).items
    owned = (
        record
        for record in records
        if any(owner.get("uid") == uid for owner in record["metadata"].get("ownerReferences", ()))
    )
    return sorted(owned, key=number_of, reverse=True)


def _current(item: "Object") -> str:
    """Return the hash of the template that spec has now, which the controllers may not have seen yet."""
    from modelplane.api.model_deployment import ModelDeployment
    from modelplane.api.schema.decode import InvalidObject, decode_as
    from modelplane.compose.deployment.rollout.rollout_order import revision

    try:
        return revision(decode_as(ModelDeployment, item).replica_template())
    except InvalidObject as error:
        raise UserError(f"{error}: correct it") from error


def _images(record: "Object") -> list[str]:
    """Return the images of a revision's containers, each once."""
    return list(dict.fromkeys(_values_of(record.get("data", {}), "image")))


def _values_of(value: Any, name: str) -> "list[str]":
    if isinstance(value, dict):
        values = [value[name]] if isinstance(value.get(name), str) else []
        return values + [image for inner in value.values() for image in _values_of(inner, name)]
    return [image for inner in value for image in _values_of(inner, name)] if isinstance(value, list) else []


def _appliers(item: "Object") -> list[str]:
    """Return the field managers of spec that are neither people's nor Modelplane's."""
    entries = item["metadata"].get("managedFields", ())
    names = {entry.get("manager", "") for entry in entries if "f:spec" in entry.get("fieldsV1", {})}
    return sorted(name for name in names if name and not name.startswith(_OWN_MANAGERS))


def _require_settings(item: "Object") -> None:
    if "rollout" not in item["spec"]:
        raise UserError(f"{_called(item)} has no spec.rollout: set it, with {{}} for the defaults")


def _called(item: "Object") -> str:
    metadata = item["metadata"]
    return f'ModelDeployment "{metadata["name"]}" in namespace "{metadata["namespace"]}"'


def _kind() -> "Kind":
    from modelplane.api.kinds import kind_of
    from modelplane.api.model_deployment import ModelDeployment

    return kind_of(ModelDeployment)


def _resource() -> "Resource":
    from modelplane.controllers.fleet_resources import MODEL_DEPLOYMENTS

    return MODEL_DEPLOYMENTS

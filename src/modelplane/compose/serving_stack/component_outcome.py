"""The outcome of one component of a stack: installed, waiting, refused or removed, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from modelplane.api.fields.cluster.stack_components import (
    MAX_VALUES_BYTES,
    ComponentName,
    ComponentSettings,
    ComponentState,
)
from modelplane.api.listing import format_subject, listing
from modelplane.api.names import child_name
from modelplane.api.rejected import Rejected
from modelplane.compose import releases
from modelplane.compose.composition import Desired, Keep
from modelplane.compose.readiness import condition_of, holds
from modelplane.compose.serving_stack import cluster_gateway
from modelplane.compose.serving_stack.component import Component, Plan, list_composed

_LONGEST_MESSAGE: Final = 1024
MAX_DEPTH: Final = 32
"""Levels of one component's values."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of a component after composing it, and its children."""

    row: Component
    state: ComponentState
    is_ready: bool
    """True if components that need it can be installed."""
    message: str = ""
    version: str = ""
    children: tuple[Desired | Keep, ...] = ()
    is_invalid: bool = False
    """True if its settings are invalid."""

    @property
    def is_settled(self) -> bool:
        """True if nothing of it is awaited, its controller's own report included."""
        return self.is_ready and self.state is not ComponentState.INSTALLING

    @property
    def has_failed(self) -> bool:
        """True if someone must act."""
        return self.is_invalid or self.state in (ComponentState.FAILED, ComponentState.REFUSED)

    def status(self) -> dict[str, Any]:
        """Return the component's entry in the status of the stack."""
        status = {"name": str(self.row.name), "state": str(self.state)}
        if self.version:
            status["version"] = self.version
        if self.message:
            status["message"] = self.message[:_LONGEST_MESSAGE]
        return status


def is_installed(row: Component, plan: Plan) -> bool:
    """Return True if a component was composed before, as observed or as the status of the stack says."""
    return any(key in plan.request.observed for key in row.keys) or row.name in list_composed(plan.stack)


def decide_outcome(row: Component, plan: Plan, before: Mapping[ComponentName, Outcome]) -> Outcome:
    """Return what becomes of a component; ``before`` has the outcomes of earlier ones.

    In this order: invalid settings, part of another component, existing already, waiting, installed.
    """
    settings = plan.settings.get(row.name) or ComponentSettings(name=row.name)
    if rejected := _check_settings(settings) or row.check(plan):
        waiting = Outcome(row, ComponentState.WAITING, False, rejected.message, is_invalid=True)
        return _keep(row, rejected.message) if is_installed(row, plan) else waiting
    if row.part_of is not None:
        owner = before.get(row.part_of)
        if owner is None:
            return Outcome(row, ComponentState.WAITING, False, f"{row.part_of} is not installed: enable it")
        return Outcome(row, owner.state, owner.is_ready, owner.message)
    if not is_installed(row, plan):
        existing = None if settings.enabled else _find_existing(row, plan)
        if existing is not None:
            return existing
        missing = [name for name in row.after if name in before and not before[name].is_ready]
        if missing:
            return Outcome(row, ComponentState.WAITING, False, f"waiting for {listing(missing)}")
    observed = plan.request.observed
    version = settings.version or (row.version(plan.stack.spec.versions) if row.version else "")
    children = [*_compose_release(row, plan, settings, version), *(row.objects(plan) if row.objects else ())]
    unready = [child for child in children if not child.ready(observed.get(child.key, {}))]
    release = observed.get(str(row.name)) if row.chart else None
    problem = releases.problem(release) if release is not None else None
    if unready:
        named = listing(
            f'{desired.manifest["kind"]} "{desired.manifest["metadata"]["name"]}"' for desired in unready
        )
        awaited = (releases.progress(release) if release is not None else "") or f"waiting for {named}"
    else:
        awaited = _explain_missing_confirmation(row, plan) or ""
    running = ComponentState.INSTALLING if awaited else ComponentState.INSTALLED
    state = ComponentState.FAILED if problem else running
    return Outcome(row, state, not unready, problem or awaited, version, tuple(children))


def decide_removal(row: Component, plan: Plan) -> Outcome:
    """Return what becomes of a component that is installed and not enabled any more."""
    needing_it = [
        component.name
        for component in plan.rows
        if row.name in component.after and component.name in plan.chosen and is_installed(component, plan)
    ]
    if not needing_it and (rejected := row.check_removal(plan)):
        return _keep(row, f"kept: {rejected.message}")
    if not needing_it:
        return Outcome(row, ComponentState.UNINSTALLING, False, "enabled is false")
    needing = format_subject("component", needing_it, "needs", "need")
    return _keep(row, f"kept, because {needing} it: disable those first")


def _keep(row: Component, message: str) -> Outcome:
    """Return the outcome of a component that stays as it is, whether or not it is observed."""
    return Outcome(row, ComponentState.REFUSED, True, message, children=tuple(Keep(key) for key in row.keys))


def _check_settings(settings: ComponentSettings) -> Rejected | None:
    level: list[Any] = [settings.values]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for value in level
            if isinstance(value, Mapping | list | tuple)
            for inner in (value.values() if isinstance(value, Mapping) else value)
        ]
    if level:
        return Rejected(
            subject="its values", detail=f"have more than {MAX_DEPTH} levels", remedy="remove some"
        )
    size = len(msgspec.json.encode(settings.values))
    if size > MAX_VALUES_BYTES:
        return Rejected(
            subject="its values",
            detail=f"have {size} bytes, and at most {MAX_VALUES_BYTES} are accepted",
            remedy="remove some",
        )
    return None


def _find_existing(row: Component, plan: Plan) -> Outcome | None:
    """Return the outcome of a component that the cluster has already, or may have; None if it has not."""
    if not row.found_by:
        return None
    if unknown := plan.request.unknown(row.found_by):
        message = f"cannot determine whether the cluster already has the component: {unknown.cause}"
        return Outcome(row, ComponentState.WAITING, False, message)
    found = [
        item
        for item in plan.request.found(row.found_by)
        if "deletionTimestamp" not in item["metadata"] and not cluster_gateway.is_ours(item)
    ]
    if not found:
        return None
    named = f'{found[0]["kind"]} "{found[0]["metadata"]["name"]}"'
    message = (
        f"the cluster already has {named}, so nothing is installed: to install the component anyway, set "
        "enabled: true"
    )
    is_ready = row.found_by != cluster_gateway.KEY or bool(cluster_gateway.address(found[0]))
    return Outcome(row, ComponentState.PRESENT, is_ready, message)


def _explain_missing_confirmation(row: Component, plan: Plan) -> str | None:
    """Return what is awaited of a controller whose pods run; None if a status of its own confirms it."""
    confirming = next(
        (component for component in plan.rows if row.confirmed_by in component.object_keys), None
    )
    if confirming is None or confirming.name not in plan.chosen:
        return None
    settings = plan.settings.get(confirming.name)
    is_asked_for = settings is not None and settings.enabled is True
    if (
        not is_installed(confirming, plan)
        and not is_asked_for
        and _find_existing(confirming, plan) is not None
    ):
        # The cluster has it already, or may have it, so that it is not composed.
        return None
    child = plan.request.observed.get(row.confirmed_by)
    if child is not None and holds(child, cluster_gateway.ACCEPTED):
        return None
    if child is None:
        return (
            f"the pods are running; waiting for {row.confirmed_by}, with which the controller confirms that"
        )
    named = f'{child["kind"]} "{child["metadata"]["name"]}"'
    said = condition_of(child, cluster_gateway.ACCEPTED).get("message", "")
    waiting = f"the pods are running; waiting for the controller to accept {named}"
    return f"{waiting}: {said}" if said else waiting


def _compose_release(
    row: Component, plan: Plan, settings: ComponentSettings, version: str
) -> tuple[Desired, ...]:
    if row.chart is None:
        return ()
    values: Mapping[str, Any] = row.values(plan)
    parts = (part for part in plan.rows if part.part_of == row.name and part.name in plan.chosen)
    for part in parts:
        values = releases.merge_values(values, part.values(plan))
        own = plan.settings.get(part.name)
        values = releases.merge_values(values, own.values if own and not _check_settings(own) else {})
    return (
        releases.release(
            str(row.name),
            row.chart._replace(repository=(settings.repository or row.chart.repository).rstrip("/")),
            name=child_name(plan.stack.metadata.name, row.name),
            version=version,
            namespace=row.namespace,
            values=releases.merge_values(values, settings.values),
            cluster=plan.cluster,
        ),
    )

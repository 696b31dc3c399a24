"""Rollouts of a ModelDeployment: the revisions that it keeps, and what each operation writes.

A patch is a merge patch of the deployment, as it was read.
"""

from collections.abc import Sequence
from typing import Any, Final

from modelplane.api import labels
from modelplane.api.meta import Object
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.rejected import Rejected
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.deployment.revisions import get_revision_number, revision
from modelplane.compose.workload_kinds import CONTROLLER_REVISION
from modelplane.controllers.fleet_resources import MODEL_DEPLOYMENTS, of_row
from modelplane.kube.client import Client
from modelplane.kube.errors import Conflict

Patch = dict[str, Any]

_OWN_MANAGERS: Final = ("modelplane", "kubectl")
"""Beginnings of the field managers of people and of Modelplane; any other one applies its own manifests."""
_FIELDS: Final = ("engines", "modelCacheRef", "serving")


def check_rollout(item: Object) -> Rejected | None:
    """Refuse a deployment without ``spec.rollout``."""
    if "rollout" in item["spec"]:
        return None
    return Rejected(
        subject=name_deployment(item),
        detail="doesn't set spec.rollout",
        remedy="set it, with {} for the defaults",
    )


def find_current_revision(item: Object) -> str | Rejected:
    """Return the hash of the template that spec has now, which the controllers may not have seen yet."""
    try:
        return revision(decode_as(ModelDeployment, item).replica_template())
    except InvalidObject as error:
        return Rejected(detail=str(error), remedy="correct it")


async def list_revisions(client: Client, item: Object) -> list[Object]:
    """Return the revisions that a deployment owns, the newest first."""
    uid = item["metadata"]["uid"]
    records = (await client.list(of_row(CONTROLLER_REVISION), item["metadata"]["namespace"])).items
    owned = (
        record
        for record in records
        if any(owner.get("uid") == uid for owner in record["metadata"].get("ownerReferences", ()))
    )
    return sorted(owned, key=get_revision_number, reverse=True)


def build_pause(item: Object, *, paused: bool) -> Patch | Rejected:
    """Return the patch that pauses or resumes a rollout; resuming begins an aborted canary again."""
    patch: Patch = {"spec": {"rollout": {"paused": paused}}}
    canary = _read_canary(item)
    if paused or "abortTime" not in canary:
        return patch
    current = find_current_revision(item)
    if isinstance(current, Rejected):
        return current
    if canary.get("revision") == current:
        patch["metadata"] = {"annotations": {labels.RETRIED: canary["abortTime"]}}
    return patch


def build_promotion(item: Object) -> Patch | Rejected:
    """Return the patch that skips the rest of a canary."""
    if "canary" not in item["spec"]["rollout"]:
        return Rejected(
            subject=name_deployment(item),
            detail="doesn't set spec.rollout.canary, so there are no steps to skip",
        )
    current = find_current_revision(item)
    if isinstance(current, Rejected):
        return current
    return {"metadata": {"annotations": {labels.PROMOTED: current}}}


def choose_revision(item: Object, records: Sequence[Object], number: int | None) -> Object | Rejected:
    """Return the revision to return to: that of a number, or the last one with another template.

    In the middle of a canary, that is the revision that the other replicas have.
    """
    current = find_current_revision(item)
    if isinstance(current, Rejected):
        return current
    stable = _read_canary(item).get("stableRevision", "")
    if number is None and stable:
        records = sorted(records, key=lambda record: get_hash(record) != stable)
    for record in records:
        if get_revision_number(record) == number or (number is None and get_hash(record) != current):
            return record
    numbers = ", ".join(str(get_revision_number(record)) for record in records) or "none"
    target = "an earlier revision" if number is None else f"revision {number}"
    return Rejected(
        subject=name_deployment(item), detail=f"no longer stores {target}: the stored revisions are {numbers}"
    )


def build_undo(item: Object, chosen: Object) -> Patch:
    """Return the patch that writes a revision's template back to spec, whichever way it is written."""
    kept = chosen["data"].get("spec", {})
    spec = item["spec"]
    before = spec["template"]["spec"] if "template" in spec else spec
    template = {field: _replace(before.get(field), kept.get(field)) for field in _FIELDS}
    return {"spec": {"template": {"spec": template}} if "template" in spec else template}


def _replace(before: Any, after: Any) -> Any:
    """Return a value for a merge patch that leaves nothing of the former one."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    absent = dict.fromkeys(before.keys() - after.keys())
    return {**absent, **{key: _replace(before.get(key), value) for key, value in after.items()}}


def _read_canary(item: Object) -> dict[str, Any]:
    """Return the state of a deployment's canary; empty without one."""
    return dict(((item.get("status") or {}).get("rollout") or {}).get("canary") or {})


async def write_patch(client: Client, item: Object, patch: Patch) -> Rejected | None:
    """Patch a deployment unless it has changed since it was read."""
    metadata = item["metadata"]
    guard = {**patch.get("metadata", {}), "resourceVersion": metadata["resourceVersion"]}
    try:
        await client.patch(
            MODEL_DEPLOYMENTS, metadata["name"], {**patch, "metadata": guard}, metadata["namespace"]
        )
    except Conflict:
        return Rejected(
            subject=name_deployment(item),
            detail="was changed in the meantime",
            remedy="run the command again",
        )
    return None


def get_hash(record: Object) -> str:
    """Return the hash of a revision."""
    return str(record["metadata"].get("labels", {}).get(labels.REVISION, ""))


def list_images(record: Object) -> list[str]:
    """Return the images of a revision's containers, each once."""
    return list(dict.fromkeys(_values_of(record.get("data", {}), "image")))


def _values_of(value: Any, name: str) -> list[str]:
    if isinstance(value, dict):
        values = [value[name]] if isinstance(value.get(name), str) else []
        return values + [image for inner in value.values() for image in _values_of(inner, name)]
    return [image for inner in value for image in _values_of(inner, name)] if isinstance(value, list) else []


def list_other_managers(item: Object) -> list[str]:
    """Return the field managers of spec that are neither people's nor Modelplane's."""
    entries = item["metadata"].get("managedFields", ())
    names = {entry.get("manager", "") for entry in entries if "f:spec" in entry.get("fieldsV1", {})}
    return sorted(name for name in names if name and not name.startswith(_OWN_MANAGERS))


def name_deployment(item: Object) -> str:
    """Return a deployment as messages name it."""
    metadata = item["metadata"]
    return f'ModelDeployment "{metadata["name"]}" in namespace "{metadata["namespace"]}"'

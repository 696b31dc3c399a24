"""Edits: manifests that a person wrote, as a server would store them over the objects of a fleet."""

from collections.abc import Iterable
from typing import Any

from modelplane.api.device_quota import DeviceQuota
from modelplane.api.kinds import KINDS
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.schema.decode import InvalidObject, decode_as

_KEEP_STATUS = frozenset({kind_name(ModelDeployment), kind_name(DeviceQuota)})
"""Kinds whose status does not follow from the spec alone: a rollout and a PriorityClass have a state."""

_OURS = {(kind.api_version, kind.name): kind for kind in KINDS}


def merge_edits(existing_objects: Iterable[Object], written: Iterable[Object]) -> list[Object]:
    """Return manifests with the identity of the objects that they would change, as far as there are any.

    An object whose spec does not change keeps its status. So does a ModelDeployment, because a rollout goes
    on from it, and a DeviceQuota. The status of other kinds follows from their spec.
    """
    existing = {get_identity(item): item for item in existing_objects}
    return [_edited(existing.get(get_identity(item)), item) for item in written]


def _edited(before: Object | None, after: Object) -> Object:
    if before is None or after["metadata"].get("uid"):
        return after
    keeps_status = "status" in before and (after["kind"] in _KEEP_STATUS or _same_spec(before, after))
    kept = {"status": before["status"]} if keeps_status else {}
    # Results are cached by version, and this is another one.
    metadata = {key: value for key, value in before["metadata"].items() if key != "resourceVersion"}
    metadata |= after["metadata"]
    for name in ("labels", "annotations"):
        # What others wrote there stays when a manifest is applied.
        if merged := {**_mapping(before, name), **_mapping(after, name)}:
            metadata[name] = merged
    return {**kept, **after, "metadata": metadata}


def _mapping(item: Object, field: str) -> dict[str, Any]:
    return dict(item["metadata"].get(field) or {})


def _same_spec(before: Object, after: Object) -> bool:
    """Return True if two objects of one kind ask for the same."""
    kind = _OURS.get((after["apiVersion"], after["kind"]))
    if kind is None:
        return False
    try:
        # Decoded, because a server fills in the defaults.
        old, new = (getattr(decode_as(kind.type, manifest), "spec", None) for manifest in (before, after))
    except InvalidObject:
        return False
    return bool(old == new)


def get_identity(item: Object) -> tuple[str, str, str]:
    """Return the kind, the namespace and the name of an object; without a namespace, the default one."""
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace") or "default", metadata["name"]

"""Parts that files leave out: uids, owners and namespaces, and the Secrets and ConfigMaps that pods name.

Controllers know an object's owner by uid, never by name, and files that people write have no uids. Defaults:

- namespace: ``default``, as with kubectl;
- uid: the one that children of the object refer to, or one made of kind, namespace and name;
- owner of a ModelReplica: the ModelDeployment that its label names;
- owner of a ModelEndpoint with that label: the ModelReplica of its own name. One without the label is
  external and has no owner.

Values that a server printed do not change.

Secrets and ConfigMaps that pods name are assumed to exist, because the controllers compose no pods without
them. Their content is not assumed: the copies are empty.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from modelplane.api import labels
from modelplane.api.device_quota import DeviceQuota
from modelplane.api.kinds import KINDS, kind_of
from modelplane.api.meta import Object, kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.api.schema.decode import InvalidObject, decode_as
from modelplane.compose.clouds.flow import DEFINITION_KEY
from modelplane.compose.composition import Requirement
from modelplane.compose.replica.backends.workload import reference_key

_KEEP_STATUS = frozenset({kind_name(ModelDeployment), kind_name(DeviceQuota)})
"""Kinds whose status does not follow from the spec alone: a rollout and a PriorityClass have a state."""

_KINDS = {(kind.api_version, kind.name): kind for kind in KINDS}


def merge_edits(existing_objects: Iterable[Object], written: Iterable[Object]) -> list[Object]:
    """Return manifests with the identity of the objects that they would change, as far as there are any.

    An object whose spec does not change keeps its status. So does a ModelDeployment, because a rollout goes
    on from it, and a DeviceQuota. The status of other kinds follows from their spec.
    """
    existing = {get_identity(item): item for item in existing_objects}
    return [_merge_edit(existing.get(get_identity(item)), item) for item in written]


def _merge_edit(before: Object | None, after: Object) -> Object:
    if before is None or after["metadata"].get("uid"):
        return after
    keeps_status = "status" in before and (after["kind"] in _KEEP_STATUS or _has_same_spec(before, after))
    kept = {"status": before["status"]} if keeps_status else {}
    # Results are cached by version, and this is another one.
    metadata = {key: value for key, value in before["metadata"].items() if key != "resourceVersion"}
    metadata |= after["metadata"]
    for name in ("labels", "annotations"):
        # Applying a manifest keeps the keys that others wrote there.
        if merged := {**_get_metadata_map(before, name), **_get_metadata_map(after, name)}:
            metadata[name] = merged
    return {**kept, **after, "metadata": metadata}


def _get_metadata_map(item: Object, field: str) -> dict[str, Any]:
    return dict(item["metadata"].get(field) or {})


def _has_same_spec(before: Object, after: Object) -> bool:
    """Return True if two objects of one kind ask for the same."""
    kind = _KINDS.get((after["apiVersion"], after["kind"]))
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


_ASSUMED_UID: Final = "assumed:original"


def make_original(requirement: Requirement) -> tuple[Object, ...]:
    """Return the object that pods name, or a definition of a provider, if a requirement is for one."""
    names_definition = requirement.key.startswith(DEFINITION_KEY)
    if not names_definition and requirement.key != reference_key(requirement.kind, requirement.name):
        return ()
    metadata = {"name": requirement.name, "namespace": requirement.namespace, "uid": _ASSUMED_UID}
    return ({"apiVersion": requirement.api_version, "kind": requirement.kind, "metadata": metadata},)


def is_assumed_original(item: Object) -> bool:
    """Return True if an object is not from a file."""
    return bool(item["metadata"].get("uid") == _ASSUMED_UID)


_OWNERS: Final = {
    kind_name(ModelReplica): kind_of(ModelDeployment),
    kind_name(ModelEndpoint): kind_of(ModelReplica),
}
"""Kind of the owner, by the kind of the owned object."""
_NAMESPACED = frozenset((kind.api_version, kind.name) for kind in KINDS if kind.namespaced)

_Identity = tuple[str, str, str]
"""Kind, namespace and name."""


def add_uids(objects: Iterable[Object]) -> tuple[Object, ...]:
    """Return the objects with a uid each, and replicas and endpoints with the owner that a label implies."""
    objects = tuple(map(_add_namespace, objects))
    claimed = _list_claimed_uids(objects)
    with_uids = [_add_uid(item, claimed) for item in objects]
    uids = {_get_completed_identity(item): item["metadata"]["uid"] for item in with_uids}
    return tuple(add_version(_add_owner(item, uids)) for item in with_uids)


def add_version(item: Object) -> Object:
    """Return an object with a hash of its content as version, unless a server gave it a version.

    Results computed from an object are cached by uid and version (``compose.memo``).
    """
    if item["metadata"].get("resourceVersion"):
        return item
    return _add_metadata(item, {"resourceVersion": hashlib.sha256(msgspec.json.encode(item)).hexdigest()})


def replace_version(item: Object) -> Object:
    """Return a changed object with the version of its content."""
    return add_version(
        {
            **item,
            "metadata": {key: value for key, value in item["metadata"].items() if key != "resourceVersion"},
        }
    )


def _get_completed_identity(item: Object) -> _Identity:
    """Return the identity of an object whose namespace is filled in; "" for one of the whole cluster."""
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def _list_claimed_uids(objects: Iterable[Object]) -> dict[_Identity, str]:
    """Return the uids of owners that their children refer to."""
    uids: dict[_Identity, str] = {}
    for item in objects:
        namespace = item["metadata"].get("namespace", "")
        if item["kind"] not in _OWNERS:
            continue
        for reference in item["metadata"].get("ownerReferences", ()):
            if reference.get("controller"):
                uids.setdefault((reference["kind"], namespace, reference["name"]), reference["uid"])
    return uids


def _add_namespace(item: Object) -> Object:
    needs = (item["apiVersion"], item["kind"]) in _NAMESPACED and not item["metadata"].get("namespace")
    return _add_metadata(item, {"namespace": "default"}) if needs else item


def _add_uid(item: Object, uids: Mapping[_Identity, str]) -> Object:
    if item["metadata"].get("uid"):
        return item
    identity = _get_completed_identity(item)
    return _add_metadata(item, {"uid": uids.get(identity, f"file:{'/'.join(identity)}")})


def _add_owner(item: Object, uids: Mapping[_Identity, str]) -> Object:
    metadata = item["metadata"]
    owner = _OWNERS.get(item["kind"])
    deployment = metadata.get("labels", {}).get(labels.DEPLOYMENT, "")
    if owner is None or metadata.get("ownerReferences") or not deployment:
        return item
    name = deployment if owner.type is ModelDeployment else metadata["name"]
    identity = (owner.name, metadata.get("namespace", ""), name)
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.name,
        "name": name,
        "uid": uids.get(identity, f"file:{'/'.join(identity)}"),
        "controller": True,
    }
    return _add_metadata(item, {"ownerReferences": [reference]})


def _add_metadata(item: Object, added: Mapping[str, Any]) -> Object:
    return {**item, "metadata": {**item["metadata"], **added}}

"""Fields of objects that Crossplane applied: those that it owns, and those that it would add to a child.

Crossplane counts the changes of an object and of its children, an update as two, and ignores the object for
minutes after a hundred at once. A new child causes several such changes: a composite gets a finalizer, a
composition and a revision, a managed resource its external name and its provider's finalizer. All of these
are known here, so the child is composed with them.

Crossplane deletes a child that the function leaves out, and takes over every field that the function
returns. So a child that is to stay as it is comes back with exactly the fields that Crossplane owns. The
object records them (Kubernetes API reference, "managedFields"; the format is ``FieldsV1``).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.kinds import KINDS
from modelplane.api.meta import GROUP, Object
from modelplane.crossplane.function import remote_objects

_MANAGER = "apiextensions.crossplane.io/composed"
"""Prefix of the field managers with which Crossplane applies composed resources."""

_MARKS = ("labels", "annotations")

_RENDERED = frozenset({"crossplane.io/composite", "crossplane.io/composition-resource-name"})
"""Labels and annotations that Crossplane sets on every composed resource."""


def owned(item: Object) -> Object:
    """Return an object with only the fields that Crossplane applied."""
    if not isinstance(item.get("metadata"), Mapping):
        return item  # not an object: returned as it came
    fields = _fields(item)
    part = _likely(item) if fields is None else _part(item, fields)
    metadata = {key: item["metadata"][key] for key in ("name", "namespace") if item["metadata"].get(key)}
    for field in _MARKS:
        marks = part.get("metadata", {}).get(field) or {}
        if kept := {key: value for key, value in marks.items() if key not in _RENDERED}:
            metadata[field] = kept
    if finalizers := part.get("metadata", {}).get("finalizers"):
        metadata["finalizers"] = finalizers
    content = {key: value for key, value in part.items() if key not in ("metadata", "status")}
    return {**content, "apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata}


def has_finalizer_of_ours(item: Object, finalizer: str) -> bool:
    """Return True if an object has a finalizer that Crossplane applied or may have applied."""
    if finalizer not in item["metadata"].get("finalizers", ()):
        return False
    fields = _fields(item)
    return fields is None or finalizer in _part(item, fields).get("metadata", {}).get("finalizers", ())


def without_crossplane(item: Object) -> Object:
    """Return one of our objects without the fields that Crossplane adds to spec and status."""
    group = str(item.get("apiVersion", "")).partition("/")[0]
    if group != GROUP and not group.endswith(f".{GROUP}"):
        return item
    cleaned = {
        key: {name: value for name, value in item[key].items() if name != "crossplane"}
        for key in ("spec", "status")
        if isinstance(item.get(key), Mapping)
    }
    return {**item, **cleaned}


def _fields(item: Object) -> Mapping[str, Any] | None:
    for entry in item["metadata"].get("managedFields") or ():
        applied = entry.get("operation") == "Apply" and not entry.get("subresource")
        if applied and str(entry.get("manager", "")).startswith(_MANAGER):
            fields = entry.get("fieldsV1")
            return fields if isinstance(fields, Mapping) else None
    return None


def _likely(item: Object) -> Object:
    """Return the fields that were applied of an object without managedFields: all that others did not set."""
    metadata = {
        field: {
            key: value
            for key, value in (item["metadata"].get(field) or {}).items()
            if key.startswith(labels.PREFIX)
        }
        for field in _MARKS
    }
    return {**without_crossplane(item), "metadata": metadata}


def _part(value: Any, fields: Mapping[str, Any]) -> Any:
    """Return the part of a value that a set of fields names; all of it if the set is empty."""
    if isinstance(value, Mapping) and fields:
        names = ((key[2:], inner) for key, inner in fields.items() if key.startswith("f:"))
        return {name: _part(value[name], inner) for name, inner in names if name in value}
    if isinstance(value, list) and fields:
        return [part for item in value for part in _items(item, fields)]
    return value


def _items(item: Any, fields: Mapping[str, Any]) -> list[Any]:
    """Return the part of a list item that the fields name, as a list of one or none."""
    for key, inner in fields.items():
        if key.startswith("v:") and msgspec.json.decode(key[2:]) == item:
            return [item]
        if key.startswith("k:") and isinstance(item, Mapping):
            named = msgspec.json.decode(key[2:])
            if named.items() <= item.items():
                return [{**named, **_part(item, inner)}]
    return []


FINALIZER = "composite.apiextensions.crossplane.io"
"""The finalizer that Crossplane adds to every composite."""

PROVIDERS_FINALIZER = "finalizer.managedresource.crossplane.io"
"""The finalizer that a provider adds to every managed resource on a cluster that answers."""

_OURS = {(kind.api_version, kind.name): kind for kind in KINDS}


def settled(
    manifest: Object, name: str, observed: Object | None, revision: str, *, reached: bool = False
) -> Object:
    """Return a child with the fields that Crossplane would add.

    ``name`` is the name for a managed resource that has none yet; ``revision`` is the latest revision of a
    composite's composition, empty if unknown; ``reached`` tells whether the cluster of a managed resource
    answers. Observed values are kept.
    """
    if remote_objects.is_remote(manifest):
        return _managed(manifest, name, observed, reached)
    kind = _OURS.get((manifest["apiVersion"], manifest["kind"]))
    if kind is None:
        return manifest
    chosen: dict[str, Any] = {"compositionRef": {"name": kind.definition}}
    if revision:
        chosen["compositionRevisionRef"] = {"name": revision}
    there = (observed or {}).get("spec", {}).get("crossplane", {})
    if there.get("compositionRef", chosen["compositionRef"]) != chosen["compositionRef"]:
        chosen.pop("compositionRevisionRef", None)  # a revision of another composition
    chosen |= {
        field: there[field] for field in ("compositionRef", "compositionRevisionRef") if field in there
    }
    metadata = manifest["metadata"]
    # A terminating child has lost the finalizer and must not get it again.
    if observed is None or FINALIZER in observed["metadata"].get("finalizers", ()):
        metadata = {**metadata, "finalizers": [FINALIZER]}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "crossplane": chosen}}


def _managed(manifest: Object, name: str, observed: Object | None, reached: bool) -> Object:
    called = name if observed is None else str(observed["metadata"]["name"])
    metadata = {
        **manifest.get("metadata", {}),
        "name": called,
        "annotations": {labels.EXTERNAL_NAME: called},
    }
    # On a cluster that does not answer, the finalizer would hold an object that was never created. An
    # observed object keeps a finalizer of ours; a terminating one has lost it.
    given = reached if observed is None else has_finalizer_of_ours(observed, PROVIDERS_FINALIZER)
    if given:
        metadata["finalizers"] = [PROVIDERS_FINALIZER]
    return {**manifest, "metadata": metadata}

"""Objects of a backup: their identity, what is restored of each, and whether one is there already."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from modelplane.api import labels
from modelplane.api.inference_autoscaler import InferenceAutoscaler
from modelplane.api.meta import kind_name
from modelplane.api.model_key import ModelKey
from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN
from modelplane.backup.archive import Damaged
from modelplane.backup.contents import Content, find_content
from modelplane.compose.kinds import COMPOSERS
from modelplane.controllers.children.adoption import MOST, former_uids
from modelplane.controllers.children.ownership import contains
from modelplane.kube.resources import NAMESPACES, Object

_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_NAME: Final = re.compile(DNS_SUBDOMAIN)
_NAMESPACE: Final = re.compile(DNS_LABEL)
_OWN: Final = frozenset({"apiVersion", "kind", "metadata", "status"})

Identity = tuple[str, str, str, str]
"""API version, kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An object of a backup, and its place in the file."""

    content: Content
    namespace: str
    name: str
    uid: str
    owners: frozenset[str] = frozenset()
    """The uids of its owners."""
    place: int = field(default=0, compare=False)
    is_leaving: bool = field(default=False, compare=False)
    """True if it was being deleted."""
    created: str = field(default="", compare=False)
    """The time at which it was created first."""
    exclusive_values: frozenset[str] = field(default=frozenset(), compare=False)
    """Claims that only the oldest of several objects gets."""

    @property
    def identity(self) -> Identity:
        """The identity on its API server."""
        resource = self.content.resource
        return resource.api_version, resource.kind, self.namespace, self.name

    def __str__(self) -> str:
        full = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f'{self.content.resource.kind} "{full}"'


def build_entry(item: Mapping[str, Any], place: int = 0) -> Entry:
    """Return the entry of an object in a file. Raises ``Damaged`` for one that no backup has."""
    content = find_content(item)
    metadata = item.get("metadata")
    if content is None or not isinstance(metadata, Mapping):
        raise Damaged(f"the line at byte {place:,} is not an object of a backup")
    name, namespace, uid = (metadata.get(key) or "" for key in ("name", "namespace", "uid"))
    if not (_fits(_NAME, name) and _fits(_UID, uid)):
        raise Damaged(f"the object at byte {place:,} has no valid name and uid")
    is_placed = _fits(_NAMESPACE, namespace) if content.resource.namespaced else not namespace
    if not (is_placed and _has_valid_metadata(metadata) and content.can_hold(item)):
        raise Damaged(f"the object at byte {place:,} is not an object of a backup")
    owners = (reference.get("uid") for reference in metadata.get("ownerReferences") or ())
    return Entry(
        content,
        namespace,
        name,
        uid,
        frozenset(owner for owner in owners if isinstance(owner, str)),
        place,
        is_leaving="deletionTimestamp" in metadata,
        created=str(metadata.get("creationTimestamp", "")),
        exclusive_values=find_exclusive_values(item),
    )


def _fits(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 253 and bool(pattern.fullmatch(value))


def _has_valid_metadata(metadata: Mapping[str, Any]) -> bool:
    maps = all(isinstance(metadata.get(key) or {}, Mapping) for key in ("labels", "annotations"))
    owners = metadata.get("ownerReferences") or []
    return maps and isinstance(owners, list) and all(isinstance(owner, Mapping) for owner in owners)


def build_manifest(item: Mapping[str, Any], uids: Mapping[str, str]) -> Object:
    """Return what creates an object anew, without its status; ``uids`` has the new uid of each old one.

    References to owners that are not restored are left out: Kubernetes would delete the object.
    """
    metadata = item["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels") if metadata.get(key)}
    annotations = {**(metadata.get("annotations") or {}), **build_former_uids(item)}
    if annotations:
        kept["annotations"] = annotations
    if item["kind"] == NAMESPACES.kind:
        return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": kept}
    if finalizers := metadata.get("finalizers"):
        kept["finalizers"] = finalizers
    if owners := list_owners(metadata, uids):
        kept["ownerReferences"] = owners
    content = {key: value for key, value in item.items() if key not in _OWN}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": kept, **content}


def list_owners(metadata: Mapping[str, Any], uids: Mapping[str, str]) -> list[Object]:
    """Return the references to owners that are restored, with their new uids."""
    references = metadata.get("ownerReferences") or ()
    return [
        {**reference, "uid": uids[reference["uid"]]}
        for reference in references
        if reference.get("uid") in uids
    ]


def build_former_uids(item: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation with the uids that an object had before; none for a kind without children."""
    if item["kind"] not in COMPOSERS:
        return {}
    # Those of earlier restores too: a cluster may have been unreachable since.
    return {labels.FORMER_UIDS: ",".join((item["metadata"]["uid"], *former_uids(item))[:MOST])}


def list_managers(item: Mapping[str, Any], uids: Mapping[str, str]) -> list[Object]:
    """Return the field managers of an object, which own parts of it by the uids of its owners too."""
    text = msgspec.json.encode(item["metadata"].get("managedFields") or []).decode()
    for reference in item["metadata"].get("ownerReferences") or ():
        if reference.get("uid") in uids:
            text = text.replace(reference["uid"], uids[reference["uid"]])
    return msgspec.json.decode(text, type=list[Object])


def is_restored(item: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Return True if an API server has an object with everything that a file has of it, but the status.

    Of a namespace, only the name counts.
    """
    if item["kind"] == NAMESPACES.kind:
        return True
    maps = {key: item["metadata"].get(key) or {} for key in ("labels", "annotations")}
    maps["annotations"] = {**maps["annotations"]}
    maps["annotations"].pop(labels.FORMER_UIDS, None)
    content = {key: value for key, value in item.items() if key not in _OWN}
    return contains(live, content) and contains(live["metadata"], maps)


def find_exclusive_values(item: Mapping[str, Any]) -> frozenset[str]:
    """Return what only the oldest of several objects gets: the hashes of a key, the target of an autoscaler.

    A restored object is as old as its restore, so a restore keeps their order. Else a team that copied the
    hash of another team's key could have the key after a restore.
    """
    return frozenset(_list_exclusive_values(item))


def _list_exclusive_values(item: Mapping[str, Any]) -> Iterator[str]:
    spec = item.get("spec")
    if not isinstance(spec, Mapping):
        return
    if item["kind"] == kind_name(ModelKey):
        hashes = spec.get("hashes")
        for entry in hashes if isinstance(hashes, list) else ():
            if isinstance(entry, Mapping):
                yield f"hash {entry.get('sha256')}"
    target = spec.get("deploymentRef")
    if item["kind"] == kind_name(InferenceAutoscaler) and isinstance(target, Mapping):
        yield f"target {item['metadata'].get('namespace')}/{target.get('name')}"

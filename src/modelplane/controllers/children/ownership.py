"""Ownership of children, by the uid of their owner, and their index, which informers keep up to date.

A child on the owner's API server has an owner reference, so Kubernetes garbage-collects it. A child on
another cluster has a label with the owner's uid, and a finalizer holds the owner until no such child is left.
The uid decides, never a name.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.compose import guards
from modelplane.compose.child_marks import mark
from modelplane.compose.composition import Desired
from modelplane.compose.kinds import COMPOSERS
from modelplane.kube.informer import Informer, build_key
from modelplane.kube.resources import Object

FINALIZER = "modelplane.ai/remote-objects"
"""Holds an owner until its objects on other clusters are gone."""

IN_USE = "modelplane.ai/in-use"
"""Holds an object until nothing needs it."""


def stamp(owner: Mapping[str, Any], desired: Desired) -> Object:
    """Return a desired child's manifest with its owner and its key."""
    manifest: Object = mark(owner, desired)
    metadata = manifest["metadata"]
    metadata["annotations"][labels.APPLIED] = hashlib.sha256(
        msgspec.json.encode(desired.manifest, order="sorted")
    ).hexdigest()[:16]
    if not desired.cluster:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
                # Foreground deletion would delete what blocks it at once, although others need the owner.
                "blockOwnerDeletion": not guards.is_guarded(owner["kind"]),
            }
        ]
        row = COMPOSERS.get(manifest["kind"])
        if row is not None and row.on_clusters:
            metadata["finalizers"] = [FINALIZER]
    return manifest


def controller_uid(item: Mapping[str, Any]) -> str:
    """Return the uid of an object's controlling owner; empty if it has none."""
    for reference in item["metadata"].get("ownerReferences", ()):
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def child_key(item: Mapping[str, Any]) -> str:
    """Return the key of a child."""
    return str(item["metadata"].get("annotations", {}).get(labels.CHILD, ""))


def owner_of(item: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return kind, namespace and name of the owner of an object on a cluster; empty if it has none."""
    annotations = item["metadata"].get("annotations", {})
    return (
        str(annotations.get(labels.OWNER_KIND, "")),
        str(annotations.get(labels.OWNER_NAMESPACE, "")),
        str(annotations.get(labels.OWNER_NAME, "")),
    )


def helm_releases(owner: Mapping[str, Any]) -> dict[str, frozenset[tuple[str, str]]]:
    """Return namespace and name of an owner's Helm releases by cluster, as it records before the first run.

    Labels on a cluster are not enough: whoever writes Secrets in any namespace there can forge a release, and
    its uninstallation would delete what it lists, as an administrator.
    """
    found: dict[str, set[tuple[str, str]]] = {}
    recorded = (owner["metadata"].get("annotations") or {}).get(labels.HELM_RELEASES, "")
    for entry in recorded.split(","):
        match entry.split("/"):
            case [cluster, namespace, name]:
                found.setdefault(cluster, set()).add((namespace, name))
    return {cluster: frozenset(releases) for cluster, releases in found.items()}


def recorded_releases(owner: Mapping[str, Any], further: Iterable[tuple[str, str, str]]) -> str:
    """Return the record of an owner's Helm releases with further ones, each cluster, namespace and name."""
    known = {(cluster, *release) for cluster, of in helm_releases(owner).items() for release in of}
    return ",".join("/".join(row) for row in sorted(known.union(further)))


def applied(item: Mapping[str, Any]) -> str:
    """Return the hash of the manifest that an object was applied from; empty if it was not applied."""
    return str(item["metadata"].get("annotations", {}).get(labels.APPLIED, ""))


def is_current(manifest: Mapping[str, Any], observed: Mapping[str, Any]) -> bool:
    """Return True if an object has every field of a manifest and was applied from that manifest.

    The digest detects fields that the manifest no longer has; the comparison detects changes by others.
    """
    return applied(observed) == applied(manifest) and contains(observed, manifest)


def contains(whole: Any, part: Any) -> bool:
    """Return True if an object, or a part of one, has every field of another."""
    if isinstance(part, str):  # nearly every value is one, and asking for an abstract type takes long
        return bool(whole == part)
    if isinstance(part, dict | Mapping):
        if not isinstance(whole, dict | Mapping):
            return False
        for key, value in part.items():
            # The API server drops empty maps and lists of optional fields.
            is_empty = not value and isinstance(value, Mapping | list | tuple)
            if not is_empty and not (key in whole and contains(whole[key], value)):
                return False
        return True
    if isinstance(part, list | tuple):
        return (
            isinstance(whole, list | tuple)
            and len(whole) == len(part)
            and all(contains(w, p) for w, p in zip(whole, part, strict=True))
        )
    return bool(whole == part)


Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name: two groups may have a kind of one name."""


def identity(item: Mapping[str, Any]) -> Identity:
    """Return the identity of an object on its API server."""
    group, metadata = item["apiVersion"].rpartition("/")[0], item["metadata"]
    return group, item["kind"], metadata.get("namespace", ""), metadata["name"]


class ChildIndex:
    """Children on one API server, by owner."""

    def __init__(self, owner_uid: Callable[[Mapping[str, Any]], str]) -> None:
        self._owner_uid = owner_uid
        self._children: dict[str, dict[Identity, Object]] = defaultdict(dict)
        self._owners: dict[Identity, str] = {}
        self._taken: dict[Identity, str] = {}

    def follow(self, informer: Informer) -> None:
        """Index an informer's objects from now on."""

        def changed(item: Object) -> None:
            child = identity(item)
            before = self._owners.pop(child, "")
            if before:
                del self._children[before][child]
                if not self._children[before]:
                    del self._children[before]
            uid = self._owner_uid(item)
            if uid and informer.get(build_key(item).name, build_key(item).namespace) is not None:
                self._owners[child] = uid
                self._children[uid][child] = item
                if before not in ("", uid):
                    self._taken[child] = before
            else:
                self._taken.pop(child, None)

        informer.add_handler(changed)

    def of(self, uid: str) -> tuple[Object, ...]:
        """Return an owner's children."""
        return tuple(self._children.get(uid, {}).values())

    def holder(self, child: Identity) -> str:
        """Return the uid of an object's owner; empty if unknown."""
        return self._owners.get(child, "")

    def get(self, child: Identity) -> Object:
        """Return a child."""
        return self._children[self._owners[child]][child]

    def find_former_owner(self, child: Identity) -> str:
        """Return the uid of the owner that had an object before its present one."""
        return self._taken.get(child, "")

    def keyed(self, uid: str) -> dict[str, Object]:
        """Return an owner's children by their key."""
        return by_key(self.of(uid))


def by_key(children: Iterable[Object]) -> dict[str, Object]:
    """Return children by their key; a child that is being deleted yields to its successor."""
    leaving_first = sorted(children, key=lambda child: "deletionTimestamp" not in child["metadata"])
    return {child_key(child): child for child in leaving_first if child_key(child)}

"""Index of children by the uid of their owner, kept up to date by informers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from modelplane.controllers.children.ownership import child_key
from modelplane.kube.informer import Informer, build_key
from modelplane.kube.resources import Object

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
            before = self._owners.get(child, "")
            self._forget(child)
            uid = self._owner_uid(item)
            if uid and informer.get(build_key(item).name, build_key(item).namespace) is not None:
                self._owners[child] = uid
                self._children[uid][child] = item
                if before not in ("", uid):
                    self._taken[child] = before
            else:
                self._taken.pop(child, None)

        informer.add_handler(changed)

    def _forget(self, child: Identity) -> None:
        uid = self._owners.pop(child, "")
        if uid:
            del self._children[uid][child]
            if not self._children[uid]:
                del self._children[uid]

    def of(self, uid: str) -> tuple[Object, ...]:
        """Return an owner's children."""
        return tuple(self._children.get(uid, {}).values())

    def holder(self, child: Identity) -> str:
        """Return the uid of an object's owner; empty if unknown."""
        return self._owners.get(child, "")

    def get(self, child: Identity) -> Object:
        """Return a child."""
        return self._children[self._owners[child]][child]

    def taken_from(self, child: Identity) -> str:
        """Return the uid of the owner that had an object before its present one."""
        return self._taken.get(child, "")

    def keyed(self, uid: str) -> dict[str, Object]:
        """Return an owner's children by their key."""
        return by_key(self.of(uid))


def by_key(children: Iterable[Object]) -> dict[str, Object]:
    """Return children by their key; a child that is being deleted yields to its successor."""
    leaving_first = sorted(children, key=lambda child: "deletionTimestamp" not in child["metadata"])
    return {child_key(child): child for child in leaving_first if child_key(child)}

"""Adoption: objects on clusters that were written for an owner before it was restored from a backup.

A restored owner has a new uid, and its objects on clusters are labeled with an earlier one, which its
annotation records. They count as its children from the first look on, so they are neither recreated nor left
behind, and the next write of each gives it the new uid.

Users can write annotations. An earlier uid therefore adopts only objects that were written for the same kind,
namespace and name: those of a former owner of that name, which a new one could take over anyway.
"""

import re
from collections.abc import Mapping
from typing import Any

from modelplane.api import labels
from modelplane.controllers.children.ownership import ChildIndex, by_key, identity, owner_of
from modelplane.controllers.clusters.cluster_connection import Connection
from modelplane.kube.resources import Object

MOST = 16
"""Earlier uids that count: one for each restore."""

_UID = re.compile(r"[A-Za-z0-9-]{1,64}")


def former_uids(owner: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the uids that an owner had before it was restored, the last first."""
    recorded = (owner["metadata"].get("annotations") or {}).get(labels.FORMER_UIDS, "")
    found = dict.fromkeys(filter(_UID.fullmatch, recorded.split(",")))
    found.pop(owner["metadata"]["uid"], None)
    return tuple(found)[:MOST]


def children_of(owner: Mapping[str, Any], index: ChildIndex) -> tuple[Object, ...]:
    """Return an owner's children on a cluster, those of its earlier uids first."""
    adopted = (child for uid in former_uids(owner) for child in index.of(uid) if _adopts(owner, child, index))
    return (*adopted, *index.of(owner["metadata"]["uid"]))


def keyed(owner: Mapping[str, Any], index: ChildIndex) -> dict[str, Object]:
    """Return the same by their key."""
    return by_key(children_of(owner, index))


async def look_for(owner: Mapping[str, Any], connection: Connection) -> tuple[Object, ...]:
    """List an owner's children on the cluster itself, not in the copies."""
    own, namespace = owner["metadata"]["uid"], owner["metadata"].get("namespace", "")
    found: list[Object] = []
    for uid in (own, *former_uids(owner)):
        listed = await connection.look_for(uid, namespace)
        labeled = [entry for entry in listed if entry["metadata"]["labels"][labels.OWNER_UID] == uid]
        found += [entry for entry in labeled if uid == own or _adopts(owner, entry, connection.children)]
    return tuple(found)


def _adopts(owner: Mapping[str, Any], child: Mapping[str, Any], index: ChildIndex) -> bool:
    metadata = owner["metadata"]
    if owner_of(child) != (owner["kind"], metadata.get("namespace", ""), metadata["name"]):
        return False
    # Else the former owner lives, on another control plane, and has taken the object back.
    return index.find_former_owner(identity(child)) != str(metadata["uid"])

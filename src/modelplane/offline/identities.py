"""Uids and owners for objects of files that leave them out.

Controllers find an object's owner by uid, never by name, and files that people write have none. Each object
without a uid gets one, a ModelReplica without an owner gets the one that its label names, and an object
without a namespace is in ``default``, as with kubectl. Objects from a server stay unchanged.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from modelplane.api import labels
from modelplane.api.kinds import KINDS, kind_of
from modelplane.api.meta import kind_name
from modelplane.api.model_deployment import ModelDeployment
from modelplane.api.model_endpoint import ModelEndpoint
from modelplane.api.model_replica import ModelReplica
from modelplane.compose.composition import Object

_OWNED = (kind_name(ModelReplica), kind_name(ModelEndpoint))
_OWNER = kind_of(ModelDeployment)
_NAMESPACED = frozenset((kind.api_version, kind.name) for kind in KINDS if kind.namespaced)

Identity = tuple[str, str, str]
"""Kind, namespace and name."""


def identified(objects: Iterable[Object]) -> tuple[Object, ...]:
    """Return the objects, each with a uid, and each replica with an owner if its label names one."""
    objects = tuple(map(_with_namespace, objects))
    known = _claimed(objects)
    with_uids = [_with_uid(item, known) for item in objects]
    uids = {_identity(item): item["metadata"]["uid"] for item in with_uids}
    return tuple(versioned(_with_owner(item, uids)) for item in with_uids)


def versioned(item: Object) -> Object:
    """Return an object with a version derived from its content, unless it has one from a server.

    Results of an object are cached by uid and version (``compose.memo``).
    """
    if item["metadata"].get("resourceVersion"):
        return item
    return _with_metadata(item, {"resourceVersion": hashlib.sha256(msgspec.json.encode(item)).hexdigest()})


def _identity(item: Object) -> Identity:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


def _claimed(objects: Iterable[Object]) -> dict[Identity, str]:
    """Return the uids of owners by the names that their children have for them."""
    known: dict[Identity, str] = {}
    for item in objects:
        namespace = item["metadata"].get("namespace", "")
        if item["kind"] not in _OWNED:
            continue
        for reference in item["metadata"].get("ownerReferences", ()):
            if reference.get("controller"):
                known.setdefault((reference["kind"], namespace, reference["name"]), reference["uid"])
    return known


def _with_namespace(item: Object) -> Object:
    needs = (item["apiVersion"], item["kind"]) in _NAMESPACED and not item["metadata"].get("namespace")
    return _with_metadata(item, {"namespace": "default"}) if needs else item


def _with_uid(item: Object, known: Mapping[Identity, str]) -> Object:
    if item["metadata"].get("uid"):
        return item
    identity = _identity(item)
    return _with_metadata(item, {"uid": known.get(identity, f"file:{'/'.join(identity)}")})


def _with_owner(item: Object, uids: Mapping[Identity, str]) -> Object:
    metadata = item["metadata"]
    if item["kind"] not in _OWNED or metadata.get("ownerReferences"):
        return item
    name = metadata.get("labels", {}).get(labels.DEPLOYMENT, "")
    identity = (_OWNER.name, metadata.get("namespace", ""), name)
    if not name:
        return item
    reference = {
        "apiVersion": _OWNER.api_version,
        "kind": _OWNER.name,
        "name": name,
        "uid": uids.get(identity, f"file:{'/'.join(identity)}"),
        "controller": True,
    }
    return _with_metadata(item, {"ownerReferences": [reference]})


def _with_metadata(item: Object, added: Mapping[str, Any]) -> Object:
    return {**item, "metadata": {**item["metadata"], **added}}

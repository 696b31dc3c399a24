"""The API of one cluster, held in memory.

One rule: an object that was stored is never changed, only replaced, so whoever holds one may read it on.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Any, NamedTuple

from support.crossplane.clock import Clock
from support.crossplane.fields import Item, Path, fields_v1, leaves, merged, without
from support.crossplane.objects import NAMESPACE, Key, Kind, Object, is_deleted, key_of
from support.crossplane.schemas import COMPOSITES, admitted, refusals, schema_of
from support.plain_objects import copied

FOREGROUND = "foregroundDeletion"
CONTENT = "kubernetes"
"""Holds a namespace while there is something in it; the server itself keeps it beside the finalizers."""
_WITHOUT_GENERATION = {
    "Secret",
    "ConfigMap",
    "Service",
    "Pod",
    "Namespace",
    "EndpointSlice",
    "ServiceAccount",
}
_AT_ONCE = 6
"""How many reconciles a server serves without being slower for it."""

_SLOWEST = 10.0
"""How many times as long a request takes at most."""

_NOT_OWNED = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}
_OF_THE_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)


class ApiError(Exception):
    """The server refuses, for a reason that Kubernetes has a word for."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Change(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Manager(NamedTuple):
    """Somebody who writes fields, and how."""

    name: str
    operation: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as the server holds it."""

    object: Object
    managers: Mapping[Manager, frozenset[Path]] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The object's resourceVersion."""
        return str(self.object["metadata"]["resourceVersion"])

    def served(self) -> Object:
        """Return the object as a client gets it."""
        entries = [
            {
                "manager": manager.name,
                "operation": manager.operation,
                "apiVersion": self.object["apiVersion"],
                "fieldsType": "FieldsV1",
                "fieldsV1": fields_v1(paths),
            }
            | ({"subresource": manager.subresource} if manager.subresource else {})
            for manager, paths in self.managers.items()
        ]
        return {**self.object, "metadata": {**self.object["metadata"], "managedFields": entries}}


@dataclass(frozen=True, slots=True)
class Event:
    """What a watch reports of one object."""

    change: Change
    new: Stored
    old: Stored | None = None

    @property
    def key(self) -> Key:
        """The object's key."""
        return key_of(self.new.object)


Admission = Callable[[Object, str], None]
"""Asked before an object is deleted, with the propagation policy; raises ``ApiError`` to refuse."""


class ApiServer:
    """Objects, who owns their fields, and what happens to them."""

    def __init__(self, clock: Clock, name: str = "control-plane") -> None:
        self.name = name
        self.clock = clock
        self.request_s = 0.0
        """How long a request to write takes while there is little to do."""
        self.load: Callable[[], int] = lambda: 0
        """How many reconciles are under way."""
        self.requests = 0
        """How many requests to write there were, whatever came of them."""
        self.admission: Admission | None = None
        self.policy: Callable[..., None] | None = None
        """Asked likewise, with ``collection``: whether it is deleted with all of its kind."""
        self.on_event: Callable[[Event], None] = lambda _event: None
        self._objects: dict[Key, Stored] = {}
        self._known: dict[Key, dict[str, tuple[Any, dict[Path, Any]]]] = {}
        self._alive: set[str] = set()
        self._versions = count(1)
        self._uids = count(1)

    # Reading

    def stored(self, key: Key) -> Stored | None:
        """Return an object with all that the server knows of it; nothing where there is none."""
        return self._objects.get(key)

    def get(self, key: Key) -> Object | None:
        """Return an object to work on; nothing where there is none."""
        found = self._objects.get(key)
        return _copy(found.object) if found else None

    def all(self) -> Iterator[Object]:
        """Yield every object, to read only."""
        yield from [stored.object for stored in self._objects.values()]

    def has(self, uid: str) -> bool:
        """Whether an object with this uid is there."""
        return uid in self._alive

    def of(self, kind: Kind) -> list[Object]:
        """Return the objects of a kind, to read only."""
        return [stored.object for key, stored in sorted(self._objects.items()) if key.of == kind]

    # Writing

    def create(self, item: Object, manager: str) -> Object:
        """Store a new object."""
        self._spend()
        key = key_of(item)
        if key in self._objects:
            raise ApiError("AlreadyExists", f"{key} already exists")
        owned = frozenset(self._present(key, item))
        return self._write(key, None, item, {Manager(manager, "Update"): owned})

    def update(self, item: Object, manager: str) -> Object:
        """Replace an object, all but its status."""
        return self._replace(item, manager, "")

    def update_status(self, item: Object, manager: str) -> Object:
        """Replace the status of an object, and nothing else."""
        return self._replace(item, manager, "status")

    def apply(self, item: Object, manager: str, subresource: str = "") -> Object:
        """Apply fields by server-side apply, by force."""
        self._spend()
        key = key_of(item)
        before = self._objects.get(key)
        if before is None and subresource:
            raise ApiError("NotFound", f"{key} not found")
        uid = item["metadata"].get("uid")
        if before is not None and uid not in (None, before.object["metadata"]["uid"]):
            raise ApiError("Conflict", f"{key}: uid mismatch")
        intent = self._intent(item, subresource)
        live = before.object if before else _bare(item)
        schema = schema_of(key.group, key.kind)
        me = Manager(manager, "Apply", subresource)
        applied = dict(_owned_leaves(key, intent))
        managers = dict(before.managers) if before else {}
        present = self._present(key, live)
        if applied.keys() == managers.get(me) and all(
            path in present and present[path] == value for path, value in applied.items()
        ):
            return _copy(live)
        wanted = merged(live, intent, schema)
        for path in managers.get(me, frozenset()) - applied.keys():
            shared = any(path in paths for other, paths in managers.items() if other != me)
            if not shared and not _covered(path, applied):
                wanted = without(wanted, path, schema)
        taken = {path for path, value in applied.items() if path in present and present[path] != value}
        managers = {other: paths if other == me else paths - taken for other, paths in managers.items()}
        managers[me] = frozenset(applied)
        return self._write(key, before, wanted, managers)

    def delete_all(self, kind: Kind, namespace: str) -> None:
        """Delete the objects of a kind in a namespace at once; the first that is refused ends it."""
        for key in sorted(self._objects):
            if key.of == kind and key.namespace == namespace and key in self._objects:
                self.delete(key, collection=True)

    def delete(
        self, key: Key, propagation: str = "Background", uid: str = "", *, collection: bool = False
    ) -> None:
        """Delete an object, or mark it where finalizers hold it."""
        self._spend()
        before = self._objects.get(key)
        if before is None:
            raise ApiError("NotFound", f"{key} not found")
        if uid not in ("", before.object["metadata"]["uid"]):
            raise ApiError("Conflict", f"{key}: uid mismatch")
        if self.policy is not None:
            self.policy(before.object, collection=collection)
        if self.admission is not None:
            self.admission(before.object, propagation)
            before = self._objects[key]
        metadata = before.object["metadata"]
        finalizers = list(metadata.get("finalizers", ()))
        if propagation == "Foreground" and FOREGROUND not in finalizers:
            finalizers.append(FOREGROUND)
        if key.of == NAMESPACE and CONTENT not in finalizers:
            finalizers.append(CONTENT)
        if not finalizers:
            self._remove(before)
        elif not is_deleted(before.object) or finalizers != metadata["finalizers"]:
            marked = {
                "deletionTimestamp": metadata.get("deletionTimestamp", str(self.clock)),
                "deletionGracePeriodSeconds": 0,
                "finalizers": finalizers,
            }
            after = {**before.object, "metadata": {**metadata, **marked}}
            self._store(before, replace(before, object=after), changed_spec=not is_deleted(before.object))

    # How it is done

    def _spend(self) -> None:
        """Let pass what a request takes: ten times as long while thirty replicas start."""
        self.requests += 1
        crowd = self.load() / _AT_ONCE
        self.clock.spend(self.request_s * min(max(1.0, crowd), _SLOWEST))

    def _replace(self, item: Object, manager: str, subresource: str) -> Object:
        self._spend()
        key = key_of(item)
        before = self._objects.get(key)
        if before is None:
            raise ApiError("NotFound", f"{key} not found")
        metadata = item["metadata"]
        if metadata.get("resourceVersion", before.version) != before.version:
            raise ApiError("Conflict", f"{key}: the object has been modified")
        if metadata.get("uid", before.object["metadata"]["uid"]) != before.object["metadata"]["uid"]:
            raise ApiError("Conflict", f"{key}: uid mismatch")
        if subresource:
            wanted = {**before.object, "status": copied(item.get("status", {}))}
        else:
            wanted = {**copied(item), "metadata": _client_metadata(metadata, before.object)}
            wanted.pop("status", None)
            if "status" in before.object:
                wanted["status"] = before.object["status"]
        wanted = _with_parts_of(before.object, wanted)
        old, new = self._present(key, before.object), self._present(key, wanted)
        changed = {path for path, value in new.items() if path not in old or old[path] != value}
        gone = changed | (old.keys() - new.keys())
        me = Manager(manager, "Update", subresource)
        managers = {other: paths if other == me else paths - gone for other, paths in before.managers.items()}
        mine = (managers.get(me, frozenset()) - gone) | changed
        managers.pop(me, None)
        return self._write(key, before, wanted, {**managers, **({me: mine} if mine else {})})

    def _write(
        self, key: Key, before: Stored | None, wanted: Object, managers: Mapping[Manager, frozenset[Path]]
    ) -> Object:
        wanted = self._admitted(key, before.object if before else {}, wanted)
        present = self._present(key, wanted).keys()
        owned = {manager: paths & present for manager, paths in managers.items()}
        owned = {manager: paths for manager, paths in owned.items() if paths}
        if before is None:
            self._open(key)
            fresh = {
                "uid": f"{self.name}-{next(self._uids):04d}",
                "creationTimestamp": str(self.clock),
                "generation": 1,
            }
            if key.kind in _WITHOUT_GENERATION:
                del fresh["generation"]
            after = {**wanted, "metadata": {**wanted["metadata"], **fresh}}
            return self._store(None, Stored(after, owned))
        for finalizer in wanted["metadata"].get("finalizers", ()):
            known = before.object["metadata"].get("finalizers", ())
            if is_deleted(before.object) and finalizer not in known:
                raise ApiError(
                    "Invalid", f"{key}: no new finalizers can be added if the object is being deleted"
                )
        if [owner for owner in wanted["metadata"].get("ownerReferences", ()) if owner.get("controller")][1:]:
            raise ApiError("Invalid", f"{key}: only one reference can have controller set to true")
        changed = {name for name, part in wanted.items() if part is not before.object.get(name)}
        changed |= before.object.keys() - wanted.keys()
        if not changed and owned == dict(before.managers):
            return _copy(before.object)
        if is_deleted(before.object) and not wanted["metadata"].get("finalizers"):
            return self._remove(replace(before, object=wanted))
        return self._store(before, Stored(wanted, owned), bool(changed - {"metadata", "status"}))

    def _open(self, key: Key) -> None:
        """Refuse to make something in a namespace that is being deleted."""
        namespace = self._objects.get(Key(*NAMESPACE, "", key.namespace))
        if namespace is not None and is_deleted(namespace.object):
            why = f"unable to create new content in namespace {key.namespace} because it is being terminated"
            raise ApiError("Forbidden", f'{key.kind} "{key.name}" is forbidden: {why}')

    def _store(self, before: Stored | None, after: Stored, changed_spec: bool = False) -> Object:
        metadata = dict(after.object["metadata"])
        if changed_spec and "generation" in metadata:
            metadata["generation"] += 1
        metadata["resourceVersion"] = str(next(self._versions))
        stored = replace(after, object={**after.object, "metadata": metadata})
        self._objects[key_of(stored.object)] = stored
        self._alive.add(metadata["uid"])
        self.on_event(Event(Change.MODIFIED if before else Change.ADDED, stored, before))
        return _copy(stored.object)

    def _remove(self, last: Stored) -> Object:
        metadata = {**last.object["metadata"], "resourceVersion": str(next(self._versions))}
        gone = replace(last, object={**last.object, "metadata": metadata})
        del self._objects[key_of(gone.object)]
        self._alive.discard(metadata["uid"])
        self.on_event(Event(Change.DELETED, gone))
        return _copy(gone.object)

    def _intent(self, item: Object, subresource: str) -> Object:
        fields = {name: value for name, value in item.items() if (name == "status") == bool(subresource)}
        fields["apiVersion"], fields["kind"] = item["apiVersion"], item["kind"]
        metadata = {} if subresource else _own_metadata(item["metadata"])
        named = {name: item["metadata"][name] for name in ("name", "namespace") if name in item["metadata"]}
        return {**fields, "metadata": {**metadata, **named}}

    def _admitted(self, key: Key, before: Object, wanted: Object) -> Object:
        """Return an object as it is stored; a part that did not change is the very same."""
        wanted = _with_parts_of(before, wanted)
        changed = {name: part for name, part in wanted.items() if part is not before.get(name)}
        same = {name: part for name, part in wanted.items() if name not in changed}
        after = _with_parts_of(before, same | admitted(changed, key.group, key.kind))
        # The status of other projects' kinds is written here in a shorter form than their own controllers do.
        checked = after if key.of in COMPOSITES else _meant(after)
        if changed.keys() - {"metadata"} and (problems := refusals(checked, key.group, key.kind)):
            raise ApiError("Invalid", f'{key.kind} "{key.name}" is invalid: {"; ".join(problems)}')
        return after

    def _present(self, key: Key, item: Object) -> dict[Path, Any]:
        """Return the leaves of an object; those of a part that is known are not worked out again."""
        found: dict[Path, Any] = {}
        known = self._known.setdefault(key, {})
        for name, part in item.items():
            if name not in known or known[name][0] is not part:
                known[name] = (part, dict(_owned_leaves(key, {name: part})))
            found |= known[name][1]
        return found


def _owned_leaves(key: Key, item: Object) -> Iterator[tuple[Path, Any]]:
    """Yield those leaves of an object, or of parts of one, that somebody can own."""
    if "metadata" in item:
        item = {**item, "metadata": _own_metadata(item["metadata"])}
    for path, value in leaves(item, schema_of(key.group, key.kind)):
        if path not in _NOT_OWNED:
            yield path, value


def _with_parts_of(before: Object, wanted: Object) -> Object:
    """Return an object in which a part that is equal to one before is that very part."""
    return {
        name: before[name] if name in before and part == before[name] else part
        for name, part in wanted.items()
    }


def _copy(item: Object) -> Object:
    made: Object = copied(item)
    return made


def _own_metadata(metadata: Mapping[str, Any]) -> Object:
    return {name: value for name, value in metadata.items() if name not in _OF_THE_SERVER}


def _client_metadata(metadata: Mapping[str, Any], before: Object) -> Object:
    kept = {name: value for name, value in before["metadata"].items() if name in _OF_THE_SERVER}
    return {**copied(_own_metadata(metadata)), **kept}


def _bare(item: Object) -> Object:
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": {}}


def _meant(item: Object) -> Object:
    """Return what a change of makes a new generation: all but metadata and status."""
    return {name: value for name, value in item.items() if name != "status"} | {"metadata": {}}


def _covered(path: Path, applied: Mapping[Path, Any]) -> bool:
    """Whether what was a leaf is now a branch of something applied, or the other way round."""
    return any(
        other[: len(path)] == path or (path[: len(other)] == other and not isinstance(other[-1], Item))
        for other in applied
    )

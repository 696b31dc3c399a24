"""Between protobuf's ``Struct`` and plain objects.

A ``Struct`` knows only floating-point numbers (``google/protobuf/struct.proto``), so a
whole number comes back as an ``int``: that is what a Kubernetes object had.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct, Value

from modelplane.api.decode import InvalidObject
from modelplane.api.meta import GROUP
from modelplane.compose.composition import Object
from modelplane.compose.memo import PerVersion
from modelplane.crossplane.function.messages import ShallowList, ShallowStruct, ShallowValue

_MOST = 20_000
"""Objects remembered: the clusters and replicas of a large fleet. They are Modelplane's own: those of other
kinds may be large, and an ``Object`` changes with every look at its cluster."""


_DEEPEST = 100
"""How deep an object may be nested. Python's library for protobuf reads 33 levels and Go's, which writes a
request, has no bound: real CustomResourceDefinitions have 33 levels by themselves."""

_DEFINITION = "CustomResourceDefinition"


def to_object(struct: Struct) -> dict[str, Any]:
    """Return a ``Struct`` as a plain object."""
    return {name: _plain(value) for name, value in struct.fields.items()}


def _plain(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "struct_value":
            return to_object(value.struct_value)
        case "list_value":
            return [_plain(each) for each in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "bool_value":
            return value.bool_value
        case _:
            return None


def kind_in(encoded: bytes) -> str:
    """Return the kind that an object says it is of; empty where that cannot be read."""
    with suppress(_Unreadable):
        fields = _fields(encoded)
        return str(_value(fields["kind"], 0)) if "kind" in fields else ""
    return ""


def metadata_of(encoded: bytes) -> Object:
    """Return of an object, given as an encoded ``Struct``, what it is and its metadata.

    Raises ``InvalidObject``.
    """
    return _part(encoded, _described)


def look_of(encoded: bytes) -> Object:
    """Return an ``Object`` of the provider, and of what it found only what somebody asks for.

    The provider reports whole CustomResourceDefinitions, which are large and deep; only whether
    one is there matters. Raises ``InvalidObject``.
    """
    return _part(encoded, lambda fields: _looked(fields, ("status", "atProvider", "manifest")))


def without_status(encoded: bytes) -> Object:
    """Return an object without its status, whatever that is. Raises ``InvalidObject``."""
    return _part(
        encoded, lambda fields: {name: _value(fields[name], 0) for name in fields if name != "status"}
    )


def _part(encoded: bytes, read: Callable[[Mapping[str, bytes]], Object]) -> Object:
    try:
        return read(_fields(encoded))
    except _Unreadable as error:
        raise _invalid(encoded, error) from error


class _Unreadable(Exception):
    """Why bytes are no value."""


def _fields(encoded: bytes) -> Mapping[str, bytes]:
    """Return the fields of a ``Struct``, each as the ``Value`` that it is encoded in."""
    try:
        fields: Mapping[str, bytes] = ShallowStruct.FromString(encoded).fields
    except DecodeError as error:
        raise _Unreadable("it is no Struct") from error
    return fields


def _value(encoded: bytes, level: int) -> Any:
    """Return an encoded ``Value``, also one that is nested more deeply than the library reads."""
    try:
        return _plain(Value.FromString(encoded))
    except DecodeError as error:
        if level == _DEEPEST:
            raise _Unreadable(f"it is nested more than {_DEEPEST} levels deep") from error
        fields, items = _inner(encoded)
        if fields is not None:
            return {name: _value(fields[name], level + 1) for name in fields}
        if items is None:
            raise _Unreadable("a part of it is no Value") from error
        return [_value(item, level + 1) for item in items]


def _inner(encoded: bytes) -> tuple[Mapping[str, bytes] | None, Sequence[bytes] | None]:
    """Return the fields or the items of an encoded ``Value``, neither where it has no parts."""
    try:
        value = ShallowValue.FromString(encoded)
        kind = value.WhichOneof("kind")
        if kind == "list_value":
            return None, ShallowList.FromString(value.list_value).values
    except DecodeError as error:
        raise _Unreadable("a part of it is no Value") from error
    return (_fields(value.struct_value) if kind else None), None


def _described(fields: Mapping[str, bytes]) -> Object:
    """Return what an object is, and its metadata without who manages which field."""
    item = {name: _value(fields[name], 0) for name in ("apiVersion", "kind") if name in fields}
    if "metadata" in fields:
        metadata, _ = _inner(fields["metadata"])
        item["metadata"] = (
            _value(fields["metadata"], 0)
            if metadata is None
            else {name: _value(metadata[name], 0) for name in metadata if name != "managedFields"}
        )
    return item


def _looked(fields: Mapping[str, bytes], path: tuple[str, ...]) -> Object:
    if not path:
        kind = _value(fields["kind"], 0) if "kind" in fields else None
        if kind == _DEFINITION:
            return _described(fields)
        return {name: _value(fields[name], 0) for name in fields}
    item: dict[str, Any] = {}
    for name in fields:
        inner = _inner(fields[name])[0] if name == path[0] else None
        item[name] = _value(fields[name], 0) if inner is None else _looked(inner, path[1:])
    return item


class Decoder:
    """Turns encoded Structs into objects, each version of an object once.

    An object's uid and resource version name its content, and a fleet changes far less often than it is
    asked about. What is returned must not be changed by anyone.
    """

    def __init__(self, *, managed_fields: bool) -> None:
        """Leave ``managed_fields`` out where nobody reads them."""
        self._managed_fields = managed_fields
        self._known: PerVersion[Object] = PerVersion(_MOST)
        self._fresh = 0
        self._turn = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def decoded(self) -> int:
        """Return how many objects had to be decoded since this was asked last."""
        with self._turn:
            fresh, self._fresh = self._fresh, 0
        return fresh

    def __call__(self, encoded: bytes) -> Object:
        """Return an object, the very same for the same version of it; ``InvalidObject`` for none."""
        uid, version = _version(encoded)
        item = self._known.recall(uid, version)
        if item is None:
            item = self._decode(encoded)
            self._known.keep(uid, version, item)
        return item

    def _decode(self, encoded: bytes) -> Object:
        try:
            item = to_object(Struct.FromString(encoded))
        except DecodeError:
            item = dict(_part(encoded, lambda fields: {name: _value(fields[name], 0) for name in fields}))
        if not self._managed_fields and isinstance(item.get("metadata"), dict):
            item["metadata"].pop("managedFields", None)
        with self._turn:
            self._fresh += 1
        return item


def _version(encoded: bytes) -> tuple[str, str]:
    """Return the uid and resource version of an object to be remembered, empty for any other."""
    try:
        fields = ShallowStruct.FromString(encoded).fields
        if "metadata" not in fields or "apiVersion" not in fields:
            return "", ""
        if GROUP not in Value.FromString(fields["apiVersion"]).string_value:
            return "", ""
        metadata = Value.FromString(fields["metadata"]).struct_value.fields
    except DecodeError:
        return "", ""  # who decodes it says why it cannot
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return uid.string_value if uid else "", version.string_value if version else ""


def _invalid(encoded: bytes, why: _Unreadable) -> InvalidObject:
    """Return that an object cannot be read, with its kind and name as far as these can."""
    kind, name = "object", ""
    with suppress(_Unreadable):
        item = _described(_fields(encoded))
        kind = str(item.get("kind") or kind)
        if isinstance(metadata := item.get("metadata"), Mapping):
            name = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    return InvalidObject(kind, name, "", str(why))

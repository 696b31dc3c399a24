"""Between protobuf's ``Struct`` and plain objects.

A ``Struct`` knows only floating-point numbers (``google/protobuf/struct.proto``), so a
whole number comes back as an ``int``: that is what a Kubernetes object had.
"""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import Struct, Value

from modelplane.api.decode import InvalidObject
from modelplane.api.meta import GROUP
from modelplane.compose.composition import Object
from modelplane.compose.memo import PerVersion
from modelplane.function.messages import ShallowStruct

_MOST = 20_000
"""Objects remembered: the clusters and replicas of a large fleet. They are Modelplane's own: those of other
kinds may be large, and an ``Object`` changes with every look at its cluster."""


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


def to_struct(item: Mapping[str, Any]) -> Struct:
    """Return a plain object as a ``Struct``."""
    struct = Struct()
    struct.update(item)
    return struct


def metadata_of(encoded: bytes) -> Object:
    """Return of an object, given as an encoded ``Struct``, what it is and its metadata.

    Raises ``InvalidObject``.
    """
    try:
        fields = ShallowStruct.FromString(encoded).fields
        return {
            name: _plain(Value.FromString(fields[name]))
            for name in ("apiVersion", "kind", "metadata")
            if name in fields
        }
    except DecodeError as error:
        raise _unreadable() from error


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
        except DecodeError as error:
            raise _unreadable() from error
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
    except DecodeError as error:
        raise _unreadable() from error
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return uid.string_value if uid else "", version.string_value if version else ""


def _unreadable() -> InvalidObject:
    return InvalidObject("object", "", "", "it is no Struct, or one that is nested too deeply")

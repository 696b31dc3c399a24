"""The request message, decoded only as deep as needed, and protobuf's ``Struct`` as plain objects.

A ``Struct`` knows only floating-point numbers (``google/protobuf/struct.proto``), so a whole number becomes
an ``int``, as in the Kubernetes object.

The objects in a request stay bytes until they are used: the request for a deployment holds every cluster of
the fleet, nearly all of them known from the previous request. Apart from that, the messages are the SDK's.
The wire format allows it: an embedded message can be read as its encoded bytes (Protocol Buffers language
guide, "Updating a message type").
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct, Value

from modelplane.api.meta import GROUP, Object
from modelplane.api.schema.decode import InvalidObject
from modelplane.compose.memo import PerVersion

_PACKAGE = "modelplane.function"


def _request() -> tuple[FileDescriptorProto, str]:
    """Return the SDK's file descriptor with objects as bytes, and the name of the request message."""
    file = FileDescriptorProto()
    fnv1.DESCRIPTOR.CopyToProto(file)
    before, file.name, file.package = f".{file.package}.", "modelplane/request.proto", _PACKAGE
    del file.service[:]
    for message in file.message_type:
        _rename(message, before, f".{_PACKAGE}.")
    resource = next(message for message in file.message_type if message.name == "Resource")
    field = next(field for field in resource.field if field.name == "resource")
    field.type = FieldDescriptorProto.TYPE_BYTES
    field.ClearField("type_name")
    return file, f"{_PACKAGE}.{fnv1.RunFunctionRequest.DESCRIPTOR.name}"


def _rename(message: DescriptorProto, before: str, after: str) -> None:
    for field in message.field:
        if field.type_name:
            field.type_name = field.type_name.replace(before, after)
    for nested in message.nested_type:
        _rename(nested, before, after)


def _shallow() -> FileDescriptorProto:
    """Return a file descriptor with ``Struct``, ``Value`` and ``ListValue``, whose parts are bytes."""
    file = FileDescriptorProto(name="modelplane/struct.proto", package=_PACKAGE, syntax="proto3")
    one, many = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    text, part = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
    struct = file.message_type.add(name="ShallowStruct")
    entry = struct.nested_type.add(name="FieldsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=text, label=one)
    entry.field.add(name="value", number=2, type=part, label=one)
    struct.field.add(
        name="fields",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        label=many,
        type_name=f".{_PACKAGE}.ShallowStruct.FieldsEntry",
    )
    value = file.message_type.add(name="ShallowValue")
    value.oneof_decl.add(name="kind")
    for name, number in (("struct_value", 5), ("list_value", 6)):
        value.field.add(name=name, number=number, type=part, label=one, oneof_index=0)
    file.message_type.add(name="ShallowList").field.add(name="values", number=1, type=part, label=many)
    return file


def _classes() -> tuple[Any, ...]:
    pool = DescriptorPool()
    for dependency in fnv1.DESCRIPTOR.dependencies:
        pool.AddSerializedFile(dependency.serialized_pb)
    request, name = _request()
    shallow = _shallow()
    for file in (request, shallow):
        pool.Add(file)
    names = (name, *(f"{_PACKAGE}.{message.name}" for message in shallow.message_type))
    return tuple(GetMessageClass(pool.FindMessageTypeByName(text)) for text in names)


RunFunctionRequest, ShallowStruct, ShallowValue, ShallowList = _classes()

_MOST = 20_000
"""Number of cached objects: the clusters and replicas of a large fleet. Only Modelplane's own are cached:
those of other kinds can be large, and an ``Object`` changes on every observation of its cluster.
"""

_DEEPEST = 100
"""Maximum nesting of an object. Python's protobuf library reads 33 levels; Go's, which writes the requests,
has no limit, and real CustomResourceDefinitions have 33 levels by themselves.
"""

_DEFINITION = "CustomResourceDefinition"


def to_object(struct: Struct) -> dict[str, Any]:
    """Return a ``Struct`` as a plain object."""
    fields = struct.fields  # its items() takes half as long again as names and look-ups
    return {name: _plain(fields[name]) for name in fields}


def _plain(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "struct_value":
            return to_object(value.struct_value)
        case "list_value":
            return [_plain(element) for element in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "bool_value":
            return value.bool_value
        case _:
            return None


def kind_in(encoded: bytes) -> str:
    """Return the kind of an encoded object; empty if it cannot be read."""
    with suppress(_Unreadable):
        fields = _fields(encoded)
        return str(_value(fields["kind"], 0)) if "kind" in fields else ""
    return ""


def metadata_of(encoded: bytes) -> Object:
    """Return kind, version and metadata of an object that is encoded as a ``Struct``.

    Raises ``InvalidObject``.
    """
    return _part(encoded, _described)


def look_of(encoded: bytes) -> Object:
    """Return an ``Object`` of the provider, with only the needed part of the object that it found.

    The provider reports whole CustomResourceDefinitions, which are large and deep; only their existence
    matters. Raises ``InvalidObject``.
    """
    return _part(encoded, lambda fields: _looked(fields, ("status", "atProvider", "manifest")))


def without_status(encoded: bytes) -> Object:
    """Return an object without its status, readable or not. Raises ``InvalidObject``."""
    return _part(
        encoded, lambda fields: {name: _value(fields[name], 0) for name in fields if name != "status"}
    )


def _part(encoded: bytes, read: Callable[[Mapping[str, bytes]], Object]) -> Object:
    try:
        return read(_fields(encoded))
    except _Unreadable as error:
        raise _invalid(encoded, error) from error


class _Unreadable(Exception):
    """The bytes cannot be decoded; the message has the cause."""


def _fields(encoded: bytes) -> Mapping[str, bytes]:
    """Return the fields of a ``Struct``, each as an encoded ``Value``."""
    try:
        fields: Mapping[str, bytes] = ShallowStruct.FromString(encoded).fields
    except DecodeError as error:
        raise _Unreadable("it is not a Struct") from error
    return fields


def _value(encoded: bytes, level: int) -> Any:
    """Return an encoded ``Value`` decoded, even if it is nested more deeply than the library reads."""
    try:
        return _plain(Value.FromString(encoded))
    except DecodeError as error:
        if level == _DEEPEST:
            raise _Unreadable(f"it is nested more than {_DEEPEST} levels deep") from error
        fields, items = _inner(encoded)
        if fields is not None:
            return {name: _value(fields[name], level + 1) for name in fields}
        if items is None:
            raise _Unreadable("a part of it is not a Value") from error
        return [_value(item, level + 1) for item in items]


def _inner(encoded: bytes) -> tuple[Mapping[str, bytes] | None, Sequence[bytes] | None]:
    """Return the fields or the items of an encoded ``Value``; neither if it is a scalar."""
    try:
        value = ShallowValue.FromString(encoded)
        kind = value.WhichOneof("kind")
        if kind == "list_value":
            return None, ShallowList.FromString(value.list_value).values
    except DecodeError as error:
        raise _Unreadable("a part of it is not a Value") from error
    return (_fields(value.struct_value) if kind else None), None


def _described(fields: Mapping[str, bytes]) -> Object:
    """Return kind, version and metadata of an object, without managedFields."""
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
    """Decodes Structs into objects, each version of an object once.

    An object's uid and resource version identify its content, and a fleet changes far less often than it is
    requested. Callers must not change the returned object.
    """

    def __init__(self, *, managed_fields: bool) -> None:
        """Drop ``managedFields`` unless ``managed_fields`` is set."""
        self._managed_fields = managed_fields
        self._known: PerVersion[Object] = PerVersion(_MOST)
        self._fresh = 0
        self._turn = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def decoded(self) -> int:
        """Return the number of objects decoded since the last call."""
        with self._turn:
            fresh, self._fresh = self._fresh, 0
        return fresh

    def __call__(self, encoded: bytes) -> Object:
        """Return an object, the same one for the same version. Raises ``InvalidObject``."""
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
    """Return the uid and resource version of an object to cache; empty for any other."""
    try:
        fields = ShallowStruct.FromString(encoded).fields
        if "metadata" not in fields or "apiVersion" not in fields:
            return "", ""
        if GROUP not in Value.FromString(fields["apiVersion"]).string_value:
            return "", ""
        metadata = Value.FromString(fields["metadata"]).struct_value.fields
    except DecodeError:
        return "", ""  # decoding it reports the error
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    return uid.string_value if uid else "", version.string_value if version else ""


def _invalid(encoded: bytes, why: _Unreadable) -> InvalidObject:
    """Return the error for an unreadable object, with its kind and name if they can be read."""
    kind, name = "object", ""
    with suppress(_Unreadable):
        item = _described(_fields(encoded))
        kind = str(item.get("kind") or kind)
        if isinstance(metadata := item.get("metadata"), Mapping):
            name = "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))
    return InvalidObject(kind, name, "", str(why))

"""The request message, decoded only as deep as needed.

The objects in a request stay bytes until they are used: the request for a deployment holds every cluster of
the fleet, nearly all of them known from the previous request. Apart from that, the messages are the SDK's.
The wire format allows it: an embedded message can be read as its encoded bytes (Protocol Buffers language
guide, "Updating a message type").
"""

from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

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
    items = file.message_type.add(name="ShallowList")
    items.field.add(name="values", number=1, type=part, label=many)
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

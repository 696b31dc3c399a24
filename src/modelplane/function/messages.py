"""The request of the protocol, read only as deep as is needed.

The objects in a request stay bytes until somebody wants one of them: a deployment's
request holds every cluster of the fleet, nearly all of them known from the last one.
The messages here are the SDK's own but for that, which the wire format allows: an embedded
message may be read as the bytes that it is encoded in (Protocol Buffers language guide,
"Updating a message type").
"""

from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "modelplane.function"


def _request() -> tuple[FileDescriptorProto, str]:
    """Return the SDK's file with its objects as bytes, and the name of the request in it."""
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


def _shallow_struct() -> tuple[FileDescriptorProto, str]:
    """Return a file with a ``Struct`` whose values are bytes, and the name of that."""
    file = FileDescriptorProto(name="modelplane/struct.proto", package=_PACKAGE, syntax="proto3")
    struct = file.message_type.add(name="ShallowStruct")
    entry = struct.nested_type.add(name="FieldsEntry")
    entry.options.map_entry = True
    optional, repeated = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    entry.field.add(name="key", number=1, type=FieldDescriptorProto.TYPE_STRING, label=optional)
    entry.field.add(name="value", number=2, type=FieldDescriptorProto.TYPE_BYTES, label=optional)
    struct.field.add(
        name="fields",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        label=repeated,
        type_name=f".{_PACKAGE}.ShallowStruct.FieldsEntry",
    )
    return file, f"{_PACKAGE}.ShallowStruct"


def _classes() -> tuple[Any, Any]:
    pool = DescriptorPool()
    for dependency in fnv1.DESCRIPTOR.dependencies:
        pool.AddSerializedFile(dependency.serialized_pb)
    made = []
    for file, name in (_request(), _shallow_struct()):
        pool.Add(file)
        made.append(GetMessageClass(pool.FindMessageTypeByName(name)))
    return made[0], made[1]


RunFunctionRequest, ShallowStruct = _classes()

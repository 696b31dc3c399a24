"""Messages of Envoy's external processing protocol, as far as an endpoint picker needs them.

Field numbers are those of ``envoy/service/ext_proc/v3/external_processor.proto`` and of the messages that it
imports. Fields that are not listed are skipped while reading, as Protocol Buffers prescribe.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import DESCRIPTOR as STRUCT

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
METHOD: Final = "Process"

_PACKAGE = "modelplane.ext_proc"
_STRUCT = ".google.protobuf.Struct"


class _Field(NamedTuple):
    """A field of a message; ``type`` is a scalar type of Protocol Buffers, or the name of a message."""

    number: int
    type: str
    repeated: bool = False
    in_oneof: bool = False


_MESSAGES: Final[Mapping[str, Mapping[str, _Field]]] = {
    "HeaderValue": {
        "key": _Field(1, "string"),
        "value": _Field(2, "string"),
        "raw_value": _Field(3, "bytes"),
    },
    "HeaderMap": {"headers": _Field(1, "HeaderValue", repeated=True)},
    "HttpHeaders": {"headers": _Field(1, "HeaderMap"), "end_of_stream": _Field(3, "bool")},
    "HttpBody": {"body": _Field(1, "bytes"), "end_of_stream": _Field(2, "bool")},
    "HttpTrailers": {"trailers": _Field(1, "HeaderMap")},
    "ProcessingRequest": {
        "request_headers": _Field(2, "HttpHeaders", in_oneof=True),
        "request_body": _Field(4, "HttpBody", in_oneof=True),
        "request_trailers": _Field(6, "HttpTrailers", in_oneof=True),
    },
    "HeaderValueOption": {"header": _Field(1, "HeaderValue"), "append_action": _Field(3, "int32")},
    "HeaderMutation": {
        "set_headers": _Field(1, "HeaderValueOption", repeated=True),
        "remove_headers": _Field(2, "string", repeated=True),
    },
    "StreamedBodyResponse": {"body": _Field(1, "bytes"), "end_of_stream": _Field(2, "bool")},
    "BodyMutation": {"streamed_response": _Field(3, "StreamedBodyResponse")},
    "CommonResponse": {
        "header_mutation": _Field(2, "HeaderMutation"),
        "body_mutation": _Field(3, "BodyMutation"),
    },
    "HeadersResponse": {"response": _Field(1, "CommonResponse")},
    "BodyResponse": {"response": _Field(1, "CommonResponse")},
    "TrailersResponse": {"header_mutation": _Field(1, "HeaderMutation")},
    "HttpStatus": {"code": _Field(1, "int32")},
    "ImmediateResponse": {
        "status": _Field(1, "HttpStatus"),
        "body": _Field(3, "bytes"),
        "details": _Field(5, "string"),
    },
    "ProcessingResponse": {
        "request_headers": _Field(1, "HeadersResponse", in_oneof=True),
        "request_body": _Field(3, "BodyResponse", in_oneof=True),
        "request_trailers": _Field(5, "TrailersResponse", in_oneof=True),
        "immediate_response": _Field(7, "ImmediateResponse", in_oneof=True),
        "dynamic_metadata": _Field(8, _STRUCT),
    },
}


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="modelplane/ext_proc.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.append(STRUCT.name)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if any(field.in_oneof for field in fields.values()):
            message.oneof_decl.add(name="kind")
        for field_name, field in fields.items():
            message.field.append(_descriptor(field_name, field))
    return file


def _descriptor(name: str, field: _Field) -> FieldDescriptorProto:
    repeated, one = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.LABEL_OPTIONAL
    descriptor = FieldDescriptorProto(
        name=name, number=field.number, label=repeated if field.repeated else one
    )
    scalar = getattr(FieldDescriptorProto, f"TYPE_{field.type.upper()}", None)
    if scalar is None:
        descriptor.type = FieldDescriptorProto.TYPE_MESSAGE
        descriptor.type_name = field.type if field.type.startswith(".") else f".{_PACKAGE}.{field.type}"
    else:
        descriptor.type = scalar
    if field.in_oneof:
        descriptor.oneof_index = 0
    return descriptor


def _classes() -> dict[str, Any]:
    pool = DescriptorPool()
    pool.AddSerializedFile(STRUCT.serialized_pb)
    pool.Add(_file())
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("ProcessingRequest", "ProcessingResponse")
    }


_CLASSES = _classes()
ProcessingRequest: Any = _CLASSES["ProcessingRequest"]
ProcessingResponse: Any = _CLASSES["ProcessingResponse"]

"""Objects to and from protobuf, as Crossplane converts them: every number is a double on the way."""

from collections.abc import Mapping
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf import struct_pb2

from support.crossplane.api import Stored


def value(item: Any) -> struct_pb2.Value:
    """Return a value of JSON as protobuf has it."""
    match item:
        case None:
            return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
        case bool():
            return struct_pb2.Value(bool_value=item)
        case int() | float():
            return struct_pb2.Value(number_value=item)
        case str():
            return struct_pb2.Value(string_value=item)
        case list() | tuple():
            return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[value(each) for each in item]))
        case _:
            return struct_pb2.Value(struct_value=struct(item))


def struct(item: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return an object as protobuf has it."""
    return struct_pb2.Struct(fields={name: value(field) for name, field in item.items()})


def plain(item: struct_pb2.Struct) -> dict[str, Any]:
    """Return an object as JSON has it; a whole number is a whole number again."""
    return {name: _plain(field) for name, field in item.fields.items()}


def _plain(item: struct_pb2.Value) -> Any:
    match item.WhichOneof("kind"):
        case "bool_value":
            return item.bool_value
        case "number_value":
            number = item.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return item.string_value
        case "list_value":
            return [_plain(each) for each in item.list_value.values]
        case "struct_value":
            return plain(item.struct_value)
        case _:
            return None


class Resources:
    """Stored objects as protobuf has them, each converted once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], fnv1.Resource] = {}

    def resource(self, stored: Stored) -> fnv1.Resource:
        """Return an object as a request carries it."""
        metadata = stored.object["metadata"]
        key = (metadata["uid"], metadata["resourceVersion"])
        if key not in self._known:
            self._known[key] = fnv1.Resource(resource=struct(stored.served()))
        return self._known[key]

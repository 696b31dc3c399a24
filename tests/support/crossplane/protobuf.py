"""Objects to and from protobuf, as Crossplane converts them: every number is a double on the way."""

from collections.abc import Iterable, Mapping
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf import struct_pb2

from support.crossplane.api import Stored


def struct(item: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return an object as protobuf has it, however deep: Go's library, which Crossplane uses, has no bound.

    Python's has one for what it reads, and a message that is made of another is read again.
    """
    made = struct_pb2.Struct()
    _fill(made, item)
    return made


def _fill(made: struct_pb2.Struct, item: Mapping[str, Any]) -> None:
    fields = made.fields
    for name, field in item.items():
        _set(fields[name], field)


def _set(made: struct_pb2.Value, item: Any) -> None:
    match item:
        case None:
            made.null_value = struct_pb2.NULL_VALUE
        case bool():
            made.bool_value = item
        case int() | float():
            made.number_value = item
        case str():
            made.string_value = item
        case list() | tuple():
            made.list_value.SetInParent()
            for each in item:
                _set(made.list_value.values.add(), each)
        case _:
            made.struct_value.SetInParent()
            _fill(made.struct_value, item)


def plain(item: struct_pb2.Struct) -> dict[str, Any]:
    """Return an object as JSON has it; a whole number is a whole number again."""
    fields = item.fields
    return {name: _plain(fields[name]) for name in fields}


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
            self._known[key] = fnv1.Resource()
            self._known[key].resource.CopyFrom(struct(stored.served()))
        return self._known[key]

    def resources(self, found: Iterable[Stored]) -> fnv1.Resources:
        """Return objects as a request carries those that were required."""
        items = fnv1.Resources()
        for stored in found:
            items.items.add().CopyFrom(self.resource(stored))
        return items

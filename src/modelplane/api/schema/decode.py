"""Decoding and encoding: between the wire form of an object and its type.

Objects from an API server are decoded once, at the edge. An object that cannot be decoded is reported with
its name and the field, never read in part.
"""

from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import msgspec

from modelplane.api.kinds import find_kind, kind_of
from modelplane.api.meta import Model

ModelT = TypeVar("ModelT", bound=Model)
T = TypeVar("T")

_converted: set[Any] = set()
_first_conversion = Lock()


class InvalidObject(ValueError):
    """An object whose content does not fit its kind."""

    def __init__(self, kind: str, name: str, path: str, cause: str) -> None:
        self.kind = kind
        self.name = name
        self.path = path
        self.cause = cause
        where = f"{path}: " if path else ""
        super().__init__(f'cannot read {kind} "{name}": {where}{cause}')


def decode(obj: Mapping[str, Any]) -> Model:
    """Return an object of one of our kinds as its type.

    Raises ``InvalidObject`` naming the first field that does not fit, or a kind that is not ours.
    """
    api_version, name = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    try:
        kind = find_kind(api_version, name)
    except KeyError:
        raise InvalidObject(
            name or "object", _name(obj), "kind", f'"{name}" of "{api_version}" is not a kind of Modelplane'
        ) from None
    return decode_as(kind.type, obj)


def decode_as(type_: type[ModelT], obj: Mapping[str, Any]) -> ModelT:
    """Return an object as the given type, regardless of its kind.

    Raises ``InvalidObject`` naming the first field that does not fit.
    """
    try:
        return convert(obj, type_)
    except msgspec.ValidationError as error:
        cause, _, path = str(error).partition(" - at `$")
        raise InvalidObject(
            type_.__name__, _name(obj), path.rstrip("`").lstrip("."), cause[:1].lower() + cause[1:]
        ) from None


def convert(value: Any, type_: type[T]) -> T:
    """Return a value of built-in types as the given type.

    Raises ``msgspec.ValidationError``. Use it in place of ``msgspec.convert``: msgspec analyzes a type, and
    those of its fields, at the first conversion, and a second thread that meets one half analyzed crashes
    the process.
    """
    if type_ in _converted:
        return msgspec.convert(value, type_)
    with _first_conversion:
        try:
            return msgspec.convert(value, type_)
        finally:
            _converted.add(type_)


def encode(model: Model) -> dict[str, Any]:
    """Return an object in its wire form, with ``apiVersion`` and ``kind``.

    A default is written if an API server would fill it in: one that is not empty.
    """
    kind = kind_of(type(model))
    return {"apiVersion": kind.api_version, "kind": kind.name, **_fields(model)}


def _fields(model: Model) -> dict[str, Any]:
    return {
        name: _wire(value)
        for attribute, name, default in _wire_fields(type(model))
        if (value := getattr(model, attribute)) is not default and (value or value != default)
    }


@cache
def _wire_fields(type_: type[Model]) -> tuple[tuple[str, str, Any], ...]:
    """Return the attribute, wire name and empty default of each field of a type."""
    return tuple(
        (field.name, field.encode_name, _empty_default(field)) for field in msgspec.structs.fields(type_)
    )


def _empty_default(field: msgspec.structs.FieldInfo) -> Any:
    """Return the default at which a field is left out; ``NODEFAULT`` if it is always written."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    is_filled_in = bool(field.default) and not isinstance(field.default, Model)
    return msgspec.NODEFAULT if is_filled_in else field.default


def _wire(value: Any) -> Any:
    match value:
        case Model():
            return _fields(value)
        case tuple():
            return [_wire(item) for item in value]
        case Mapping():
            return {key: _wire(item) for key, item in value.items()}
        case _:
            return msgspec.to_builtins(value)


def _name(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    return f"{namespace}/{name}" if namespace else str(name)

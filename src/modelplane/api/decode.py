"""Between the wire form of an object and its type.

Whatever comes from an API server is decoded once, at the edge; what cannot be
decoded is reported with the object and the field, never half-read.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from modelplane.api.kinds import kind_named, kind_of
from modelplane.api.meta import Model

ModelT = TypeVar("ModelT", bound=Model)


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
        kind = kind_named(api_version, name)
    except KeyError:
        what = name or "object"
        raise InvalidObject(
            what, _name(obj), "kind", f'"{name}" of "{api_version}" is not a kind of Modelplane'
        ) from None
    return decode_as(kind.type, obj)


def decode_as(type_: type[ModelT], obj: Mapping[str, Any]) -> ModelT:
    """Return an object as the given type, whatever it says its kind is.

    Raises ``InvalidObject`` naming the first field that does not fit.
    """
    try:
        return msgspec.convert(obj, type_)
    except msgspec.ValidationError as error:
        cause, _, path = str(error).partition(" - at `$")
        raise InvalidObject(
            type_.__name__, _name(obj), path.rstrip("`").lstrip("."), cause[:1].lower() + cause[1:]
        ) from None


def encode(model: Model) -> dict[str, Any]:
    """Return an object in its wire form: ``apiVersion`` and ``kind``, and no field at its default."""
    kind = kind_of(type(model))
    # Through JSON, because that has one kind of list: a tuple would not equal what a server returns.
    content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(model))
    return {"apiVersion": kind.api_version, "kind": kind.name, **content}


def _name(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    return f"{namespace}/{name}" if namespace else str(name)

"""Documents that commands print with ``-o json``, and redaction of the data of Secrets.

Within one ``schemaVersion`` a field keeps its name, type and meaning; fields and values may be added.
``docs/reference/output`` has the JSON Schemas, generated from these types.

One rule: neither the data of a Secret nor any text that contains one of its values is ever printed.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

HIDDEN: Final = "(hidden)"
_SHORTEST = 6  # a shorter one is in other texts by chance, as in "true"


def collect_hidden_values(objects: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return every value of the Secrets among the objects, decoded and encoded."""
    values: set[str] = set()
    for item in objects:
        if item.get("kind") != "Secret":
            continue
        values.update(map(str, (item.get("stringData") or {}).values()))
        for encoded in map(str, (item.get("data") or {}).values()):
            values.add(encoded)
            try:
                values.add(base64.b64decode(encoded, validate=True).decode())
            except (binascii.Error, UnicodeDecodeError):
                continue
    return frozenset(value for value in values if len(value) >= _SHORTEST)


def redact(value: Any, hidden: frozenset[str] = frozenset()) -> Any:
    """Return a document without the data of Secrets and without texts that contain a hidden value."""
    if isinstance(value, Mapping):
        whole = {key: redact(child, hidden) for key, child in value.items()}
        if value.get("kind") == "Secret":
            for key in ("data", "stringData"):
                if isinstance(whole.get(key), dict):
                    whole[key] = dict.fromkeys(whole[key], HIDDEN)
        return whole
    if isinstance(value, list | tuple):
        return [redact(child, hidden) for child in value]
    if isinstance(value, str) and any(secret in value for secret in hidden):
        return HIDDEN
    return value


SCHEMA_VERSION: Final = 1


class Output(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Part of a document; its names on the wire are the camel-case forms of its fields."""


class Report(Output, frozen=True, kw_only=True):
    """A whole document. Each type of report has its own ``kind``."""

    schema_version: int = SCHEMA_VERSION


def to_json(output: Output | Mapping[str, Any]) -> str:
    """Return a document as text."""
    return msgspec.json.format(msgspec.json.encode(output), indent=2).decode()


def build_json_schema(type_: type[Report]) -> dict[str, Any]:
    """Return the JSON Schema of a type of report. Every field is required, because each is always written."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    # Through JSON, which turns tuples into lists.
    schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(type_)))
    for definition in schema["$defs"].values():
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
    return dialect | schema

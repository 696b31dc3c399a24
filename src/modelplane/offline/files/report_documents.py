"""Documents that commands print with ``-o json``.

Within one ``schemaVersion`` a field keeps its name, type and meaning; fields and values may be added.
``docs/reference/output`` has the JSON Schemas, generated from these types.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

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

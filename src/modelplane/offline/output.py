"""Documents that commands print with ``-o json``.

One rule: a field keeps its name and meaning while ``schemaVersion`` is the same; fields may be added.
``docs/reference/output`` has their JSON Schemas, generated from these types.
"""

from typing import Any

import msgspec

SCHEMA_VERSION = 1


class Output(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Part of a document; its names on the wire are the camel-case forms of its fields."""


class Report(Output, frozen=True, kw_only=True):
    """A whole document. Each kind of report names itself in ``kind``."""

    schema_version: int = SCHEMA_VERSION


def as_json(output: Output) -> str:
    """Return a document as JSON text."""
    return msgspec.json.format(msgspec.json.encode(output), indent=2).decode()


def json_schema(type_: type[Report]) -> dict[str, Any]:
    """Return the JSON Schema of a kind of report."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    # Through JSON, which has only one type of list.
    schema: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(type_)))
    return dialect | schema

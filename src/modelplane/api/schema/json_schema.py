"""JSON Schemas of the kinds, for editors and for validators that read no CustomResourceDefinition.

They are the schemas of the CRDs in the dialect that those programs know (draft 7): the fields that a CRD
prunes are refused, and what only an API server evaluates, its CEL rules, is left out.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from modelplane.api.kinds import Kind
from modelplane.api.names import MAX_LENGTH
from modelplane.api.schema import crd

Schema = dict[str, Any]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
_OWN: Final = "x-kubernetes-"
_FORMS: Final = ("anyOf", "allOf", "oneOf")
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}


def build_file_name(kind: Kind) -> str:
    """Return the path of a kind's schema in a catalogue: ``GROUP/KIND_VERSION.json``."""
    return f"{kind.group}/{kind.singular}_{kind.version}.json"


def build_json_schema(kind: Kind) -> Schema:
    """Return the JSON Schema of a kind's manifests."""
    return {"$schema": _DRAFT, "title": kind.name, **_manifest(kind)}


def combine_schemas(kinds: Iterable[Kind]) -> Schema:
    """Return one JSON Schema for manifests of several kinds. Objects of other kinds match it too."""
    listed = tuple(kinds)
    return {
        "$schema": _DRAFT,
        "title": "Modelplane",
        "type": "object",
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}},
        "required": ["apiVersion", "kind"],
        "allOf": [
            {
                "if": {
                    "required": ["apiVersion", "kind"],
                    "properties": {
                        "apiVersion": {"const": kind.api_version},
                        "kind": {"const": kind.name},
                    },
                },
                "then": {"$ref": f"#/definitions/{kind.name}"},
            }
            for kind in listed
        ],
        "definitions": {kind.name: _manifest(kind) for kind in listed},
    }


def _manifest(kind: Kind) -> Schema:
    written = _plain(crd.build_schema(kind))
    fields = written["properties"]
    described = {name: fields[name]["description"] for name in ("apiVersion", "kind")}
    # The metadata that authors write; a server adds more.
    properties: Schema = {
        "name": {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH, "description": "Name."},
        "labels": _TEXTS,
        "annotations": _TEXTS,
    }
    if kind.namespaced:
        properties["namespace"] = {"type": "string", "description": "Namespace; default if it is absent."}
    own = {
        "apiVersion": {"description": described["apiVersion"], "enum": [kind.api_version]},
        "kind": {"description": described["kind"], "enum": [kind.name]},
        "metadata": {"type": "object", "properties": properties},
    }
    return {
        **written,
        "required": ["apiVersion", "kind", "metadata", *written["required"]],
        "properties": {**fields, **own},
    }


def _plain(schema: Mapping[str, Any], *, closed: bool = True) -> Schema:
    """Return a structural schema as JSON Schema.

    A form of several (``anyOf``) names a part of the fields only, so only the whole is ``closed``.
    """
    plain: Schema = {
        key: value
        for key, value in schema.items()
        if not key.startswith(_OWN) and (key, value) != ("format", "int64")
    }
    for key in ("items", "not"):
        if key in plain:
            plain[key] = _plain(plain[key], closed=closed and key != "not")
    for key in _FORMS:
        if key in plain:
            plain[key] = [_plain(option, closed=False) for option in plain[key]]
    if isinstance(plain.get("additionalProperties"), Mapping):
        plain["additionalProperties"] = _plain(plain["additionalProperties"], closed=closed)
    if "properties" in plain:
        plain["properties"] = {
            name: _plain(field, closed=closed) for name, field in plain["properties"].items()
        }
        if closed and not schema.get(_KEEPS):
            plain.setdefault("additionalProperties", False)
    return plain

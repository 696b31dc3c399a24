"""Rules of an API server for ``metadata``, as a schema like those of the kinds.

CustomResourceDefinitions leave metadata to the server, so this is the one schema that is not generated.
Source: k8s.io/apimachinery v0.35 ``pkg/api/validation`` and ``pkg/apis/meta/v1``.
"""

from typing import Any

from modelplane.api.schema.fields import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_KEYS, Rule

Schema = dict[str, Any]

MAX_ANNOTATIONS = 256 * 1024
"""Bytes of all annotations of an object, keys and values."""

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer", "format": "int64"}
_TIME: Schema = {"type": "string", "format": "date-time"}
# Upper case passes in the prefix of an annotation's key, not in that of a label's.
_ANNOTATION_KEYS = Rule(
    QUALIFIED_KEYS.expression.replace("validate(key)", "validate(key.lowerAscii())"), QUALIFIED_KEYS.message
)
_OWNER: Schema = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        **{name: {"type": "string", "minLength": 1} for name in ("apiVersion", "kind", "name", "uid")},
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}


def build_metadata_schema(*, namespaced: bool) -> Schema:
    """Return the schema of a kind's ``metadata``."""
    properties: Schema = {
        "name": {
            **_TEXT,
            "minLength": 1,
            "maxLength": 253,
            "pattern": DNS_SUBDOMAIN,
            "description": "The object's name, such as qwen3-8b.",
        },
        "generateName": _TEXT,
        "labels": {
            "type": "object",
            "additionalProperties": {**_TEXT, "maxLength": 63, "pattern": LABEL_VALUE},
            "x-kubernetes-validations": [QUALIFIED_KEYS.build_schema()],
        },
        "annotations": {
            "type": "object",
            "additionalProperties": _TEXT,
            "x-kubernetes-validations": [_ANNOTATION_KEYS.build_schema()],
        },
        "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": _OWNER},
        # Set by the server, and present in its output.
        "managedFields": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "selfLink": _TEXT,
        "generation": _NUMBER,
        "deletionGracePeriodSeconds": _NUMBER,
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
    }
    properties["namespace"] = {**_TEXT, **({"maxLength": 63, "pattern": DNS_LABEL} if namespaced else {})}
    return {
        "type": "object",
        "required": ["name"],
        "properties": properties,
        "description": "Name of the object, and its namespace and labels.",
    }

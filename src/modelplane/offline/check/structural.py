"""A structural schema: lookup of fields, defaults, search by name, and its CEL rules.

Every schema that ``modelplane.api.schema.crd`` writes is structural: each field is found under
``properties``, ``additionalProperties`` or ``items``, so a path of an object is also a path of its schema.

The expressions of rules (``x-kubernetes-validations``) and their messages come from the schema. Only the one
function that Kubernetes adds is defined here.

The compiler receives ``self`` without a type, so a rule that names a field that does not exist fails at
evaluation. The API server checks types, and rejects such a CRD.

CustomResourceDefinitions leave metadata to the server, so this is the one schema that is not generated.
Source: k8s.io/apimachinery v0.35 ``pkg/api/validation`` and ``pkg/apis/meta/v1``.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from modelplane.api.schema.fields import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    LABEL_VALUE,
    QUALIFIED_KEYS,
    QUALIFIED_NAME,
    Rule,
)
from modelplane.offline.files.diagnostics import Path
from modelplane.offline.files.tree import Node

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


_PREFIX_MAX: Final = 253
_NAME_MAX: Final = 63
_QUALIFIED_NAME: Final = re.compile(QUALIFIED_NAME)


def is_met(expression: str, value: Any) -> bool:
    """Return True if a rule holds for a value. One that cannot be evaluated does not, as on the server."""
    try:
        result = _program(expression).eval(data={"self": value})
    except (RuntimeError, ValueError, TypeError, OverflowError):
        return False
    return result.type().name() == "BOOL" and result.value() is True


@functools.cache
def list_fields(expression: str) -> tuple[tuple[str, ...], ...]:
    """Return the fields below ``self`` that a rule names; one empty path if it reads all of it."""
    paths = {
        tuple(field_path[1:].split(".")) if field_path else () for field_path in _SELF.findall(expression)
    }
    return tuple(sorted(paths))


_SELF: Final = re.compile(r"\bself\b((?:\.[A-Za-z_]\w*\b(?!\())*)")


@functools.cache
def _program(expression: str) -> Any:
    return _environment().compile(expression)


@functools.cache
def _environment() -> Any:
    text, findings = cel.Type.STRING, cel.Type.LIST
    # In Kubernetes a format is a value of its own and its findings are an optional list. Declared here as
    # the format's name and a list, because the library's optional values cannot be made in Python.
    functions = [
        _function(f"format.{name}", [], text, functools.partial(str, name), member=False) for name in _FORMATS
    ]
    functions.append(
        _function("validate", [text, text], findings, lambda name, value: _FORMATS[name](value), member=True)
    )
    functions.append(_function("hasValue", [findings], cel.Type.BOOL, bool, member=True))
    functions.append(_function("sum", [cel.Type.LIST], cel.Type.INT, sum, member=True))
    return cel.NewEnv(
        variables={"self": cel.Type.DYN}, extensions=[ext_strings.ExtStrings(2)], functions=functions
    )


def _function(
    name: str, parameters: list[Any], result: Any, meaning: Callable[..., Any], *, member: bool
) -> Any:
    overload = cel.Overload(name, return_type=result, parameters=parameters, is_member=member, impl=meaning)
    return cel.FunctionDecl(name, [overload])


def _qualified_name(value: str) -> list[str]:
    prefix, slash, name = value.rpartition("/")
    fits = len(prefix) <= _PREFIX_MAX and len(name) <= _NAME_MAX and bool(prefix) == bool(slash)
    return [] if fits and _QUALIFIED_NAME.fullmatch(value) else ["not a qualified name"]


_FORMATS: Final[Mapping[str, Any]] = {"qualifiedName": _qualified_name}

_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"


def find_child(schema: Schema, step: str | int) -> Schema | None:
    """Return the schema of a field or an item; None if it is unknown."""
    if isinstance(step, int):
        items: Schema | None = schema.get("items")
        return items
    property_schema: Schema | None = schema.get("properties", {}).get(step)
    if property_schema is not None:
        return property_schema
    others = schema.get("additionalProperties")
    return others if isinstance(others, dict) else None


def find_schema(schema: Schema, path: Path) -> Schema:
    """Return the schema of the value at a path; an empty one if there is none."""
    for step in path:
        schema = find_child(schema, step) or {}
    return schema


class Completed(msgspec.Struct, frozen=True):
    """An object as an API server would store it, and the fields that it would drop."""

    value: Any
    unknown: list[Path] = msgspec.field(default_factory=list)
    empty: list[Path] = msgspec.field(default_factory=list)
    """Fields without a value, which are treated as absent."""


def complete(node: Node, schema: Schema) -> Completed:
    """Return an object without unknown fields and nulls, and with defaults, in the server's order."""
    completed = Completed(None)
    return msgspec.structs.replace(completed, value=_completed(node, schema, (), completed))


def _completed(node: Node, schema: Schema, path: Path, completed: Completed) -> Any:
    if isinstance(node.value, dict):
        return _mapping(node, schema, path, completed)
    if isinstance(node.value, list):
        items = schema.get("items", {_KEEPS: True})
        return [_completed(child, items, (*path, index), completed) for index, child in enumerate(node.value)]
    return node.value


def _mapping(node: Node, schema: Schema, path: Path, completed: Completed) -> dict[str, Any]:
    properties = schema.get("properties", {})
    # A value of another type is one error, not one for each of its fields.
    anything = not properties and (schema.get(_KEEPS) or schema.get("type") != "object")
    value: dict[str, Any] = {}
    for name, child in _fields(node):
        field_schema = {_KEEPS: True} if anything else find_child(schema, name)
        if field_schema is None:
            completed.unknown.append((*path, name))
        elif child.value is None:
            completed.empty.extend(() if anything else ((*path, name),))
        else:
            value[name] = _completed(child, field_schema, (*path, name), completed)
    for name, field_schema in properties.items():
        if "default" in field_schema:
            value.setdefault(name, field_schema["default"])
    return value


def _fields(node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node.value, dict):
        yield from node.value.items()


def find_homes(schema: Schema, path: Path) -> list[Path]:
    """Return the paths where a misplaced field may belong: the nearest ones with a field of its name.

    Enclosed objects come before enclosing ones. An item of a list is written as its first.
    """
    parent, name = path[:-1], path[-1]
    homes: dict[tuple[int, bool], list[Path]] = {}
    for place in _places(schema, ()):
        if place[-1] == name:
            steps = count_steps(parent, place[:-1])
            inside = len(place) > len(path) and count_steps((), place[:-1]) == count_steps((), parent) + steps
            homes.setdefault((steps, not inside), []).append(place)
    return homes[min(homes)] if homes else []


def _places(schema: Schema, path: Path) -> Iterator[Path]:
    """Yield the path of every named field of a schema."""
    for name, field_schema in schema.get("properties", {}).items():
        if path or name != "status":
            yield (*path, name)
            yield from _places(field_schema, (*path, name))
    if "items" in schema:
        yield from _places(schema["items"], (*path, 0))


def count_steps(one: Path, other: Path) -> int:
    """Return the number of steps from one object to the other."""
    return sum(_apart(one, other))


def is_in_line(one: Path, other: Path) -> bool:
    """Return True if one of two objects is in the other."""
    return 0 in _apart(one, other)


def _apart(one: Path, other: Path) -> tuple[int, int]:
    """Return the number of steps to each of two objects from the innermost one around both."""
    first, second = (tuple(0 if isinstance(step, int) else step for step in path) for path in (one, other))
    shared = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        shared += 1
    # A position in a list is part of the step to the list.
    return _names(first[shared:]), _names(second[shared:])


def _names(steps: Path) -> int:
    return sum(isinstance(step, str) for step in steps)

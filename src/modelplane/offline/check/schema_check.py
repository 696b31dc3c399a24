"""Check of values against a structural schema, with a message for each way to fail.

One rule: a library decides about validity; this module only writes the remedy.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import jsonschema_rs
import msgspec
from jsonschema_rs import ValidationError, ValidationErrorKind

from modelplane.api.schema import fields
from modelplane.offline.check import structural
from modelplane.offline.check.structural import Schema
from modelplane.offline.files.diagnostics import Path, find_nearest, join_choices, quote
from modelplane.offline.files.tree import Node
from modelplane.offline.files.yaml_text import NotFinite, resolve

INT64: Final = (-(2**63), 2**63 - 1)
_CHECKED: Final = frozenset(
    {
        *("type", "enum", "required", "pattern", "format", "minimum", "maximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    }
)


class Violation(msgspec.Struct, frozen=True):
    """A value that its schema does not allow."""

    path: Path
    message: str
    missing: bool = False
    """True if the path names a missing field."""
    formless: bool = False
    """True if the value matches none of several allowed forms."""


def find_violations(validator: "Validator", value: Any, node: Node) -> Iterator[Violation]:
    """Yield the problems of an object with its defaults. The node has the values as written."""
    for error in validator.iterate_errors(value):
        closest = _closest(error)
        path = tuple(closest.instance_path)
        schema = structural.find_schema(validator.schema, path)
        if isinstance(closest.kind, ValidationErrorKind.Required):
            path = (*path, closest.kind.property)
            yield Violation(
                path, _required(structural.find_schema(validator.schema, path)), True, closest is not error
            )
        else:
            yield Violation(path, _sentence(closest, schema, node.find(path)), formless=closest is not error)


class Validator:
    """A structural schema, compiled."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._validator = jsonschema_rs.Draft202012Validator(
            _json_schema(schema),
            validate_formats=True,
            # Linear in the value's length, and "$" means the end, as in the server's regular expressions.
            pattern_options=jsonschema_rs.RegexOptions(),
        )

    def iterate_errors(self, value: Any) -> Iterator[ValidationError]:
        """Yield the library's findings."""
        yield from self._validator.iter_errors(value)


def _json_schema(schema: Any) -> Any:
    """Return a structural schema as JSON Schema: without Kubernetes' own keywords, with int64's range."""
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key in _CHECKED and value != "int64"}
    if schema.get("format") == "int64":
        plain = {"minimum": INT64[0], "maximum": INT64[1]} | plain
    for key in ("items", "additionalProperties", "not"):
        if key in schema:
            plain[key] = _json_schema(schema[key])
    for key in ("anyOf", "allOf", "oneOf"):
        if key in schema:
            plain[key] = [_json_schema(item) for item in schema[key]]
    if "properties" in schema:
        plain["properties"] = {
            name: _json_schema(property_schema) for name, property_schema in schema["properties"].items()
        }
    return plain


def _closest(error: ValidationError) -> ValidationError:
    """Return the problems of a value of several forms by the form that is closest."""
    while isinstance(error.kind, ValidationErrorKind.AnyOf):
        forms = [form for form in error.kind.context if form]
        error = min(forms, key=lambda form: (-len(form[0].instance_path), len(form)))[0]
    return error


def _required(schema: Schema) -> str:
    return f"is required: {_about(schema)}" if schema.get("description") else "is required"


def _sentence(error: ValidationError, schema: Schema, node: Node | None) -> str:
    value, kind = error.instance, error.kind
    write = _SENTENCES.get(type(kind))
    if write is None:
        return f"{quote(value)} is not valid: {_about(schema)}"
    return write(kind, value, schema, node)


def _about(schema: Schema) -> str:
    """Return the purpose of a field, which its first sentence describes, as the end of a sentence."""
    text = str(schema.get("description", "see the reference page of the kind")).partition(". ")[0].rstrip(".")
    return text[:1].lower() + text[1:] if _CAPITAL.match(text) else text


_CAPITAL: Final = re.compile(r"[A-Z][a-z]*\b")  # not that of DeviceClass

_NOUNS: Final = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "object": "a mapping of fields",
    "array": "a list",
}


def _type(kind: Any, value: Any, schema: Schema, node: Node | None) -> str:
    type_ = kind.types[0]
    return f"must be {_NOUNS[type_]}, not {_given(value, node)}: {_remedy(type_, value, schema, node)}"


def _given(value: Any, node: Node | None) -> str:
    if isinstance(value, str):
        return f"the text {quote(value)}"
    if isinstance(value, bool) and node is not None and node.text.lower() not in ("true", "false"):
        return f"{quote(value)}, which is how YAML reads {node.text}"
    return "nothing" if value is None else quote(value)


def _remedy(type_: str, value: Any, schema: Schema, node: Node | None) -> str:
    match type_, value:
        case ("string", bool() | int() | float()):
            return f'put it in quotes, "{quote(value) if node is None else node.text}"'
        case ("integer" | "boolean", str()) if node is not None and node.style and _means(type_, value):
            return "remove the quotes"
        case ("array", _):
            return 'begin each item with "- "'
        case ("object", list()):
            return 'remove the "- "'
        case ("object", _) if schema.get("properties"):
            names = [*schema["properties"]]
            return (
                f"its fields are {join_choices(names)}" if len(names) > 1 else f"its only field is {names[0]}"
            )
    return _about(schema)


def _means(type_: str, text: str) -> bool:
    """Return True if a text would be of a type without its quotes."""
    try:
        return type(resolve(text)) is {"integer": int, "boolean": bool}[type_]
    except NotFinite:
        return False


def _enum(kind: Any, value: Any, _schema: Schema, _node: Node | None) -> str:
    options = kind.options
    if len(options) == 1:
        return f"must be {quote(options[0])}, not {quote(value)}"
    text = f"{quote(value)} is not one of {join_choices(options)}"
    from modelplane.offline.check import renamed_fields  # noqa: PLC0415  few values need it

    near = renamed_fields.CLUSTER_SOURCES.get(str(value))
    if near not in options:
        near = find_nearest(value, map(str, options), 0.6) if isinstance(value, str) else None
    return f"{text}; did you mean {near}?" if near else f"{text}: choose one"


_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    fields.DNS_LABEL: (
        "a DNS label",
        "use lower-case letters, digits and '-', with a letter or digit at both ends",
    ),
    fields.DNS_SUBDOMAIN: (
        "a DNS subdomain",
        "use lower-case letters, digits, '-' and '.', with a letter or digit at both ends",
    ),
    fields.DRIVER_NAME: ("a driver's name", "write it as a DNS subdomain, such as gpu.nvidia.com"),
    fields.QUALIFIED_NAME: (
        "a label's key",
        "use letters, digits, '-', '_' and '.', after an optional DNS subdomain and a slash",
    ),
    fields.LABEL_VALUE: (
        "a label's value",
        "use letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    ),
    fields.SECRET_KEY: ("a key of a Secret", "use letters, digits, '-', '_' and '.'"),
    fields.QUANTITY: ("a quantity", "write a number with a unit such as Gi, for example 80Gi"),
    fields.SEMVER: ("a version", "write three numbers, such as 9.0.0"),
}


def _pattern(kind: Any, value: Any, schema: Schema, _node: Node | None) -> str:
    noun, remedy = _FORMS.get(kind.pattern, ("", ""))
    if noun:
        return f"{quote(value)} is not {noun}: {remedy}"
    return f"{quote(value)} does not have the form of this field: {_about(schema)}"


def _format(kind: Any, value: Any, schema: Schema, _node: Node | None) -> str:
    if kind.format == "date-time":
        return f"{quote(value)} is not a time: use a value such as 2026-01-31T12:00:00Z"
    return f"{quote(value)} is not of format {kind.format}: {_about(schema)}"


def _size(noun: str, least: bool) -> Callable[[Any, Any, Schema, Node | None], str]:
    def write(kind: Any, value: Any, schema: Schema, _node: Node | None) -> str:
        if least and not value:
            return f"must not be empty: {_about(schema)}"
        bound = "least" if least else "most"
        return f"has {len(value)} {noun if len(value) != 1 else noun[:-1]}: the {bound} is {kind.limit}"

    return write


_SENTENCES: Final[Mapping[type, Callable[[Any, Any, Schema, Node | None], str]]] = {
    ValidationErrorKind.Type: _type,
    ValidationErrorKind.Enum: _enum,
    ValidationErrorKind.Pattern: _pattern,
    ValidationErrorKind.Format: _format,
    ValidationErrorKind.Minimum: lambda kind, value, *_: (
        f"{quote(value)} is too small: the minimum is {kind.limit}"
    ),
    ValidationErrorKind.Maximum: lambda kind, value, *_: (
        f"{quote(value)} is too large: the maximum is {kind.limit}"
    ),
    ValidationErrorKind.MinLength: _size("characters", least=True),
    ValidationErrorKind.MaxLength: _size("characters", least=False),
    ValidationErrorKind.MinItems: _size("items", least=True),
    ValidationErrorKind.MaxItems: _size("items", least=False),
    ValidationErrorKind.MinProperties: _size("entries", least=True),
    ValidationErrorKind.MaxProperties: _size("entries", least=False),
}
